package tsi

import (
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
	living := roaring.And(set, v.alive)
	w, err := v.walkValues(measurement, key, func(t *measurementPicture) *memtableValues {
		return t.valuesOf(&t.columns[0], t.rowsIn(living))
	})
	if err != nil {
		return err
	}
	whole := v.wholeFiles(&w, set)
	for w.next() {
		n := 0
		if len(w.mems) == 0 && len(w.files) == 1 && whole[w.files[0]] {
			c := w.files[0]
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
			for _, sv := range w.mems {
				for _, id := range sv.current() {
					all.Add(id)
				}
			}
			found := all.Set()
			found.And(living)
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
