package function

import (
	"cmp"
	"math"

	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/engine/partial"
	"tsdbd/query/expr"
)

// aggregates are the functions that give a window one value of their own making,
// or several.
var aggregates = map[string]Function{
	"count":          {Check: arguments(1, 1, fieldOrDistinct), takes: anyType, Gives: model.Integer, Filled: true, counts: true, Partial: &folding{Slots: []partial.Kind{partial.Count}, Value: countOf}},
	"sum":            {Check: oneField, Filled: true, Partial: &folding{Slots: []partial.Kind{partial.Sum}, Value: sumOf}},
	"mean":           {Check: oneField, Gives: model.Float, Filled: true, Partial: &folding{Slots: []partial.Kind{partial.Sum}, Counted: true, Value: meanOf}},
	"spread":         {Check: oneField, Filled: true, Partial: &folding{Slots: []partial.Kind{partial.Min, partial.Max}, Value: spreadOf}},
	"increase":       {Check: oneField, Filled: true, Steps: true, Partial: &folding{Slots: []partial.Kind{partial.Increase}, Value: sumOf}},
	"stddev":         {Check: oneField, Gives: model.Float, Filled: true, Partial: &folding{Slots: []partial.Kind{partial.Sum, partial.Square}, As: model.Float, Value: stddevOf}},
	"median":         {Check: oneField, Gives: model.Float, Filled: true, Partial: &folding{Slots: []partial.Kind{partial.Ranks}, List: medianOf}},
	"mode":           {Check: oneField, takes: anyType, Filled: true, Partial: &folding{Slots: []partial.Kind{partial.Tally}, Timed: true, List: modeOf}},
	"distinct":       {Check: distinctArgument, takes: anyType, Partial: &folding{Slots: []partial.Kind{partial.Tally}, Timed: true, List: distinctOf}},
	"integral":       {Check: arguments(1, 2, duration("second argument must be a duration"), field), Gives: model.Float, Rows: integral},
	"sum_hll":        {Check: oneField, takes: anyType, Gives: model.String, Partial: &folding{Slots: []partial.Kind{partial.Sketch}, List: sketchText}},
	"merge_hll":      {Check: oneField, takes: onlyText, Gives: model.String, Partial: &folding{Slots: []partial.Kind{partial.Union}, List: sketchText}},
	"sum_ddsketch":   {Check: oneField, Gives: model.String, Partial: &folding{Slots: []partial.Kind{partial.Quantiles}, List: quantilesText}},
	"merge_ddsketch": {Check: oneField, takes: onlyText, Gives: model.String, Partial: &folding{Slots: []partial.Kind{partial.QuantileUnion}, List: quantilesText}},
}

// CountDistinct is count(distinct(f)).
var CountDistinct = Function{Gives: model.Integer, takes: anyType, Filled: true, counts: true, Partial: &folding{Slots: []partial.Kind{partial.Tally}, List: distinctCount}}

func distinctCount(_ *Context, t *partial.Table, _ *partial.Slot, st *partial.State, at int64, out *Cells) {
	out.Times = append(out.Times, at)
	out.Values.Ints = append(out.Values.Ints, int64(len(t.Tallies[st.A].Entries)))
}

func modeOf(x *Context, t *partial.Table, _ *partial.Slot, st *partial.State, at int64, out *Cells) {
	all := &t.Tallies[st.A]
	out.Times = append(out.Times, at)
	all.AppendTo(&out.Values, all.Mode(x.Stop))
}

func medianOf(_ *Context, t *partial.Table, sl *partial.Slot, st *partial.State, at int64, out *Cells) {
	a, b := t.Middle(sl, st)
	low, high := floatOf(sl.Type, a), floatOf(sl.Type, b)
	middle := low
	switch {
	case st.N%2 == 1:
	case math.IsInf(low, 0) || math.IsInf(high, 0):
		middle = low + high
	default:
		middle = low + (high-low)/2
	}
	out.Times = append(out.Times, at)
	out.Values.Floats = append(out.Values.Floats, middle)
}

