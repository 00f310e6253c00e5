package operator

import (
	"math"

	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/prom/window"
)

// operators are the operators between two floats. A comparison keeps a step where it is
// true.
var operators = map[parser.ItemType]func(a, b float64) (value float64, keep bool){
	parser.ADD:   func(a, b float64) (float64, bool) { return a + b, true },
	parser.SUB:   func(a, b float64) (float64, bool) { return a - b, true },
	parser.MUL:   func(a, b float64) (float64, bool) { return a * b, true },
	parser.DIV:   func(a, b float64) (float64, bool) { return a / b, true },
	parser.POW:   func(a, b float64) (float64, bool) { return math.Pow(a, b), true },
	parser.MOD:   func(a, b float64) (float64, bool) { return math.Mod(a, b), true },
	parser.ATAN2: func(a, b float64) (float64, bool) { return math.Atan2(a, b), true },
	parser.EQLC:  func(a, b float64) (float64, bool) { return a, a == b },
	parser.NEQ:   func(a, b float64) (float64, bool) { return a, a != b },
	parser.GTR:   func(a, b float64) (float64, bool) { return a, a > b },
	parser.LSS:   func(a, b float64) (float64, bool) { return a, a < b },
	parser.GTE:   func(a, b float64) (float64, bool) { return a, a >= b },
	parser.LTE:   func(a, b float64) (float64, bool) { return a, a <= b },
}

// operator is a binary operator that is none of sets.
type operator struct {
	matching
	op       func(a, b float64) (value float64, keep bool)
	compares bool // the operator is a comparison
	bool     bool // ... that gives 0 or 1
}

// binary returns what computes a binary operator, or nil.
func binary(e *parser.BinaryExpr) func(*run, []value) (value, error) {
	m, ok := matchingOf(e.VectorMatching)
	if !ok {
		return nil
	}
	if e.Op.IsSetOperator() {
		return func(r *run, in []value) (value, error) { return r.set(m, e.Op, in[0].list, in[1].list) }
	}
	o := &operator{matching: m, op: operators[e.Op], compares: e.Op.IsComparisonOperator(), bool: e.ReturnBool}
	if o.op == nil {
		return nil
	}
	left, right := e.LHS.Type() == parser.ValueTypeScalar, e.RHS.Type() == parser.ValueTypeScalar
	return func(r *run, in []value) (value, error) {
		switch {
		case left && right:
			o.apply(in[0].each, in[0].each, in[1].each, in[0].each)
			return in[0], nil
		case right:
			return r.each(o, in[0].list, func(s *series) bool { return o.apply(s.steps, s.steps, in[1].each, s.steps) })
		case left:
			return r.each(o, in[1].list, func(s *series) bool { return o.apply(s.steps, in[0].each, s.steps, s.steps) })
		}
		return r.both(o, in[0].list, in[1].list)
	}
}

// renames reports whether the result lacks the names of the metrics.
func (o *operator) renames() bool { return !o.compares || o.bool }

// each computes an operator between series and a scalar.
func (r *run) each(o *operator, list []series, apply func(*series) bool) (value, error) {
	if o.renames() {
		return r.unnamed(list, apply)
	}
	list, err := r.change(list, apply)
	return value{list: list}, err
}

// apply computes the operator at the steps of a and b into dst, which may be one of them,
// and reports whether a step has a value. A comparison keeps values of kept.
func (o *operator) apply(dst, a, b, kept []float64) (some bool) {
	for i := range dst {
		if window.IsAbsent(a[i]) || window.IsAbsent(b[i]) {
			dst[i] = window.Absent()
			continue
		}
		v, keep := o.op(a[i], b[i])
		switch {
		case o.bool && keep:
			v = 1
		case o.bool:
			v = 0
		case !keep:
			v = window.Absent()
		case o.compares:
			v = kept[i]
		}
		dst[i] = v
		some = some || !window.IsAbsent(v)
	}
	return some
}
