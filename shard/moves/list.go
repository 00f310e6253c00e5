package moves

import (
	"cmp"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/column"
)

// List is the moves that files or caches of a shard have not yet made of their rows,
// in the order of their sequences, those of one entry in the order in which it has them. A
// nil List is empty.
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

// Without returns the list as it is once the moves up to a sequence are made of all rows
// that the series of a set have or get, and of all other rows too if nothing is left. The
// set is as Connected makes it.
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

// After returns the place of the first move above a sequence. Rows of a part that ends
// at the sequence are concerned by it and all that follow.
func (l *List) After(sequence uint64) int {
	n, _ := slices.BinarySearchFunc(l.All(), sequence, func(m *Move, sequence uint64) int {
		if m.Sequence > sequence {
			return 1
		}
		return -1
	})
	return n
}

// Involves reports whether a series is a source or a target of a move.
func (l *List) Involves(id model.SeriesID) bool { return l.involved.Contains(uint32(id)) }

// InvolvesAny reports whether a series of a set is a source or a target of a move.
func (l *List) InvolvesAny(set *roaring.Bitmap) bool { return l.involved.Intersects(set) }

// Involved returns the sources and targets of the moves before the until-th. The caller
// owns the set.
func (l *List) Involved(until int) *roaring.Bitmap {
	set := roaring.New()
	for _, m := range l.All()[:until] {
		set.Or(m.Pairs.involved)
	}
	return set
}

// Renamed returns the measurements of which a move before the until-th renames a field.
func (l *List) Renamed(until int) (out []string) {
	for name, at := range l.renames {
		if at[0] < until {
			out = append(out, name)
		}
	}
	return out
}

// Connected appends a series to dst, with all that get rows from it or give rows to it by
// the moves before the until-th, and that are connected with these. It adds them to seen,
// and appends none that is in seen already.
func (l *List) Connected(dst []model.SeriesID, id model.SeriesID, until int, seen *roaring.Bitmap) []model.SeriesID {
	at := len(dst)
	add := func(id model.SeriesID) bool {
		if seen.CheckedAdd(uint32(id)) {
			dst = append(dst, id)
		}
		return true
	}
	for add(id); at < len(dst) && until > 0; at++ {
		id := dst[at]
		for i := l.blocks.after(id, 0, until); i < until; i = l.blocks.after(id, i+1, until) {
			m := l.moves[i]
			if to, ok := m.Pairs.To(id); ok {
				add(to)
			}
			m.Pairs.From(id, add)
		}
	}
	return dst
}

// Place is where rows of a series are: in a part of the shard, as those of the series
// ID. Their fields have the names that Renames make of them.
type Place struct {
	Part    int
	ID      model.SeriesID
	Renames Renames
}

// Places calls fn with the places of the rows of a series, older rows first, as the
// moves before the until-th have left them, until fn returns false. next says of each
// part, older parts first, the place of the first move that concerns it, see After.
// measurement is that of the series.
func (l *List) Places(id model.SeriesID, measurement string, until int, next []int, fn func(Place) bool) {
	w := placing{l, next, fn}
	w.walk(id, measurement, until, nil)
}

type placing struct {
	*List
	next []int
	fn   func(Place) bool
}

// concern returns the place behind the last of the moves [lo, hi) before which rows of a
// series of a measurement had other names, or after which other series have them, lo if
// there is none.
func (l *List) concern(id model.SeriesID, measurement string, lo, hi int) int {
	k := l.blocks.before(id, lo, hi)
	if at := l.renames[measurement]; len(at) > 0 {
		if n, _ := slices.BinarySearch(at, hi); n > 0 {
			k = max(k, at[n-1]+1)
		}
	}
	return k
}

// walk calls fn with the places of the rows that id has before the i-th move, and returns
// false after fn has.
func (w *placing) walk(id model.SeriesID, measurement string, i int, renames Renames) bool {
	if len(w.next) == 0 || i < w.next[0] {
		return true // no part is as old
	}
	// The latest move that concerns the series: parts behind it have the rows as id.
	k := w.next[0]
	if i > k {
		k = w.concern(id, measurement, k, i)
	}
	if k > w.next[0] {
		m := w.moves[k-1]
		if m.Change.Fields() {
			if !w.walk(id, measurement, k-1, append(slices.Clip(renames), m.Change.RenameField)) {
				return false
			}
		} else {
			if !m.Pairs.sources.Contains(uint32(id)) && !w.walk(id, measurement, k-1, renames) {
				return false
			}
			if !m.Pairs.From(id, func(from model.SeriesID) bool { return w.walk(from, m.Change.Measurement, k-1, renames) }) {
				return false
			}
		}
	}
	part, _ := slices.BinarySearch(w.next, k)
	for ; part < len(w.next) && w.next[part] <= i; part++ {
		if !w.fn(Place{part, id, renames}) {
			return false
		}
	}
	return true
}

