package query

import (
	"fmt"

	"github.com/influxdata/influxql"

	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
)

// transform computes the functions that turn a series of values into another:
// of raw points, or of the windows of an aggregate. Nulls are passed over.
func transform(l *level, c *call, in *cells) (*cells, error) {
	if l.x.stop.after(len(in.times)) {
		return &cells{}, nil
	}
	var rows []int32
	for i := range in.times {
		if in.v.IsValid(i) {
			rows = append(rows, int32(i))
		}
	}
	if len(rows) < len(in.times) {
		in = &cells{times: take(nil, in.times, 0, 0, rows), v: gather(&in.v, rows)}
		in.v.Valid = nil
	}
	if len(in.times) == 0 {
		return &cells{}, nil
	}
	switch c.fn {
	case "derivative", "non_negative_derivative":
		return l.derivative(c, in), nil
	case "difference", "non_negative_difference":
		return l.difference(c, in), nil
	case "cumulative_sum":
		return cumulativeSum(in), nil
	case "moving_average":
		return movingAverage(in, intArg(c, 1)), nil
	case "elapsed":
		return l.elapsed(c, in), nil
	case "exponential_moving_average", "double_exponential_moving_average", "triple_exponential_moving_average",
		"triple_exponential_derivative", "relative_strength_index", "kaufmans_efficiency_ratio",
		"kaufmans_adaptive_moving_average", "chande_momentum_oscillator":
		return l.technical(c, in)
	case "count_hll":
		return l.countHLL(in), nil
	case "holt_winters", "holt_winters_with_fit":
		return l.holtWinters(c, in)
	}
	return nil, fmt.Errorf("unsupported function: %s()", c.fn)
}

// unitOf returns the duration a call counts in.
func unitOf(c *call, otherwise int64) int64 {
	if len(c.expr.Args) == 2 {
		if d, ok := c.expr.Args[1].(*influxql.DurationLiteral); ok {
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

func (l *level) derivative(c *call, in *cells) *cells {
	unit := int64(1e9)
	if !l.win.None() { // also the outer statement's, of a subquery
		unit = l.win.Every
	}
	unit = unitOf(c, unit)
	out := &cells{v: column.Vector{Type: model.Float}}
	steps(in.times, func(a, b int) {
		var d float64
		switch in.v.Type {
		case model.Float:
			d = in.v.Floats[b] - in.v.Floats[a]
		case model.Integer:
			d = float64(in.v.Ints[b] - in.v.Ints[a])
		case model.Unsigned:
			if x, y := in.v.Uints[a], in.v.Uints[b]; y >= x {
				d = float64(y - x)
			} else {
				d = -float64(x - y)
			}
		}
		if d < 0 && c.fn == "non_negative_derivative" {
			return
		}
		dt := float64(abs(in.times[b] - in.times[a]))
		out.times = append(out.times, in.times[b])
		out.v.Floats = append(out.v.Floats, d/(dt/float64(unit)))
	})
	return out
}

func (l *level) difference(c *call, in *cells) *cells {
	nonNegative := c.fn == "non_negative_difference"
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
	return out
}

func cumulativeSum(in *cells) *cells {
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
	return out
}

func movingAverage(in *cells, n int) *cells {
	out := &cells{v: column.Vector{Type: model.Float}}
	if n < 1 || len(in.times) < n {
		return out
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
	return out
}

func (l *level) elapsed(c *call, in *cells) *cells {
	unit := unitOf(c, 1)
	out := &cells{v: column.Vector{Type: model.Integer}}
	for i := 1; i < len(in.times); i++ {
		d := in.times[i] - in.times[i-1]
		out.times = append(out.times, in.times[i])
		out.v.Ints = append(out.v.Ints, d/unit)
	}
	return out
}

func abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}
