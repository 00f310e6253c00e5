package tsi

import (
	"errors"
	"math"
	"slices"
	"sort"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/tsi/dictionary"
	"tsdbd/tsi/paged"
)

// TagValues returns the sorted non-empty values of a tag key among the series
// of set, nil for all series of the measurement.
func (v Charged) TagValues(measurement, key string, set *roaring.Bitmap) ([]string, error) {
	return v.FirstTagValues(measurement, key, set, math.MaxInt)
}

// FirstTagValues is TagValues that ends after limit values.
func (v Charged) FirstTagValues(measurement, key string, set *roaring.Bitmap, limit int) ([]string, error) {
	if limit <= 0 {
		return nil, nil
	}
	if values, ok, err := v.tagValuesByKeys(measurement, key, set); ok || err != nil {
		return values[:min(limit, len(values))], err
	}
	w, err := v.walkTagValues(measurement, key, set, limit, false)
	if err != nil {
		return nil, err
	}
	return v.texts(w, limit)
}

// texts returns the values of a walk, up to limit of them.
func (v Charged) texts(w *tagValueWalk, limit int) (out []string, err error) {
	var refused error
	texts := paged.Arena{Charge: v.charge}
	err = w.each(func(value []byte) bool {
		var text string
		if text, refused = texts.Add(value); refused != nil {
			return false
		}
		out = append(out, text)
		return len(out) < limit
	})
	if err = errors.Join(err, refused, texts.Settle()); err != nil {
		return nil, err
	}
	return out, nil
}

// LastTagValues returns the last limit values of TagValues, sorted. Pages of
// values can be read forwards only, so it begins some pages before the end, and
// earlier if too few of their values are of series in set.
func (v Charged) LastTagValues(measurement, key string, set *roaring.Bitmap, limit int) ([]string, error) {
	if limit <= 0 {
		return nil, nil
	}
	if values, ok, err := v.tagValuesByKeys(measurement, key, set); ok || err != nil {
		return values[max(0, len(values)-limit):], err
	}
	w, err := v.walkTagValues(measurement, key, set, limit, true)
	if err != nil {
		return nil, err
	}
	for reach := limit; ; reach *= 8 {
		from := w.before(reach)
		w.seek(from)
		out, err := v.texts(w, math.MaxInt)
		if err != nil {
			return nil, err
		}
		if from == "" || len(out) >= limit {
			return out[max(0, len(out)-limit):], nil
		}
	}
}

// tagValuesByKeys answers from the keys of the series where they are few.
func (v Charged) tagValuesByKeys(measurement, key string, set *roaring.Bitmap) (values []string, ok bool, err error) {
	if set == nil || v.index.opt.Keys == nil || set.IsEmpty() {
		return nil, false, nil
	}
	few, err := v.cheaperByKeys(measurement, boundsOf(set), []string{key})
	if err != nil || !few || set.GetCardinality() > 4*fewSeries {
		return nil, false, err
	}
	columns, err := v.columnsFromKeys(dictionary.AppendIDs(nil, set), []string{key})
	if err != nil {
		return nil, false, nil // the index knows too
	}
	return columns[0].values[1:], true, nil
}

// tagValueWalk walks the values of a tag key among the series of set.
type tagValueWalk struct {
	valueWalk
	v     *View
	set   *roaring.Bitmap
	whole map[*dictionary.Cursor]bool
	buf   []uint32
}

// walkTagValues begins a walk at the first value. Of memtables it may leave out
// all but the first limit values, or the last.
func (v *View) walkTagValues(measurement, key string, set *roaring.Bitmap, limit int, last bool) (*tagValueWalk, error) {
	if set == nil {
		set = v.alive
	}
	w := &tagValueWalk{v: v, set: set}
	var err error
	w.valueWalk, err = v.walkValues(measurement, key, func(t *measurementPicture) *memtableValues {
		values := &t.columns[0].values
		used := t.used(set, v.alive)
		if limit <= fewValues {
			return &memtableValues{values: *values, order: values.Extremes(used, limit, last)}
		}
		return &memtableValues{values: *values, order: values.Order(func(n uint32) bool { return used[n] })}
	})
	if err != nil {
		return nil, err
	}
	w.whole = v.wholeFiles(&w.valueWalk, set)
	return w, nil
}

// each calls f with the values, ascending, until it returns false.
func (w *tagValueWalk) each(f func(value []byte) bool) error {
	for w.next() {
		hit := len(w.mems) > 0
		for _, c := range w.files {
			if hit = hit || w.whole[c]; hit {
				break
			}
			var err error
			if w.buf, err = c.Posting.IDs(w.buf[:0]); err != nil {
				return c.At(err)
			}
			hit = slices.ContainsFunc(w.buf, func(id uint32) bool { return w.set.Contains(id) && w.v.alive.Contains(id) })
		}
		if hit && !f(w.value) {
			return nil
		}
	}
	return w.err
}

// before returns a value that n values of some layer are not less than, or a few more
// where it is the first of a page; "" if no layer has as many.
func (w *tagValueWalk) before(n int) string {
	from := ""
	for _, c := range w.cursors {
		from = max(from, c.Tag().Before(n))
	}
	for _, s := range w.memtables {
		if i := len(s.order) - n; i >= 0 {
			from = max(from, s.values.Text(s.order[i]))
		}
	}
	return from
}

// seek moves to the first value not less than from.
func (w *tagValueWalk) seek(from string) {
	w.live, w.files, w.mems = w.live[:0], w.files[:0], w.mems[:0]
	for _, c := range w.cursors {
		w.live = append(w.live, c)
		if c.Seek(from) {
			w.advance(c)
		} else if w.err == nil {
			w.err = c.Err()
		}
	}
	for _, s := range w.memtables {
		s.at = sort.Search(len(s.order), func(i int) bool { return s.values.Text(s.order[i]) >= from })
	}
}

// fewValues is up to how many values of a list are picked out, not sorted.
const fewValues = 2048
