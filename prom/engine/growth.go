package engine

import (
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// growth is how many bytes of labels an expression makes of the labels of a series: so
// many for each byte of them, and so many more.
type growth struct{ factor, more float64 }

// valueBytes is a number in a label.
const valueBytes = 32

// bytes returns the memory of the labels made of labels of a size.
func (g growth) bytes(size uint64) int64 { return toBytes(g.factor*float64(size) + g.more) }

// around returns the growth of an expression in another one. The other one, g, works on
// what the inner one makes, which is as many as count series. Both are held.
func (g growth) around(inner growth, count float64) growth {
	if inner == (growth{}) {
		return g
	}
	return growth{inner.factor * (1 + g.factor), inner.more*(1+g.factor) + g.more*count}
}

// labelsOf returns the growth of a call. The result has the labels of the series and a
// new one.
func labelsOf(c *parser.Call) growth {
	switch {
	case c.Func.Name == "label_replace" && len(c.Args) == 5:
		name := literal(c.Args[1])
		template := literal(c.Args[2])
		// Each $ stands for a part of one value.
		return growth{1 + float64(strings.Count(template, "$")), float64(len(name) + len(template))}
	case c.Func.Name == "label_join" && len(c.Args) >= 3:
		name := literal(c.Args[1])
		separator := literal(c.Args[2])
		// The values of different labels are no longer than all of them.
		times, most := map[string]int{}, 0
		for _, a := range c.Args[3:] {
			source := literal(a)
			times[source]++
			most = max(most, times[source])
		}
		return growth{1 + float64(most), float64(len(name) + len(separator)*len(c.Args[3:]))}
	}
	return growth{}
}

// literal returns the text of a string, or "".
func literal(e parser.Expr) string {
	for {
		switch n := e.(type) {
		case *parser.ParenExpr:
			e = n.Expr
		case *parser.StepInvariantExpr:
			e = n.Expr
		case *parser.StringLiteral:
			return n.Val
		default:
			return ""
		}
	}
}
