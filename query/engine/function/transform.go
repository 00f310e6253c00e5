package function

import (
	"fmt"
	"math"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/internal/hll"
	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/engine/partial"
	"tsdbd/query/expr"
)

// transformations are the functions that turn a series of values into another.
var transformations = map[string]Function{
	"derivative":              {Check: arguments(1, 2, unit, series), Gives: model.Float, LooksBack: true, series: derivative(false)},
	"non_negative_derivative": {Check: arguments(1, 2, unit, series), refused: refusedAs("derivative"), Gives: model.Float, LooksBack: true, series: derivative(true)},
	"difference":              {Check: arguments(1, 1, series), LooksBack: true, series: difference(false)},
	"non_negative_difference": {Check: arguments(1, 1, series), refused: refusedAs("difference"), LooksBack: true, series: difference(true)},
	"elapsed":                 {Check: arguments(1, 2, unit, series), takes: anyType, Gives: model.Integer, LooksBack: true, series: elapsed},
	"cumulative_sum":          {Check: arguments(1, 1, series), series: cumulativeSum},
	"moving_average":          {Check: arguments(2, 2, integer(1, 2, "second argument for moving_average must be an integer, got {type}", "moving_average window must be greater than 1, got {got}"), series), Gives: model.Float, LooksBack: true, series: movingAverage},
	"count_hll":               {Check: arguments(1, 1, fieldOrCall), takes: onlyText, refused: refusedAs("count_hll"), Gives: model.Unsigned, series: countHLL},
}

// Transform runs a transformation over rows, or over the windows of an
// aggregate. Nulls are left out.
func (x *Context) Transform(in *Cells) (*Cells, error) {
	if x.series == nil {
		return nil, fmt.Errorf("unsupported function: %s()", x.Expr.Name)
	}
	if x.Stop.After(len(in.Times)) {
		return &Cells{}, nil
	}
	var rows []int32
	for i := range in.Times {
		if in.Values.IsValid(i) {
			rows = append(rows, int32(i))
		}
	}
	if len(rows) < len(in.Times) {
		in = &Cells{Times: expr.AppendTaken(nil, in.Times, 0, 0, rows), Values: expr.Gather(&in.Values, rows)}
		in.Values.Valid = nil
	}
	if len(in.Times) == 0 {
		return &Cells{}, nil
	}
	return x.series(x, in)
}

// unitOf returns the duration a call counts in.
func unitOf(e *influxql.Call, otherwise int64) int64 {
	if len(e.Args) == 2 {
		if d, ok := e.Args[1].(*influxql.DurationLiteral); ok {
			return int64(d.Val)
		}
	}
	return otherwise
}

// steps calls f for each point with the one before it. A point that has the
// time of the one before is passed over.
func steps(times []int64, f func(prev, cur int)) {
	prev := 0
	for i := 1; i < len(times); i++ {
		if times[i] != times[prev] {
			f(prev, i)
			prev = i
		}
	}
}

func derivative(nonNegative bool) func(x *Context, in *Cells) (*Cells, error) {
	return func(x *Context, in *Cells) (*Cells, error) {
		unit := int64(1e9)
		if !x.Windows.None() { // also the outer statement's, of a subquery
			unit = x.Windows.Every
		}
		unit = unitOf(x.Expr, unit)
		out := &Cells{Values: column.Vector{Type: model.Float}}
		v := &in.Values
		steps(in.Times, func(a, b int) {
			var d float64
			switch v.Type {
			case model.Float:
				d = v.Floats[b] - v.Floats[a]
			case model.Integer:
				d = float64(v.Ints[b] - v.Ints[a])
			case model.Unsigned:
				if d = float64(v.Uints[b] - v.Uints[a]); v.Uints[b] < v.Uints[a] {
					d = -float64(v.Uints[a] - v.Uints[b])
				}
			}
			if d < 0 && nonNegative {
				return
			}
			dt := float64(expr.Abs(in.Times[b] - in.Times[a]))
			out.Times = append(out.Times, in.Times[b])
			out.Values.Floats = append(out.Values.Floats, d/(dt/float64(unit)))
		})
		return out, nil
	}
}

func difference(nonNegative bool) func(x *Context, in *Cells) (*Cells, error) {
	return func(_ *Context, in *Cells) (*Cells, error) {
		v, out := &in.Values, &Cells{Values: column.Vector{Type: in.Values.Type}}
		switch v.Type {
		case model.Float:
			out.Times, out.Values.Floats = differences(in.Times, v.Floats, func(a, b float64) bool { return nonNegative && b-a < 0 })
		case model.Integer:
			out.Times, out.Values.Ints = differences(in.Times, v.Ints, func(a, b int64) bool { return nonNegative && b-a < 0 })
		case model.Unsigned:
			out.Times, out.Values.Uints = differences(in.Times, v.Uints, func(a, b uint64) bool { return nonNegative && b < a })
		}
		return out, nil
	}
}

