package engine

import (
	"cmp"
	"math"

	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
)

// aggregates are the functions that give a window one value of their own making,
// or several.
var aggregates = map[string]function{
	"count":    {check: countArgument, takes: anyType, gives: model.Integer, filled: true, counts: true, partial: &folding{slots: []slotKind{slotCount}, value: countOf}},
	"sum":      {check: oneField, filled: true, partial: &folding{slots: []slotKind{slotSum}, value: sumOf}},
	"mean":     {check: oneField, gives: model.Float, filled: true, partial: &folding{slots: []slotKind{slotSum}, value: meanOf}},
	"spread":   {check: oneField, filled: true, partial: &folding{slots: []slotKind{slotMin, slotMax}, value: spreadOf}},
	"stddev":   {check: oneField, gives: model.Float, filled: true, partial: &folding{slots: []slotKind{slotSum, slotSquare}, as: model.Float, value: stddevOf}},
	"median":   {check: oneField, gives: model.Float, filled: true, tagOrder: true, rows: medians},
	"mode":     {check: oneField, takes: anyType, filled: true, partial: &folding{slots: []slotKind{slotTally}, timed: true, list: modeOf}},
	"distinct": {check: distinctArgument, takes: anyType, partial: &folding{slots: []slotKind{slotTally}, timed: true, list: distinctOf}},
	"integral": {check: integralArguments, gives: model.Float, rows: integral},
	"sum_hll":  {check: oneField, takes: anyType, gives: model.String, partial: &folding{slots: []slotKind{slotSketch}, list: sketchText}},
}

// countDistinct is count(distinct(f)).
var countDistinct = function{gives: model.Integer, takes: anyType, filled: true, counts: true, partial: &folding{slots: []slotKind{slotTally}, list: distinctCount}}

func distinctCount(_ *callContext, t *aggTable, _ *slot, st *aggState, at int64, out *cells) {
	out.times = append(out.times, at)
	out.v.Ints = append(out.v.Ints, int64(len(t.tallies[st.a].entries)))
}

func modeOf(x *callContext, t *aggTable, _ *slot, st *aggState, at int64, out *cells) {
	all := &t.tallies[st.a]
	out.times = append(out.times, at)
	all.appendTo(&out.v, all.mode(x.stop))
}

// distinctOf lists the values as they come first in the level's direction.
func distinctOf(x *callContext, t *aggTable, _ *slot, st *aggState, at int64, out *cells) {
	all := &t.tallies[st.a]
	for _, i := range all.order(x.stop, func(a, b int32) int {
		if x.asc {
			return cmp.Or(cmp.Compare(all.entries[a].first, all.entries[b].first), all.compare(a, b))
		}
		// Newest last, as slotCells turns all cells around.
		return -cmp.Or(-cmp.Compare(all.entries[a].last, all.entries[b].last), all.compare(a, b))
	}) {
		out.times = append(out.times, at)
		all.appendTo(&out.v, i)
	}
}

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

// sketchText is sum_hll: the sketch as text.
func sketchText(x *callContext, t *aggTable, _ *slot, st *aggState, at int64, out *cells) {
	out.times = append(out.times, at)
	out.v.Strings = append(out.v.Strings, t.sketches[st.a].Text())
}
