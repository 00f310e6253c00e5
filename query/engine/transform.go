package engine

import (
	"fmt"

	"github.com/influxdata/influxql"

	"tsdbd/internal/hll"
	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/expr"
)

// transformations are the functions that turn a series of values into another.
var transformations = map[string]function{
	"derivative":              {check: transforms(1, 2, unitArgument), gives: model.Float, looksBack: true, series: derivative(false)},
	"non_negative_derivative": {check: transforms(1, 2, unitArgument), refused: refusedAs("derivative"), gives: model.Float, looksBack: true, series: derivative(true)},
	"difference":              {check: transforms(1, 1, nil), looksBack: true, series: difference(false)},
	"non_negative_difference": {check: transforms(1, 1, nil), refused: refusedAs("difference"), looksBack: true, series: difference(true)},
	"elapsed":                 {check: transforms(1, 2, unitArgument), takes: anyType, gives: model.Integer, looksBack: true, series: elapsed},
	"cumulative_sum":          {check: transforms(1, 1, nil), series: cumulativeSum},
	"moving_average":          {check: transforms(2, 2, periodArgument), gives: model.Float, looksBack: true, series: movingAverage},
	"count_hll":               {check: countHLLArgument, takes: onlyText, refused: refusedAs("count_hll"), gives: model.Unsigned, series: countHLL},
}

// transform runs a transformation over rows, or over the windows of an
// aggregate. Nulls are left out.
func (x *callContext) transform(in *cells) (*cells, error) {
	if x.series == nil {
		return nil, fmt.Errorf("unsupported function: %s()", x.expr.Name)
	}
	if x.stop.After(len(in.times)) {
		return &cells{}, nil
	}
	var rows []int32
	for i := range in.times {
		if in.v.IsValid(i) {
			rows = append(rows, int32(i))
		}
	}
	if len(rows) < len(in.times) {
		in = &cells{times: expr.AppendTaken(nil, in.times, 0, 0, rows), v: expr.Gather(&in.v, rows)}
		in.v.Valid = nil
	}
	if len(in.times) == 0 {
		return &cells{}, nil
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

func derivative(nonNegative bool) func(x *callContext, in *cells) (*cells, error) {
	return func(x *callContext, in *cells) (*cells, error) {
		unit := int64(1e9)
		if !x.win.None() { // also the outer statement's, of a subquery
			unit = x.win.Every
		}
		unit = unitOf(x.expr, unit)
		out := &cells{v: column.Vector{Type: model.Float}}
		steps(in.times, func(a, b int) {
			var d float64
			switch in.v.Type {
			case model.Float:
				d = in.v.Floats[b] - in.v.Floats[a]
			case model.Integer:
				d = float64(in.v.Ints[b] - in.v.Ints[a])
			case model.Unsigned:
				if p, q := in.v.Uints[a], in.v.Uints[b]; q >= p {
					d = float64(q - p)
				} else {
					d = -float64(p - q)
				}
			}
			if d < 0 && nonNegative {
				return
			}
			dt := float64(expr.Abs(in.times[b] - in.times[a]))
			out.times = append(out.times, in.times[b])
			out.v.Floats = append(out.v.Floats, d/(dt/float64(unit)))
		})
		return out, nil
	}
}

func difference(nonNegative bool) func(x *callContext, in *cells) (*cells, error) {
	return func(_ *callContext, in *cells) (*cells, error) {
		out := &cells{v: column.Vector{Type: in.v.Type}}
		steps(in.times, func(a, b int) {
			switch in.v.Type {
			case model.Float:
				d := in.v.Floats[b] - in.v.Floats[a]
				if nonNegative && d < 0 {
					return
				}
				out.v.Floats = append(out.v.Floats, d)
			case model.Integer:
				d := in.v.Ints[b] - in.v.Ints[a]
				if nonNegative && d < 0 {
					return
				}
				out.v.Ints = append(out.v.Ints, d)
			case model.Unsigned:
				if nonNegative && in.v.Uints[b] < in.v.Uints[a] {
					return
				}
				out.v.Uints = append(out.v.Uints, in.v.Uints[b]-in.v.Uints[a])
			}
			out.times = append(out.times, in.times[b])
		})
		return out, nil
	}
}

func cumulativeSum(_ *callContext, in *cells) (*cells, error) {
	out := &cells{times: in.times, v: column.Vector{Type: in.v.Type}}
	switch in.v.Type {
	case model.Float:
		var hi, lo float64
		for _, x := range in.v.Floats {
			var e float64
			hi, e = vector.TwoSum(hi, x)
			lo += e
			s := hi
			if hi-hi == 0 {
				s += lo
			}
			out.v.Floats = append(out.v.Floats, s)
		}
	case model.Integer:
		var s int64
		for _, x := range in.v.Ints {
			s += x
			out.v.Ints = append(out.v.Ints, s)
		}
	case model.Unsigned:
		var s uint64
		for _, x := range in.v.Uints {
			s += x
			out.v.Uints = append(out.v.Uints, s)
		}
	}
	return out, nil
}

func movingAverage(x *callContext, in *cells) (*cells, error) {
	n := intArg(x.expr, 1)
	out := &cells{v: column.Vector{Type: model.Float}}
	if len(in.times) < n {
		return out, nil
	}
	out.times = in.times[n-1:]
	var st aggState
	var isum uint64
	for i := range in.times {
		var avg float64
		switch in.v.Type {
		case model.Float:
			st.addFloat(in.v.Floats[i], 0)
			if i >= n {
				st.addFloat(-in.v.Floats[i-n], 0)
			}
			avg = st.float() / float64(n)
		case model.Integer:
			isum += uint64(in.v.Ints[i])
			if i >= n {
				isum -= uint64(in.v.Ints[i-n])
			}
			avg = float64(int64(isum)) / float64(n)
		case model.Unsigned:
			isum += in.v.Uints[i]
			if i >= n {
				isum -= in.v.Uints[i-n]
			}
			avg = float64(isum) / float64(n)
		}
		if i >= n-1 {
			out.v.Floats = append(out.v.Floats, avg)
		}
	}
	return out, nil
}

func elapsed(x *callContext, in *cells) (*cells, error) {
	unit := unitOf(x.expr, 1)
	out := &cells{v: column.Vector{Type: model.Integer}}
	for i := 1; i < len(in.times); i++ {
		d := in.times[i] - in.times[i-1]
		out.times = append(out.times, in.times[i])
		out.v.Ints = append(out.v.Ints, d/unit)
	}
	return out, nil
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
