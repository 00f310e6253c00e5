package tsi

import (
	"bytes"
	"slices"
	"unsafe"

	"tsdbd/tsi/dictionary"
	"tsdbd/tsi/paged"
)

// memtableValues are the used values of a memtable's column, in order.
type memtableValues struct {
	values paged.Texts
	order  []uint32 // numbers of the used values, by value
	at     int
	ids    valueIDs // of the rows that were asked for; unless only the values were
}

// current returns the ids of the value at the walk's place.
func (s *memtableValues) current() []uint32 { return s.ids.of(s.order[s.at]) }

// valueWalk merges the dictionaries of layers: each call of next yields the
// next value and the layers that have it.
type valueWalk struct {
	cursors   []*dictionary.Cursor // each is on a value, or at its end
	live      []*dictionary.Cursor
	memtables []*memtableValues
	value     []byte
	files     []*dictionary.Cursor // that have value
	mems      []*memtableValues    // that have value, at order[at]
	err       error
}

// walkValues begins a walk over a tag key in all layers of the view. values picks the
// values of a memtable from its picture, which has this column.
func (v *View) walkValues(measurement, key string, values func(t *measurementPicture) *memtableValues) (w valueWalk, err error) {
	for _, s := range v.memtables {
		if t, ok := s.table(measurement, false, key); ok && t.columns[0].rows.Len() > 0 {
			w.memtables = append(w.memtables, values(&t))
		}
	}
	for _, f := range v.files {
		if m := f.measurement(measurement); m != nil {
			if err := w.addFile(f, m, key); err != nil {
				return w, err
			}
		}
	}
	return w, nil
}

// addFile adds the dictionary of a tag key in a file, if it has one.
func (w *valueWalk) addFile(f *File, m *fileMeasurement, key string) error {
	t, err := f.tag(m, key)
	if t == nil || err != nil {
		return err
	}
	c := t.Cursor(f)
	w.cursors = append(w.cursors, c)
	w.live = append(w.live, c)
	w.advance(c)
	return nil
}

func (w *valueWalk) advance(c *dictionary.Cursor) {
	if c.Next() {
		return
	}
	if c.Err() != nil && w.err == nil {
		w.err = c.Err()
	}
	w.live = slices.DeleteFunc(w.live, func(d *dictionary.Cursor) bool { return d == c })
}

// next moves to the next value; false at the end or on error.
func (w *valueWalk) next() bool {
	for _, c := range w.files {
		w.advance(c)
	}
	for _, s := range w.mems {
		s.at++
	}
	w.files, w.mems = w.files[:0], w.mems[:0]
	if w.err != nil {
		return false
	}
	if len(w.memtables) == 0 && len(w.live) == 1 { // the usual case
		w.files = append(w.files, w.live[0])
		w.value = w.live[0].Value
		return true
	}
	found := false
	best := w.value[:0:0]
	for _, c := range w.live {
		switch cmp := bytes.Compare(c.Value, best); {
		case !found || cmp < 0:
			found = true
			best = c.Value
			w.files = append(w.files[:0], c)
		case cmp == 0:
			w.files = append(w.files, c)
		}
	}
	for _, s := range w.memtables {
		if s.at >= len(s.order) {
			continue
		}
		text := s.values.Text(s.order[s.at])
		v := unsafe.Slice(unsafe.StringData(text), len(text)) // it never changes
		switch cmp := bytes.Compare(v, best); {
		case !found || cmp < 0:
			found = true
			best = v
			w.files = w.files[:0]
			w.mems = append(w.mems[:0], s)
		case cmp == 0:
			w.mems = append(w.mems, s)
		}
	}
	w.value = best
	return found
}
