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
		"(1 + 2) * a":                0, // the engine computes it once
		"-a":                         0,
		"a and b":                    0,
		"a or b":                     0,
		"a * on (x) group_left () b": 0,
		"a * on (__name__) b":        0,
		"abs(a / b)":                 0,
		"sum(a / b)":                 0,
		"a / abs(b)":                 0,
	} {
		e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		if tree := New(e, &window.Query{Start: time.Unix(0, 0), End: time.Unix(600, 0), Step: time.Minute, Lookback: time.Minute}); tree != nil {
			got = len(tree.Plans())
		}
		if got != plans {
			t.Errorf("%s: %d plans, want %d", expr, got, plans)
		}
	}
}
