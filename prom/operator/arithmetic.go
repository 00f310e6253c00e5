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

// apply computes the operator at the steps of a and b into dst, which may be one of them,
// and reports whether a step has a value. A comparison keeps values of kept.
func (t *Tree) apply(dst, a, b, kept []float64) (some bool) {
	for i := range dst {
		if window.IsAbsent(a[i]) || window.IsAbsent(b[i]) {
			dst[i] = window.Absent()
			continue
		}
		v, keep := t.op(a[i], b[i])
		switch {
		case t.bool && keep:
			v = 1
		case t.bool:
			v = 0
		case !keep:
			v = window.Absent()
		case t.compares:
			v = kept[i]
		}
		dst[i] = v
		some = some || !window.IsAbsent(v)
	}
	return some
}
