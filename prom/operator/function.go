package operator

import (
	"math"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/prom/window"
)

// functions are the functions of a float, and of those of them that have arguments. They
// drop the names of the metrics.
var functions = map[string]func(v, a, b float64) float64{
	"abs": of(math.Abs), "ceil": of(math.Ceil), "floor": of(math.Floor), "exp": of(math.Exp), "sqrt": of(math.Sqrt),
	"ln": of(math.Log), "log2": of(math.Log2), "log10": of(math.Log10),
	"sin": of(math.Sin), "cos": of(math.Cos), "tan": of(math.Tan),
	"asin": of(math.Asin), "acos": of(math.Acos), "atan": of(math.Atan),
	"sinh": of(math.Sinh), "cosh": of(math.Cosh), "tanh": of(math.Tanh),
	"asinh": of(math.Asinh), "acosh": of(math.Acosh), "atanh": of(math.Atanh),
	"deg":       of(func(v float64) float64 { return v * 180 / math.Pi }),
	"rad":       of(func(v float64) float64 { return v * math.Pi / 180 }),
	"sgn":       of(sign),
	"round":     func(v, nearest, _ float64) float64 { return math.Floor(v*(1/nearest)+0.5) / (1 / nearest) },
	"clamp":     clamp,
	"clamp_min": func(v, least, _ float64) float64 { return clamp(v, least, math.Inf(1)) },
	"clamp_max": func(v, most, _ float64) float64 { return clamp(v, math.Inf(-1), most) },
}

func of(f func(float64) float64) func(v, a, b float64) float64 {
	return func(v, _, _ float64) float64 { return f(v) }
}

func sign(v float64) float64 {
	switch {
	case v < 0:
		return -1
	case v > 0:
		return 1
	}
	return v
}

func clamp(v, least, most float64) float64 {
	if most < least {
		return window.Absent()
	}
	return math.Max(least, math.Min(most, v))
}

// negate computes a minus sign.
func negate(r *run, in []value) (value, error) {
	if in[0].each != nil {
		for i, v := range in[0].each {
			in[0].each[i] = -v
		}
		return in[0], nil
	}
	return r.unnamed(in[0].list, func(s *series) bool {
		for i, v := range s.steps {
			if !window.IsAbsent(v) {
				s.steps[i] = -v
			}
		}
		return true
	})
}

// call returns the node of a function that has no plan, or nil.
func (t *Tree) call(e *parser.Call, q *window.Query, g window.Grid) *node {
	switch e.Func.Name {
	case "time":
		return scalar(g, func(step int) float64 { return float64(g.At(step)) / 1000 })
	case "scalar":
		return t.over(e.Args, q, g, func(r *run, in []value) (value, error) { return r.only(in[0].list, g.Steps()) })
	case "vector":
		return t.over(e.Args, q, g, func(r *run, in []value) (value, error) {
			return value{list: []series{{labels.EmptyLabels(), in[0].each}}}, r.env.Charge(seriesBytes)
		})
	case "histogram_quantile":
		return t.histogram(e, q, g)
	}
	f := functions[e.Func.Name]
	if f == nil {
		return nil
	}
	args := e.Args
	if e.Func.Name == "round" && len(args) == 1 {
		args = parser.Expressions{args[0], &parser.NumberLiteral{Val: 1}}
	}
	return t.over(args, q, g, func(r *run, in []value) (value, error) {
		a, b := in[min(1, len(in)-1)].each, in[len(in)-1].each
		if len(in) == 1 {
			var err error
			if a, err = r.steps(g.Steps()); err != nil {
				return value{}, err
			}
			b = a
		}
		return r.unnamed(in[0].list, func(s *series) (some bool) {
			for i, v := range s.steps {
				if !window.IsAbsent(v) {
					s.steps[i] = f(v, a[i], b[i])
					some = some || !window.IsAbsent(s.steps[i])
				}
			}
			return some
		})
	})
}

// only computes scalar: the value of the only series at each step.
func (r *run) only(list []series, n int) (value, error) {
	steps, err := r.steps(n)
	if err != nil {
		return value{}, err
	}
	for i := range steps {
		steps[i] = window.Absent()
	}
	for _, s := range list {
		for i, v := range s.steps {
			switch {
			case window.IsAbsent(v):
			case window.IsAbsent(steps[i]):
				steps[i] = v
			default:
				steps[i] = math.NaN()
			}
		}
	}
	for i, v := range steps {
		if window.IsAbsent(v) {
			steps[i] = math.NaN()
		}
	}
	return value{each: steps}, nil
}

// histogram returns the node of histogram_quantile, or nil.
func (t *Tree) histogram(e *parser.Call, q *window.Query, g window.Grid) *node {
	p, ok := window.Number(e.Args[0])
	if !ok || !(p >= 0 && p <= 1) {
		return nil // the engine warns
	}
	return t.over(e.Args[1:], q, g, func(r *run, in []value) (value, error) { return r.quantiles(p, in[0].list) })
}

// buckets are the series of a classic histogram.
type buckets struct {
	bounds []float64
	counts []series
}

// checkedSteps is how many steps of a histogram are computed between two calls of Check: less
// than a millisecond.
const checkedSteps = 1024

// quantiles computes histogram_quantile.
func (r *run) quantiles(q float64, list []series) (value, error) {
	places := map[string]int{}
	var all []buckets
	var buf []byte
	for _, s := range list {
		bound, err := strconv.ParseFloat(s.labels.Get(model.BucketLabel), 64)
		if r.unfit = err != nil; r.unfit {
			return value{}, nil // the engine warns
		}
		buf = s.labels.BytesWithoutLabels(buf, model.BucketLabel)
		i, ok := places[string(buf)]
		if !ok {
			i = len(all)
			if err := r.env.Charge(seriesBytes + int64(len(buf))); err != nil {
				return value{}, err
			}
			places[string(buf)] = i
			all = append(all, buckets{})
		}
		all[i].bounds, all[i].counts = append(all[i].bounds, bound), append(all[i].counts, s)
	}
	result := list[:0:0]
	var at promql.Buckets
	for _, h := range all {
		steps := h.counts[0].steps // are replaced when they were read
		for i := range steps {
			if i%checkedSteps == 0 {
				if err := r.env.Check(); err != nil {
					return value{}, err
				}
			}
			at = at[:0]
			for k := range h.counts {
				if v := h.counts[k].steps[i]; !window.IsAbsent(v) {
					at = append(at, promql.Bucket{UpperBound: h.bounds[k], Count: v})
				}
			}
			if len(at) == 0 {
				continue // the step is absent
			}
			if steps[i], r.unfit, _, _, _, _ = promql.BucketQuantile(q, at); r.unfit {
				return value{}, nil // the engine says that counts descend
			}
		}
		name := labels.NewBuilder(h.counts[0].labels).Del(model.BucketLabel).Labels()
		result = append(result, series{name.DropReserved(window.IsReserved), steps})
	}
	r.unfit = !distinct(result)
	return value{list: result}, nil
}
