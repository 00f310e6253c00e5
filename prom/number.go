package prom

import (
	"tsdbd/model"
	"tsdbd/model/column"
)

// Number returns the value that a row of a numeric or boolean column has as a sample.
func Number(v *column.Vector, row int) float64 {
	switch v.Type {
	case model.Float:
		return v.Floats[row]
	case model.Integer:
		return float64(v.Ints[row])
	case model.Unsigned:
		return float64(v.Uints[row])
	}
	if v.Bools[row] {
		return 1
	}
	return 0
}
