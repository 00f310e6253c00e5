package tsi

import (
	"bytes"
	"slices"
	"strings"

	"tsdbd/tsi/dictionary"
)

// memtableValues are the used values of a memtable's column, in order.
type memtableValues struct {
	values   valueList
	order    []uint32 // numbers of the used values, by value
	at       int
	assigned []uint32 // for the caller: by number
}

// init takes the values whose numbers used holds for.
func (s *memtableValues) init(used func(number uint32) bool) {
	s.order = s.values.order(used)
	s.assigned = make([]uint32, s.values.count()+1)
}

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

func (w *valueWalk) addMemtable(s *memtableValues) { w.memtables = append(w.memtables, s) }

func (w *valueWalk) addFile(c *dictionary.Cursor) {
	w.cursors = append(w.cursors, c)
	w.live = append(w.live, c)
	w.advance(c)
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
		v := s.values.text(s.order[s.at])
		switch cmp := strings.Compare(v, string(best)); {
		case !found || cmp < 0:
			found = true
			best = []byte(v)
			w.files = w.files[:0]
			w.mems = append(w.mems[:0], s)
		case cmp == 0:
			w.mems = append(w.mems, s)
		}
	}
	w.value = best
	return found
}