// floatOf returns the bits of a number as a float.
func floatOf(t model.FieldType, word uint64) float64 {
	return partial.FloatOf(expr.CastScalar(expr.Scalar{Type: t, Bits: word}, model.Float).Bits)
}

// distinctOf lists the values as they come first in the level's direction.
func distinctOf(x *Context, t *partial.Table, _ *partial.Slot, st *partial.State, at int64, out *Cells) {
	all := &t.Tallies[st.A]
	for _, i := range all.Order(x.Stop, func(a, b int32) int {
		if x.Asc {
			return cmp.Or(cmp.Compare(all.Entries[a].First, all.Entries[b].First), all.Compare(a, b))
		}
		// Newest last, as slotCells turns all cells around.
		return -cmp.Or(-cmp.Compare(all.Entries[a].Last, all.Entries[b].Last), all.Compare(a, b))
	}) {
		out.Times = append(out.Times, at)
		all.AppendTo(&out.Values, i)
	}
}

func countOf(out *column.Vector, _ model.FieldType, w partial.Windows) {
	for a := range w.Present() {
		out.Ints = append(out.Ints, a.N)
	}
}

func sumOf(out *column.Vector, typ model.FieldType, w partial.Windows) {
	for a := range w.Present() {
		if typ == model.Float {
			out.Floats = append(out.Floats, a.Float())
		} else {
			out.AppendWord(a.A, nil)
		}
	}
}

func meanOf(out *column.Vector, typ model.FieldType, w partial.Windows) {
	for a := range w.Present() {
		sum := 0.0
		if typ == model.Float {
			sum = a.Float()
		} else {
			sum = a.WideFloat()
		}
		out.Floats = append(out.Floats, sum/float64(a.N))
	}
}

func spreadOf(out *column.Vector, typ model.FieldType, w partial.Windows) {
	for a, b := range w.Present() {
		if typ == model.Float {
			out.Floats = append(out.Floats, partial.FloatOf(b.A)-partial.FloatOf(a.A))
		} else {
			out.AppendWord(b.A-a.A, nil)
		}
	}
}

// stddevOf gives the deviation of each window.
func stddevOf(out *column.Vector, _ model.FieldType, w partial.Windows) {
	for s, q := range w.Present() {
		if s.N < 2 {
			out.AppendNull()
			continue
		}
		out.AppendWord(math.Float64bits(deviation(s, q)), nil)
	}
}

// deviation is the sample standard deviation from the sums of the values and of
// their squares, both of about 106 bits: sqrt((q - s*s/n) / (n-1)).
func deviation(s, q *partial.State) float64 {
	n := float64(s.N)
	sh, sl := partial.FloatOf(s.A), partial.FloatOf(s.B)
	// s*s as hi+lo.
	ph := sh * sh
	pl := math.FMA(sh, sh, -ph) + 2*sh*sl
	// divided by n.
	dh := ph / n
	dl := (math.FMA(-dh, n, ph) + pl) / n
	h, e := vector.TwoSum(partial.FloatOf(q.A), -dh)
	v := (h + (e + partial.FloatOf(q.B) - dl)) / (n - 1)
	if v < 0 {
		v = 0
	}
	return math.Sqrt(v)
}

// sketchText is sum_hll: the sketch as text.
func sketchText(x *Context, t *partial.Table, _ *partial.Slot, st *partial.State, at int64, out *Cells) {
	out.Times = append(out.Times, at)
	out.Values.Strings = append(out.Values.Strings, t.Sketches[st.A].Text())
}

// quantilesText is sum_ddsketch: the sketch of quantiles as text.
func quantilesText(_ *Context, t *partial.Table, sl *partial.Slot, st *partial.State, at int64, out *Cells) {
	out.Times = append(out.Times, at)
	out.Values.Strings = append(out.Values.Strings, t.Quantiles(sl, st).Text())
}
