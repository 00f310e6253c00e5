package moves

import (
	"cmp"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// List is the moves that wait: rows in files or caches of a shard have the names of before.
// Moves are in the order of their sequences, those of one entry in the order in which it has
// them. A nil List is empty.
type List struct {
	moves    []*Move
	blocks   blocks
	involved *roaring.Bitmap  // in any of them
	renames  map[string][]int // measurement -> places of the moves that rename a field of it
}

// newList returns a list of moves. It shares what it can with an old list.
func newList(moves []*Move, old *List) *List {
	if len(moves) == 0 {
		return nil
	}
	l := &List{moves: moves, renames: map[string][]int{}}
	common := 0
	for common < len(moves) && common < old.Len() && moves[common] == old.moves[common] {
		common++
	}
	if common > 0 {
		l.blocks = old.blocks
	}
	l.blocks = l.blocks.with(moves, common)
	l.involved = l.blocks.all()
	for i, m := range moves {
		if m.Change.Fields() {
			l.renames[m.Change.Measurement] = append(l.renames[m.Change.Measurement], i)
		}
	}
	return l
}

// NewList returns a list of moves, which it sorts. Those of a sequence keep their order.
func NewList(moves []*Move) *List {
	slices.SortStableFunc(moves, func(a, b *Move) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return newList(moves, nil)
}

// All returns the moves, which must not be changed.
func (l *List) All() []*Move {
	if l == nil {
		return nil
	}
	return l.moves
}

// Len returns the number of moves.
func (l *List) Len() int { return len(l.All()) }

// Bytes returns about what the list takes in memory.
func (l *List) Bytes() (n int64) {
	for _, m := range l.All() {
		n += m.Pairs.Bytes()
	}
	return n
}

// With returns the list with the moves of an entry, in their order, or the same list if
// it has them.
func (l *List) With(entry ...*Move) *List {
	if len(entry) == 0 {
		return l
	}
	sequence := entry[0].Sequence
	i := l.After(sequence - 1)
	if i < l.Len() && l.moves[i].Sequence == sequence {
		return l
	}
	return newList(slices.Insert(slices.Clone(l.All()), i, entry...), l)
}

// From returns the list from the i-th move on.
func (l *List) From(i int) *List {
	if i == 0 {
		return l
	}
	return newList(l.All()[i:], nil)
}

// Without returns the list behind a merge that has applied the moves up to a sequence to the
// rows of the series in set, which is closed under Connected. These moves lose the series of
// the set. If nothingLeft, no other rows wait for them, and the list loses them.
func (l *List) Without(set *roaring.Bitmap, sequence uint64, nothingLeft bool) *List {
	n := l.After(sequence)
	var left []*Move
	for _, m := range l.All()[:n] {
		if nothingLeft {
			break
		}
		if !m.Change.Fields() { // a field is renamed in files that have the set no more
			sources := roaring.AndNot(m.Pairs.sources, set)
			if sources.IsEmpty() {
				continue
			}
			part := *m
			part.Pairs = m.Pairs.Only(sources)
			m = &part
		}
		left = append(left, m)
	}
	return newList(append(left, l.All()[n:]...), l)
}

// After returns the place of the first move above a sequence. It and all that follow change
// the names of rows in a part that ends at the sequence.
func (l *List) After(sequence uint64) int {
	n, _ := slices.BinarySearchFunc(l.All(), sequence, func(m *Move, sequence uint64) int {
		if m.Sequence > sequence {
			return 1
		}
		return -1
	})
	return n
}
