package function

import (
	"math"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/expr"
)

// indicator is a technical analysis function that sees one value at a time.
type indicator interface {
	// add takes the next value and returns the function's value there.
	add(v float64) float64
	// warm is the number of values after which the result is meaningful.
	warm() int
}

// warmups are the ways in which most indicators can begin.
const warmups = "'exponential' 'simple'"

// indicators are the technical analysis functions.
var indicators = map[string]Function{
	"exponential_moving_average": indicatorOf(4, 0, warmups, func(o *indicatorArgs) indicator { return newEMA(o.period, o.simple) }),
	"double_exponential_moving_average": indicatorOf(4, 0, warmups, func(o *indicatorArgs) indicator {
		return &multiEMA{e: emas(2, o.period, o.simple), combine: func(a []float64, _ bool) float64 { return 2*a[0] - a[1] }}
	}),
	"triple_exponential_moving_average": indicatorOf(4, 0, warmups, func(o *indicatorArgs) indicator {
		return &multiEMA{e: emas(3, o.period, o.simple), combine: func(a []float64, _ bool) float64 { return 3*a[0] - 3*a[1] + a[2] }}
	}),
	"triple_exponential_derivative": indicatorOf(4, 1, warmups, func(o *indicatorArgs) indicator {
		last := 0.0
		return &multiEMA{e: emas(3, o.period, o.simple), extra: 1, combine: func(a []float64, first bool) float64 {
			rate := (a[2]/last - 1) * 100
			last = a[2]
			if first {
				return 0
			}
			return rate
		}}
	}),
	"relative_strength_index": indicatorOf(4, 0, warmups, func(o *indicatorArgs) indicator {
		return &strength{up: smoothed(o.period, o.simple), down: smoothed(o.period, o.simple), relative: true}
	}),
	"chande_momentum_oscillator": indicatorOf(4, 0, "'none' "+warmups, func(o *indicatorArgs) indicator {
		if o.smooth {
			return &strength{up: smoothed(o.period, o.simple), down: smoothed(o.period, o.simple)}
		}
		return &momentum{ring: make([]float64, o.ring)}
	}),
	"kaufmans_efficiency_ratio": indicatorOf(3, 0, "", func(o *indicatorArgs) indicator { return &efficiency{ring: make([]pricePoint, o.ring)} }),
	"kaufmans_adaptive_moving_average": indicatorOf(3, 0, "", func(o *indicatorArgs) indicator {
		return &adaptive{ratio: efficiency{ring: make([]pricePoint, o.ring)}}
	}),
}

// indicatorArgs are the arguments of an indicator.
type indicatorArgs struct {
	period int
	ring   int  // the period, but no more than there are values: a longer ring is never full
	simple bool // until it is warm, the plain mean
	smooth bool // a warm-up is named
}

// indicatorOf returns the function that runs an indicator, with up to most arguments:
// each point in, one
// value out, except those held back at the start and those that are infinite.
func indicatorOf(most int, leastHold int64, warmups string, make func(*indicatorArgs) indicator) Function {
	period := integer(1, 1, "{name} period must be an integer", "{name} period must be greater than or equal to 1")
	args := arguments(2, most, period, hold(leastHold), warmup(warmups), indicatorSeries)
	return Function{Check: args, Gives: model.Float, LooksBack: true, series: func(x *Context, in *Cells) (*Cells, error) {
		o := &indicatorArgs{period: IntArg(x.Expr, 1)}
		o.ring = min(o.period, len(in.Times)+1)
		hold := -1
		if len(x.Expr.Args) > 2 {
			hold = IntArg(x.Expr, 2)
		}
		if len(x.Expr.Args) > 3 {
			if s, ok := x.Expr.Args[3].(*influxql.StringLiteral); ok {
				o.simple, o.smooth = s.Val == "simple", s.Val != "none"
			}
		}
		f := make(o)
		if hold < 0 {
			hold = f.warm()
		}
		values := expr.Operand{Vector: in.Values}
		out := &Cells{Values: column.Vector{Type: model.Float}}
		for i, v := range values.Floats() {
			if x.Stop.After(o.ring) { // some look at all of it
				break
			}
			if y := f.add(v); i >= hold && !math.IsInf(y, 0) {
				out.Times = append(out.Times, in.Times[i])
				out.Values.Floats = append(out.Values.Floats, y)
			}
		}
		return out, nil
	}}
}

// ema is an exponential moving average. Until it has seen period values its
// weight is that of a shorter period, or it is the plain mean.
type ema struct {
	period int
	weight float64
	simple bool
	n      int
	last   float64
}

