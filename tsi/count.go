package tsi

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/tsi/dictionary"
)

// CountByTagValue calls f with each value of a tag key, ascending, and with the
// number of series of set that have it, above 0; a nil set is all series of the
// measurement. The walk ends where f returns false. value is f's until it returns.
func (v *View) CountByTagValue(measurement, key string, set *roaring.Bitmap, f func(value []byte, series int) bool) error {
	if set == nil {
		set = v.alive
	}
	w := valueWalk{}
	ids := map[*segmentValues]segmentIDs{}
	for _, s := range v.segments {
		t, ok := s.table(measurement, false, key)
		if !ok || t.columns[0].rows.n == 0 {
			continue
		}
		sv := &segmentValues{values: t.columns[0].values}
		of, used := idsByValue(&t, func(id uint32) bool { return set.Contains(id) && v.alive.Contains(id) })
		sv.init(used)
		ids[sv] = of
		w.addSegment(sv)
	}
	if err := v.addFiles(&w, measurement, key); err != nil {
		return err
	}
	whole := v.wholeFiles(&w, set)
	for w.next() {
		n := 0
		if len(w.segs) == 0 && len(w.files) == 1 && whole[w.files[0]] {
			c := w.files[0]
			var err error
			if n, err = c.Posting.Count(); err != nil {
				return c.At(err)
			}
		} else {
			var all dictionary.Collector // a series that came back may be in two layers
			for _, c := range w.files {
				if err := all.AddPosting(&c.Posting); err != nil {
					return c.At(err)
				}
			}
			for _, sv := range w.segs {
				for _, id := range ids[sv].of(sv.order[sv.at]) {
					all.Add(id)
				}
			}
			found := all.Set()
			found.And(set)
			found.And(v.alive)
			n = int(found.GetCardinality())
		}
		if n > 0 && !f(w.value, n) {
			return nil
		}
	}
	return w.err
}

// wholeFiles returns the files whose series are all in set and alive. Their postings
// need not be read.
func (v *View) wholeFiles(w *valueWalk, set *roaring.Bitmap) map[*dictionary.Cursor]bool {
	whole := map[*dictionary.Cursor]bool{}
	for _, c := range w.cursors {
		n := c.Tag().Present.GetCardinality()
		whole[c] = c.Tag().Present.AndCardinality(set) == n && (set == v.alive || c.Tag().Present.AndCardinality(v.alive) == n)
	}
	return whole
}

// segmentIDs are the ids of a segment's column by value number.
type segmentIDs struct{ starts, ids []uint32 }

func (s segmentIDs) of(number uint32) []uint32 { return s.ids[s.starts[number]:s.starts[number+1]] }

// idsByValue sorts the ids of a table's first column that keep admits by value
// number, and returns which numbers there are.
func idsByValue(t *segmentTable, keep func(id uint32) bool) (by segmentIDs, used []bool) {
	col := &t.columns[0]
	used = make([]bool, col.values.count()+1)
	by.starts = make([]uint32, len(used)+1)
	var kept, numbers []uint32
	col.rows.each(func(first int, rows []uint32) {
		for i, n := range rows {
			if n == 0 {
				continue
			}
			if id := t.ids.at(first + i); keep(id) {
				kept, numbers = append(kept, id), append(numbers, n)
				by.starts[n+1]++
				used[n] = true
			}
		}
	})
	for n := 1; n < len(by.starts); n++ {
		by.starts[n] += by.starts[n-1]
	}
	by.ids = make([]uint32, len(kept))
	fill := slices.Clone(by.starts)
	for i, n := range numbers {
		by.ids[fill[n]] = kept[i]
		fill[n]++
	}
	return by, used
}
