package operator

import (
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/prom/window"
)

// TestNew says which expressions have a tree, and how many plans it has.
func TestNew(t *testing.T) {
	for expr, plans := range map[string]int{
		"1 - a / b": 2,
		"(1 - a / ignoring (x) b) * 100 > bool 5":   2,
		"sum(rate(a[5m])) / sum(rate(b[5m])) > 0.1": 2,
		"a == on (x) b":              2,
		"2 ^ rate(a[1m])":            1,
		"a":                          0, // a plan, without an operator
		"1 + 2":                      0,
		"(1 + 2) * a":                1,
		"-a":                         1,
		"a and b":                    2,
		"a or on (x) b":              2,
		"a * on (x) group_left () b": 2,
		"abs(a / b)":                 2,
		"sum by (x) (a / b)":         2,
		"topk(3, a / b)":             2,
		"a / abs(b) or vector(0)":    2,
		"a > scalar(sum(b))":         2,
		"time() - a":                 1,
		"rate((a - b)[5m:1m])":       2,
		"histogram_quantile(0.9, sum by (le) (rate(a[5m])))": 1,
		"time() - 1":               0, // no series
		"scalar(a)":                0,
		"a * on (__name__) b":      0,
		"a + fill (0) b":           0,
		"histogram_quantile(2, a)": 0, // the engine warns
		"quantile(NaN, a + b)":     0,
		"abs(label_replace(a, \"x\", \"\", \"\", \"\"))": 0,
		"count_values(\"x\", a + b)":                     0,
	} {
		e, err := parser.NewParser(parser.Options{EnableBinopFillModifiers: true}).ParseExpr(expr)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		if tree := New(e, &window.Query{Start: time.Unix(0, 0), End: time.Unix(600, 0), Step: time.Minute, Lookback: time.Minute, Substep: time.Minute}); tree != nil {
			got = len(tree.Plans())
		}
		if got != plans {
			t.Errorf("%s: %d plans, want %d", expr, got, plans)
		}
	}
}
