package moves

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/column"
)

// Door is where reads, merges, deletes and repairs ask about rows that moves have not
// reached. It leads to parts of a shard, files and caches, older ones first. It is nil,
// which is closed, if no move waits for one of them: series and fields then are what the
// parts say.
type Door struct {
	list  *List
	end   int   // rows that come through the door have the names of the moves before it
	first []int // by part: the first move that its rows have not had yet
}

// Door returns the door to parts that end at sequences, ascending ones.
func (l *List) Door(ends ...uint64) *Door {
	if len(ends) == 0 || l.After(ends[0]) == l.Len() {
		return nil
	}
	d := &Door{list: l, end: l.Len(), first: make([]int, len(ends))}
	for i, end := range ends {
		d.first[i] = l.After(end)
	}
	return d
}

// Until returns the door of a merge that applies only the moves up to a sequence. Tombstones
// name series as of all moves, also behind it.
func (d *Door) Until(sequence uint64) *Door {
	if d == nil {
		return nil
	}
	return &Door{d.list, d.list.After(sequence), d.first}
}

// open reports whether there is a move to apply.
func (d *Door) open() bool { return d != nil && d.first[0] < d.end }

// Moved reports whether parts may have rows of a series as those of another one, or rows of
// another one as those of the series: Places says where its rows are.
func (d *Door) Moved(id model.SeriesID) bool {
	return d.open() && d.list.involved.Contains(uint32(id))
}

// MovedAny reports whether a series of a set is Moved.
func (d *Door) MovedAny(set *roaring.Bitmap) bool {
	return d.open() && d.list.involved.Intersects(set)
}

// Involved returns the sources and targets of the moves to apply. The caller owns the set.
func (d *Door) Involved() *roaring.Bitmap {
	set := roaring.New()
	for _, m := range d.list.moves[:d.end] {
		set.Or(m.Pairs.involved)
	}
	return set
}

// Renamed returns the measurements of which a field is renamed.
func (d *Door) Renamed() (out []string) {
	for name, at := range d.list.renames {
		if at[0] < d.end {
			out = append(out, name)
		}
	}
	return out
}

// Connected appends a series to dst, with all that get rows from it or give rows to it, and
// that are connected with these. It adds them to seen, and appends none that is in seen
// already.
func (d *Door) Connected(dst []model.SeriesID, id model.SeriesID, seen *roaring.Bitmap) []model.SeriesID {
	at := len(dst)
	add := func(id model.SeriesID) bool {
		if seen.CheckedAdd(uint32(id)) {
			dst = append(dst, id)
		}
		return true
	}
	for add(id); at < len(dst) && d.end > 0; at++ {
		id := dst[at]
		for i := d.list.blocks.after(id, 0, d.end); i < d.end; i = d.list.blocks.after(id, i+1, d.end) {
			m := d.list.moves[i]
			if to, ok := m.Pairs.To(id); ok {
				add(to)
			}
			m.Pairs.From(id, add)
		}
	}
	return dst
}

// Place is where rows of a series are: in a part, as those of the series ID. Their fields
// have the names that Renames make of them.
type Place struct {
	Part    int
	ID      model.SeriesID
	Renames Renames
}

// Places calls fn with the places of the rows of a series of a measurement, older rows
// first, until fn returns false.
func (d *Door) Places(id model.SeriesID, measurement string, fn func(Place) bool) {
	d.before(d.end, id, measurement, nil, fn)
}