func newEMA(period int, simple bool) *ema {
	return &ema{period: period, weight: 2 / float64(period+1), simple: simple}
}

// smoothed is Wilder's average: weight 1/period, one value more to warm up.
func smoothed(period int, simple bool) *ema {
	return &ema{period: period + 1, weight: 1 / float64(period), simple: simple}
}

func (e *ema) warm() int    { return e.period - 1 }
func (e *ema) warmed() bool { return e.n >= e.period }

func (e *ema) add(v float64) float64 {
	switch {
	case e.n == 0:
		e.last = v
	case e.warmed():
		e.last += (v - e.last) * e.weight
	case e.simple:
		e.last = (e.last*float64(e.n) + v) / float64(e.n+1)
	default:
		e.last += (v - e.last) * 2 / float64(e.n+2)
	}
	if e.n < e.period {
		e.n++
	}
	return e.last
}

func emas(n, period int, simple bool) []*ema {
	out := make([]*ema, n)
	for i := range out {
		out[i] = newEMA(period, simple)
	}
	return out
}

// multiEMA feeds averages into one another. With the simple warm-up an average
// starts when the one before it is warm.
type multiEMA struct {
	e       []*ema
	extra   int
	started bool
	combine func(a []float64, first bool) float64
}

func (m *multiEMA) warm() int {
	if !m.e[0].simple {
		return m.e[0].warm() + m.extra
	}
	return len(m.e)*m.e[0].warm() + m.extra
}

func (m *multiEMA) add(v float64) float64 {
	a := make([]float64, len(m.e))
	for i, e := range m.e {
		if i > 0 && e.simple && !m.e[i-1].warmed() {
			a[i] = a[i-1]
			for j := i + 1; j < len(a); j++ {
				a[j] = a[i]
			}
			break
		}
		v = e.add(v)
		a[i] = v
	}
	first := !m.started
	m.started = true
	return m.combine(a, first)
}

// strength compares the averages of rises and falls: as relative strength
// index, or smoothed momentum.
type strength struct {
	up, down *ema
	relative bool
	last     float64
}

func (s *strength) warm() int { return s.up.warm() }

func (s *strength) add(v float64) float64 {
	up, down := max(v-s.last, 0), max(s.last-v, 0)
	s.last = v
	u, d := s.up.add(up), s.down.add(down)
	if s.relative {
		return 100 - 100/(u/d+1)
	}
	return 100 * ((u - d) / (u + d))
}

// momentum is Chande's oscillator over the differences of the last period.
type momentum struct {
	ring    []float64 // signed differences
	i       int
	last    float64
	started bool
}

func (m *momentum) warm() int { return len(m.ring) - 1 }

func (m *momentum) add(v float64) float64 {
	if !m.started {
		m.started, m.last = true, v
	}
	m.ring[m.i] = v - m.last
	m.i = (m.i + 1) % len(m.ring)
	m.last = v
	var up, down float64
	for _, d := range m.ring {
		up += max(d, 0)
		down += max(-d, 0)
	}
	if up == 0 && down == 0 {
		return 0
	}
	return 100 * ((up - down) / (up + down))
}

type pricePoint struct{ price, diff float64 }

// efficiency is Kaufman's ratio of the way made to the way gone.
type efficiency struct {
	ring []pricePoint
	i    int // of the last price
	n    int
}

func (e *efficiency) warm() int { return len(e.ring) }

func (e *efficiency) add(v float64) float64 {
	last := e.ring[e.i].price
	e.i = (e.i + 1) % len(e.ring)
	signal := math.Abs(v - e.ring[e.i].price)
	e.ring[e.i] = pricePoint{v, math.Abs(v - last)}
	if e.n <= len(e.ring) {
		e.n++
	}
	noise := 0.0
	for _, p := range e.ring {
		noise += p.diff
	}
	if signal == 0 || noise == 0 {
		return 0
	}
	return signal / noise
}

// adaptive is Kaufman's average, whose weight follows the efficiency ratio.
type adaptive struct {
	ratio efficiency
	last  float64
}

func (a *adaptive) warm() int { return a.ratio.warm() }

func (a *adaptive) add(v float64) float64 {
	if a.ratio.n <= len(a.ratio.ring) {
		a.last = a.ratio.ring[a.ratio.i].price
	}
	const fast, slow = 2.0 / 3, 2.0 / 31
	w := a.ratio.add(v)*(fast-slow) + slow
	a.last += w * w * (v - a.last)
	return a.last
}
