package promjudge

import (
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/internal/testkit/testseed"
)

// asked is the syntax of a server that nobody has configured.
var asked = parser.Options{ExperimentalDurationExpr: true}

// every enables all syntax.
var every = parser.Options{EnableExperimentalFunctions: true, ExperimentalDurationExpr: true, EnableExtendedRangeSelectors: true, EnableBinopFillModifiers: true}

// TestExpressions holds that the random expressions are PromQL, and that they have
// every function and operator.
func TestExpressions(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	e := NewExpressions(r, NewDataset(r, true), every)
	p := parser.NewParser(every)
	const n = 20_000
	seen, refused := map[string]int{}, 0
	for range n {
		text := e.Next()
		expr, err := p.ParseExpr(text)
		if err != nil {
			if refused++; refused < 10 {
				t.Logf("%s: %v", text, err)
			}
			continue
		}
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			switch x := node.(type) {
			case *parser.Call:
				seen[x.Func.Name]++
			case *parser.AggregateExpr:
				seen[x.Op.String()]++
			case *parser.BinaryExpr:
				seen[x.Op.String()]++
			}
			return nil
		})
	}
	if refused > n/100 {
		t.Errorf("%d of %d expressions are refused", refused, n)
	}
	for name := range parser.Functions {
		if seen[name] < 10 {
			t.Errorf("the function %s occurs %d times", name, seen[name])
		}
	}
	for item, name := range parser.ItemTypeStr {
		other := name == "=~" || name == "!~" || name == "=" || name == "@" // in selectors
		if (item.IsOperator() || item.IsAggregator()) && !other && seen[name] < 10 {
			t.Errorf("the operator %s occurs %d times", name, seen[name])
		}
	}
}
