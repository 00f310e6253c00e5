package engine

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/hll"
	"tsdbd/model"
	"tsdbd/model/column"
)

// sumHLL makes a sketch of the distinct values of each window, as text.
func sumHLL(x *callContext, rs *rowset) (*cells, error) {
	v := &rs.cols[0]
	out := &cells{v: column.Vector{Type: model.String}}
	var failed error
	x.eachWindow(rs.times, func(start int64, lo, hi int) {
		if failed != nil {
			return
		}
		s := &hll.Sketch{}
		for i := lo; i < hi && !x.stop.After(1); i++ {
			s.Add(valueHash(v, i))
		}
		text := s.Text()
		failed = x.grow(int64(len(text)))
		out.times = append(out.times, x.at(start))
		out.v.Strings = append(out.v.Strings, text)
	})
	return out, failed
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

// countHLL estimates what each sketch counts, 0 for a text that is none.
func countHLL(x *callContext, in *cells) (*cells, error) {
	if in.v.Type != model.String {
		return &cells{}, nil
	}
	out := &cells{times: in.times, v: column.Vector{Type: model.Unsigned}}
	for _, text := range in.v.Strings {
		n := uint64(0)
		if s, err := hll.Parse(text); err == nil && !x.stop.After(len(text)) {
			n = s.Count()
		}
		out.v.Uints = append(out.v.Uints, n)
	}
	return out, nil
}
