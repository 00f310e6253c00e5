package partial

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/hll"
	"tsdbd/internal/quantiles"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/engine/read"
	"tsdbd/query/expr"
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
			w.refuse(sl, i, err)
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

// refuse notes that the text of a row is no sketch.
func (w *Worker) refuse(sl *Slot, row int, err error) {
	w.Err = fmt.Errorf("field %s at %s: %w", w.p.Refs[sl.Col].Val, time.Unix(0, w.Times[row]).UTC().Format(time.RFC3339Nano), err)
}

// damaged returns the error of a value that cannot be folded, with the series that has it.
func (w *Worker) damaged(u *read.Unit, id model.SeriesID) error {
	key, err := u.Source.View.SeriesKey(id)
	if err != nil {
		return w.Err
	}
	return fmt.Errorf("series %s: %w", key, w.Err)
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

// quantiles adds the values of rows [lo, hi) to the sketch of a state.
func (w *Worker) quantiles(st *State, v *column.Vector, lo, hi int) bool {
	n := validCount(v, lo, hi)
	if n == 0 {
		return false
	}
	s := w.t.quantilesOf(st)
	before := s.Bytes()
	for i := lo; i < hi; i++ {
		if v.IsValid(i) {
			s.Add(FloatOf(expr.CastScalar(expr.Scalar{Type: v.Type, Bits: v.Word(i)}, model.Float).Bits))
		}
	}
	st.N += int64(n)
	w.t.Bytes += s.Bytes() - before
	return true
}

// uniteQuantiles adds the sketches that rows [lo, hi) have as text to a state.
func (w *Worker) uniteQuantiles(st *State, sl *Slot, v *column.Vector, lo, hi int) bool {
	met := false
	for i := lo; i < hi && w.Err == nil; i++ {
		if !v.IsValid(i) {
			continue
		}
		o, err := quantiles.Parse(v.Strings[i])
		if err != nil {
			w.refuse(sl, i, err)
			break
		}
		w.t.mergeQuantiles(st, o)
		met = true
	}
	return met
}

// noRun is the place of the last run of values of a state that has none.
const noRun = math.MaxUint64

// quantilesOf returns the sketch of quantiles of a state, which it makes if there is none.
func (t *Table) quantilesOf(st *State) *quantiles.Sketch {
	if st.B == 0 {
		if st.N == 0 {
			st.A = noRun
		}
		t.quantiles = append(t.quantiles, quantiles.Sketch{})
		t.Bytes += 96
		st.B = uint64(len(t.quantiles))
	}
	return &t.quantiles[st.B-1]
}

// mergeQuantiles adds the values of a sketch to a state.
func (t *Table) mergeQuantiles(st *State, o *quantiles.Sketch) {
	s := t.quantilesOf(st)
	before := s.Bytes()
	s.Merge(o)
	st.N += int64(o.Count())
	t.Bytes += s.Bytes() - before
}

// Quantiles returns a sketch of all values of a state that has one. Values that are held as
// they are, of a slot, become a part of it.
func (t *Table) Quantiles(sl *Slot, st *State) *quantiles.Sketch {
	s := t.quantilesOf(st)
	for _, run := range t.runsOf(st) {
		if t.Stop.After(len(run)) {
			break
		}
		for _, key := range run {
			s.Add(FloatOf(expr.CastScalar(expr.Scalar{Type: sl.Type, Bits: wordOfKey(sl.Type, key)}, model.Float).Bits))
		}
	}
	st.A = noRun
	return s
}

// estimated returns the value of a rank as a word of the type of the slot.
func (t *Table) estimated(sl *Slot, st *State, rank int) uint64 {
	v := t.Quantiles(sl, st).At(uint64(rank))
	switch sl.Type {
	case model.Integer:
		if v = math.Round(v); v >= math.MaxInt64 {
			return math.MaxInt64
		}
		return uint64(int64(max(v, math.MinInt64)))
	case model.Unsigned:
		if v = math.Round(v); v >= math.MaxUint64 {
			return math.MaxUint64
		}
		return uint64(max(v, 0))
	}
	return math.Float64bits(v)
}
