package engine

import (
	"math"

	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
)

// aggregates are the functions that give a window one value of their own making,
// or several.
var aggregates = map[string]function{
	"count":    {check: countArgument, takes: anyType, gives: model.Integer, filled: true, counts: true, partial: &partial{slots: []slotKind{slotCount}, value: countOf}},
	"sum":      {check: oneField, filled: true, partial: &partial{slots: []slotKind{slotSum}, value: sumOf}},
	"mean":     {check: oneField, gives: model.Float, filled: true, partial: &partial{slots: []slotKind{slotSum}, value: meanOf}},
	"spread":   {check: oneField, filled: true, partial: &partial{slots: []slotKind{slotMin, slotMax}, value: spreadOf}},
	"stddev":   {check: oneField, gives: model.Float, filled: true, partial: &partial{slots: []slotKind{slotSum, slotSquare}, as: model.Float, value: stddevOf}},
	"median":   {check: oneField, gives: model.Float, filled: true, tagOrder: true, rows: medians},
	"mode":     {check: oneField, takes: anyType, filled: true, tagOrder: true, rows: modes},
	"distinct": {check: distinctArgument, takes: anyType, rows: distinctValues},
	"integral": {check: integralArguments, gives: model.Float, rows: integral},
	"sum_hll":  {check: oneField, takes: anyType, gives: model.String, rows: sumHLL},
}

// countDistinct is count(distinct(f)).
var countDistinct = function{gives: model.Integer, takes: anyType, filled: true, counts: true, tagOrder: true, rows: distinctCounts}

func countOf(out *column.Vector, _ model.FieldType, a, _ *aggState) { out.Ints = append(out.Ints, a.n) }

func sumOf(out *column.Vector, typ model.FieldType, a, _ *aggState) {
	if typ == model.Float {
		out.Floats = append(out.Floats, a.float())
		return
	}
	out.AppendWord(a.a, nil)
}

func meanOf(out *column.Vector, typ model.FieldType, a, _ *aggState) {
	sum := 0.0
	switch typ {
	case model.Integer:
		sum = float64(int64(a.a))
	case model.Unsigned:
		sum = float64(a.a)
	default:
		sum = a.float()
	}
	out.Floats = append(out.Floats, sum/float64(a.n))
}

func spreadOf(out *column.Vector, typ model.FieldType, a, b *aggState) {
	if typ == model.Float {
		out.Floats = append(out.Floats, floatOf(b.a)-floatOf(a.a))
		return
	}
	out.AppendWord(b.a-a.a, nil)
}

// stddevOf is the sample standard deviation from the sums of the values and of
// their squares, both of about 106 bits: sqrt((q - s*s/n) / (n-1)).
func stddevOf(out *column.Vector, _ model.FieldType, s, q *aggState) {
	if s.n < 2 {
		out.AppendNull()
		return
	}
	n := float64(s.n)
	sh, sl := floatOf(s.a), floatOf(s.b)
	// s*s as hi+lo.
	ph := sh * sh
	pl := math.FMA(sh, sh, -ph) + 2*sh*sl
	// divided by n.
	dh := ph / n
	dl := (math.FMA(-dh, n, ph) + pl) / n
	h, e := vector.TwoSum(floatOf(q.a), -dh)
	v := (h + (e + floatOf(q.b) - dl)) / (n - 1)
	if v < 0 {
		v = 0
	}
	out.AppendWord(math.Float64bits(math.Sqrt(v)), nil)
}
