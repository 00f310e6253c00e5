package engine

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/hll"
	"tsdbd/model"
	"tsdbd/model/column"
)

// sketch adds the values of rows [lo, hi) to a state.
func (w *aggWorker) sketch(st *aggState, v *column.Vector, lo, hi int) bool {
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
	st.n += int64(n)
	w.t.bytes += s.Bytes() - before
	return true
}

// sketchOf returns the sketch of a state, which it makes if there is none.
func (t *aggTable) sketchOf(st *aggState) *hll.Sketch {
	if st.n == 0 {
		st.a = uint64(len(t.sketches))
		t.sketches = append(t.sketches, hll.Sketch{})
		t.bytes += 128
	}
	return &t.sketches[st.a]
}

// valueHash is the xxHash of a text's bytes, or of the eight bytes of a number or
// boolean, the highest first. Sketches that were stored depend on it.
func valueHash(v *column.Vector, row int) uint64 {
	if v.Type == model.String {
		return xxhash.Sum64String(v.Strings[row])
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], word(v, row))
	return xxhash.Sum64(b[:])
}
