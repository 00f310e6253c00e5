package tsm1test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"tsdbd/model"
	"tsdbd/model/column"
)

// Word returns a value of 8 bytes as a word.
func Word(v *column.Vector, i int) uint64 {
	switch v.Type {
	case model.Float:
		return math.Float64bits(v.Floats[i])
	case model.Integer:
		return uint64(v.Ints[i])
	}
	return v.Uints[i]
}

// Rows returns n rows of one column with random values of a random shape, so that all
// encodings are used, and the time behind the last one.
func Rows(r *rand.Rand, kind model.FieldType, start int64, n int) (rows column.Rows, end int64) {
	step := []int64{1, 1000, 10e9}[r.IntN(3)]
	jitter := []int64{1, 1, 50, 1 << 40}[r.IntN(4)]
	if r.IntN(20) == 0 && start < 2e18 {
		jitter = 1 << 61 // Simple-8b has no room for it
		n = min(n, 3)
	}
	v := column.Vector{Type: kind}
	shape, walk := r.IntN(5), 0.0
	for i := range n {
		rows.Times = append(rows.Times, start)
		start += step + r.Int64N(jitter)
		var word uint64
		switch shape {
		case 0:
			word = 1
		case 1:
			word = uint64(i) * 3
		case 2:
			word = r.Uint64()
		case 3:
			word = r.Uint64N(1 << uint(r.IntN(30)))
		default:
			word = r.Uint64N(2)
		}
		switch kind {
		case model.Float:
			walk += r.NormFloat64()
			f := math.Float64frombits(word)
			if shape%2 == 1 {
				f = math.Round(walk*10) / 10
			}
			if f != f {
				f = math.Inf(1)
			}
			v.Floats = append(v.Floats, f)
		case model.String:
			v.Strings = append(v.Strings, fmt.Sprintf("text %d", word%1000)[:r.IntN(7)])
		case model.Boolean:
			v.Bools = append(v.Bools, word&1 != 0)
		default:
			v.AppendWord(word, nil)
		}
	}
	rows.Cols = []column.Vector{v}
	return rows, start
}
