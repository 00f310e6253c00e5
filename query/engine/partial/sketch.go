package partial

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/hll"
	"tsdbd/model"
	"tsdbd/model/column"
)

// sketch adds the values of rows [lo, hi) to a state.
func (w *Worker) sketch(st *State, v *column.Vector, lo, hi int) bool {
	n := validCount(v, lo, hi)
	if n == 0 {
		return false
	}
	s := w.t.sketchOf(st)
	before := s.Bytes()
	for i := lo; i < hi; i++ {
		if v.IsValid(i) {
			s.Add(valueHash(v, i))
		}
	}
	st.N += int64(n)
	w.t.Bytes += s.Bytes() - before
	return true
}

// unite adds the sketches that rows [lo, hi) have as text to a state.
func (w *Worker) unite(st *State, sl *Slot, v *column.Vector, lo, hi int) bool {
	met := false
	for i := lo; i < hi && w.Err == nil; i++ {
		if !v.IsValid(i) {
			continue
		}
		o, err := hll.Parse(v.Strings[i])
		if err != nil {
			w.Err = fmt.Errorf("field %s at %s: %w", w.p.Refs[sl.Col].Val, time.Unix(0, w.Times[i]).UTC().Format(time.RFC3339Nano), err)
			break
		}
		s := w.t.sketchOf(st)
		before := s.Bytes()
		s.Merge(o)
		st.N++
		w.t.Bytes += s.Bytes() - before
		met = true
	}
	return met
}

// sketchOf returns the sketch of a state, which it makes if there is none.
func (t *Table) sketchOf(st *State) *hll.Sketch {
	if st.N == 0 {
		st.A = uint64(len(t.Sketches))
		t.Sketches = append(t.Sketches, hll.Sketch{})
		t.Bytes += 128
	}
	return &t.Sketches[st.A]
}

// valueHash is the xxHash of a text's bytes, or of the eight bytes of a number or
// boolean, the highest first. Sketches that were stored depend on it.
func valueHash(v *column.Vector, row int) uint64 {
	if v.Type == model.String {
		return xxhash.Sum64String(v.Strings[row])
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], v.Word(row))
	return xxhash.Sum64(b[:])
}