// before calls fn with the places of the rows that id has before the i-th move, and returns
// false after fn has.
func (d *Door) before(i int, id model.SeriesID, measurement string, renames Renames, fn func(Place) bool) bool {
	oldest := d.first[0]
	if i < oldest {
		return true // no part is as old
	}
	// The latest move that concerns the series: parts behind it have the rows as id.
	k := d.latest(id, measurement, oldest, i)
	if k > oldest {
		m := d.list.moves[k-1]
		if m.Change.Fields() {
			if !d.before(k-1, id, measurement, append(slices.Clip(renames), m.Change.RenameField), fn) {
				return false
			}
		} else {
			if !m.Pairs.sources.Contains(uint32(id)) && !d.before(k-1, id, measurement, renames, fn) {
				return false
			}
			if !m.Pairs.From(id, func(from model.SeriesID) bool { return d.before(k-1, from, m.Change.Measurement, renames, fn) }) {
				return false
			}
		}
	}
	part, _ := slices.BinarySearch(d.first, k)
	for ; part < len(d.first) && d.first[part] <= i; part++ {
		if !fn(Place{part, id, renames}) {
			return false
		}
	}
	return true
}

// latest returns the place behind the last of the moves [lo, hi) before which rows of a
// series of a measurement had other names, or after which other series have them, lo if
// there is none.
func (d *Door) latest(id model.SeriesID, measurement string, lo, hi int) int {
	k := d.list.blocks.before(id, lo, hi)
	if at := d.list.renames[measurement]; len(at) > 0 {
		if n, _ := slices.BinarySearch(at, hi); n > 0 {
			k = max(k, at[n-1]+1)
		}
	}
	return k
}

// Renames returns the renames of fields of a measurement, for rows of a part.
func (d *Door) Renames(part int, measurement string) Renames {
	if d == nil {
		return nil
	}
	return d.renames(measurement, d.first[part], d.end)
}

// renames returns those of the moves [lo, hi).
func (d *Door) renames(measurement string, lo, hi int) (out Renames) {
	for _, i := range slices.Backward(d.list.renames[measurement]) {
		if i >= lo && i < hi {
			out = append(out, d.list.moves[i].Change.RenameField)
		}
	}
	return out
}

// Name is which series has the rows that a part has as those of one series.
type Name struct {
	list *List // nil: always the same one
	next int   // move of list that may give them to another one
	id   model.SeriesID
}

// Name returns which series has the rows that a part has as those of id.
func (d *Door) Name(part int, id model.SeriesID) Name {
	if d == nil || !d.list.involved.Contains(uint32(id)) {
		return Name{id: id}
	}
	return Name{d.list, d.first[part], id}
}

// At returns the series as of a sequence. No later call asks for a lower one.
func (n *Name) At(sequence uint64) model.SeriesID {
	if n.list == nil {
		return n.id
	}
	until := n.list.After(sequence - 1)
	for n.next = n.list.blocks.after(n.id, n.next, until); n.next < until; n.next = n.list.blocks.after(n.id, n.next+1, until) {
		n.id = n.list.moves[n.next].to(n.id)
	}
	return n.id
}

// Original returns the series of a part whose rows belong to series of set as of a sequence.
func (d *Door) Original(part int, set *roaring.Bitmap, sequence uint64) *roaring.Bitmap {
	if d == nil {
		return set
	}
	next := d.first[part]
	for _, m := range slices.Backward(d.list.moves[next:max(next, d.list.After(sequence-1))]) {
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

// Present calls fn with the series that have had the rows of id of a part in turn, id first,
// and the series that has them now last. It returns the names that the fields of the rows
// have now. key is that of id.
func (d *Door) Present(part int, id model.SeriesID, key string, fields []column.Field, fn func(id model.SeriesID, key string) error) ([]column.Field, error) {
	if err := fn(id, key); d == nil || err != nil {
		return fields, err
	}
	for at := d.first[part]; ; at++ {
		k := d.list.blocks.after(id, at, d.end)
		if fields = d.renames(model.SeriesMeasurement(key), at, k).Fields(fields); k == d.end {
			return fields, nil
		}
		at = k
		if to, ok := d.list.moves[k].Pairs.To(id); ok {
			b, _ := d.list.moves[k].Change.AppendKey(nil, key, nil)
			id, key = to, string(b)
			if err := fn(id, key); err != nil {
				return fields, err
			}
		}
	}
}