// differences returns the differences of values, except those to drop, and their
// times.
func differences[T int64 | uint64 | float64](times []int64, x []T, drop func(a, b T) bool) (at []int64, out []T) {
	steps(times, func(a, b int) {
		if !drop(x[a], x[b]) {
			at = append(at, times[b])
			out = append(out, x[b]-x[a])
		}
	})
	return at, out
}

func cumulativeSum(_ *Context, in *Cells) (*Cells, error) {
	out := &Cells{Times: in.Times, Values: column.Vector{Type: in.Values.Type}}
	switch in.Values.Type {
	case model.Float:
		var hi, lo float64
		for _, x := range in.Values.Floats {
			var e float64
			hi, e = vector.TwoSum(hi, x)
			lo += e
			s := hi
			if hi-hi == 0 {
				s += lo
			}
			out.Values.Floats = append(out.Values.Floats, s)
		}
	case model.Integer:
		out.Values.Ints = sums(in.Values.Ints)
	case model.Unsigned:
		out.Values.Uints = sums(in.Values.Uints)
	}
	return out, nil
}

// sums returns the sums of the first values.
func sums[T int64 | uint64](x []T) []T {
	out := slices.Clone(x)
	for i := 1; i < len(out); i++ {
		out[i] += out[i-1]
	}
	return out
}

func movingAverage(x *Context, in *Cells) (*Cells, error) {
	n := IntArg(x.Expr, 1)
	out := &Cells{Values: column.Vector{Type: model.Float}}
	if len(in.Times) < n {
		return out, nil
	}
	out.Times = in.Times[n-1:]
	var st partial.State
	var infinite infinities
	for i := range in.Times {
		var avg float64
		switch in.Values.Type {
		case model.Float:
			st.AddFloat(infinite.add(in.Values.Floats[i], 1), 0)
			if i >= n {
				st.AddFloat(-infinite.add(in.Values.Floats[i-n], -1), 0)
			}
			avg = infinite.sum(st.Float()) / float64(n)
		case model.Integer:
			avg = moveInts(&st, in.Values.Ints, i, n)
		case model.Unsigned:
			avg = moveInts(&st, in.Values.Uints, i, n)
		}
		if i >= n-1 {
			out.Values.Floats = append(out.Values.Floats, avg)
		}
	}
	return out, nil
}

// moveInts moves a sum of n integers on to x[i] and returns their average.
func moveInts[T int64 | uint64](sum *partial.State, x []T, i, n int) float64 {
	sum.AddWide(partial.Wide(x[i]))
	if i >= n {
		sum.SubWide(partial.Wide(x[i-n]))
	}
	return sum.WideFloat() / float64(n)
}

// infinities counts those of a moving sum, which they would not leave.
type infinities struct{ positive, negative int }

// add counts v n times if it is infinite. It returns what belongs to the sum of the
// others, 0 or v.
func (c *infinities) add(v float64, n int) float64 {
	switch {
	case math.IsInf(v, 1):
		c.positive += n
	case math.IsInf(v, -1):
		c.negative += n
	default:
		return v
	}
	return 0
}

// sum adds the infinities to the sum of the others.
func (c *infinities) sum(others float64) float64 {
	if c.positive > 0 {
		others += math.Inf(1)
	}
	if c.negative > 0 {
		others += math.Inf(-1)
	}
	return others
}

func elapsed(x *Context, in *Cells) (*Cells, error) {
	unit := unitOf(x.Expr, 1)
	out := &Cells{Values: column.Vector{Type: model.Integer}}
	for i := 1; i < len(in.Times); i++ {
		d := in.Times[i] - in.Times[i-1]
		out.Times = append(out.Times, in.Times[i])
		out.Values.Ints = append(out.Values.Ints, d/unit)
	}
	return out, nil
}

// countHLL estimates what each sketch counts, 0 for a text that is none.
func countHLL(x *Context, in *Cells) (*Cells, error) {
	if in.Values.Type != model.String {
		return &Cells{}, nil
	}
	out := &Cells{Times: in.Times, Values: column.Vector{Type: model.Unsigned}}
	for _, text := range in.Values.Strings {
		n := uint64(0)
		if s, err := hll.Parse(text); err == nil && !x.Stop.After(len(text)) {
			n = s.Count()
		}
		out.Values.Uints = append(out.Values.Uints, n)
	}
	return out, nil
}