// Keys calls fn with the series that have had the rows of id in turn, id first, and the
// series that has them now last. key is that of id.
func (l *List) Keys(id model.SeriesID, key string, fn func(id model.SeriesID, key string) error) error {
	err := fn(id, key)
	for i := 0; i < l.Len() && err == nil; i++ {
		if i = l.blocks.after(id, i, l.Len()); i == l.Len() {
			break
		}
		if to, ok := l.moves[i].Pairs.To(id); ok {
			b, _ := l.moves[i].Change.AppendKey(nil, key, nil)
			id, key = to, string(b)
			err = fn(id, key)
		}
	}
	return err
}

// at returns the series that has the rows of id as of a sequence, and makes next the place
// of the first move from there on.
func (l *List) at(id model.SeriesID, next *int, sequence uint64) model.SeriesID {
	for until := l.After(sequence - 1); *next < until; *next++ {
		if *next = l.blocks.after(id, *next, until); *next == until {
			break
		}
		id = l.moves[*next].to(id)
	}
	return id
}

// Names returns a function that gives, for ascending sequences, the series that has the
// rows of id then, in a part which the moves from next on concern.
func (l *List) Names(id model.SeriesID, next int) func(sequence uint64) model.SeriesID {
	if l == nil {
		return func(uint64) model.SeriesID { return id }
	}
	return func(sequence uint64) model.SeriesID {
		id = l.at(id, &next, sequence)
		return id
	}
}

// Original returns the series of a part whose rows belong to series of set as of a
// sequence, in a part which the moves from next on concern.
func (l *List) Original(set *roaring.Bitmap, next int, sequence uint64) *roaring.Bitmap {
	for _, m := range slices.Backward(l.All()[next:max(next, l.After(sequence-1))]) {
		if !m.Pairs.involved.Intersects(set) {
			continue
		}
		old := roaring.AndNot(set, m.Pairs.sources)
		_ = m.Pairs.All(func(from, to model.SeriesID) error {
			if set.Contains(uint32(to)) {
				old.Add(uint32(from))
			}
			return nil
		})
		set = old
	}
	return set
}

// Renames are the renames of fields that concern some rows, the latest first.
type Renames []model.Rename

// RenamesOf returns the renames of [from, until) of fields of a measurement.
func (l *List) RenamesOf(measurement string, from, until int) (out Renames) {
	for _, i := range slices.Backward(l.renames[measurement]) {
		if i >= from && i < until {
			out = append(out, l.moves[i].Change.RenameField)
		}
	}
	return out
}

// Original returns the key under which rows have a field, "" if they have none.
func (r Renames) Original(key string) string {
	for _, x := range r {
		switch key {
		case x.To:
			key = x.From
		case x.From:
			return ""
		}
	}
	return key
}

// Originals returns fields by the keys under which rows have them.
func (r Renames) Originals(fields []column.Field) []column.Field {
	if len(r) == 0 {
		return fields
	}
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i].Key = r.Original(fields[i].Key)
	}
	return fields
}

// Current returns the present key of a field that rows have under key, "" if it is gone: a
// field takes the key of another one only when no row has that.
func (r Renames) Current(key string) string {
	for _, x := range slices.Backward(r) {
		switch key {
		case x.From:
			key = x.To
		case x.To:
			return ""
		}
	}
	return key
}

// Fields returns the fields of the series id of a measurement by their present names.
func (l *List) Fields(id model.SeriesID, measurement string, fields []column.Field) []column.Field {
	var renames Renames
	for _, m := range l.All() {
		switch {
		case m.Change.Fields() && m.Change.Measurement == measurement:
			renames = slices.Insert(renames, 0, m.Change.RenameField)
		case m.Pairs.sources.Contains(uint32(id)):
			id, measurement = m.to(id), m.Change.To
		}
	}
	return renames.Fields(fields)
}

// Fields returns the fields of rows by their present names.
func (r Renames) Fields(fields []column.Field) []column.Field {
	if len(r) == 0 {
		return fields
	}
	out := make([]column.Field, 0, len(fields))
	for _, f := range fields {
		if f.Key = r.Current(f.Key); f.Key != "" {
			out = append(out, f)
		}
	}
	return column.UnionFields(out)
}
