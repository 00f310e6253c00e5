package promapi

import (
	"fmt"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// maxLayout bounds the length of a query that is laid out times the square of its depth.
// Prometheus' parser writes an operand again for each expression around it and for each
// part of it, and does not look at the context: this much takes a second or less.
const maxLayout = 1 << 30

// formatQuery answers with a query in its usual layout.
func (a *API) formatQuery(c *Call) error {
	text := c.param("query")
	expr, err := a.opt.Engine.Parse(c.Request.Context(), &c.Access, text)
	if err != nil {
		return parameterError(err, "query")
	}
	if d := depth(expr); int64(len(text))*int64(d)*int64(d) > maxLayout {
		return invalid("query", fmt.Errorf("a query of %d bytes whose expressions are nested %d deep is too large to be formatted", len(text), d))
	}
	return c.answer(expr.Pretty(0), nil)
}

// depth returns how deep expressions are nested.
func depth(expr parser.Expr) int {
	most := 0
	parser.Inspect(expr, func(_ parser.Node, path []parser.Node) error {
		most = max(most, len(path)+1)
		return nil
	})
	return most
}

// parseQuery answers with the tree of a query.
func (a *API) parseQuery(c *Call) error {
	expr, err := a.opt.Engine.Parse(c.Request.Context(), &c.Access, c.param("query"))
	if err != nil {
		return parameterError(err, "query")
	}
	return c.answer(tree(expr), nil)
}

// node is a JSON object of a tree.
type node = map[string]any

// tree returns an expression for JSON, in the members of Prometheus.
func tree(expr parser.Expr) any {
	switch e := expr.(type) {
	case *parser.AggregateExpr:
		return node{
			"type": "aggregation", "op": e.Op.String(), "expr": tree(e.Expr), "param": tree(e.Param),
			"grouping": texts(e.Grouping), "without": e.Without,
		}
	case *parser.BinaryExpr:
		return node{
			"type": "binaryExpr", "op": e.Op.String(), "lhs": tree(e.LHS), "rhs": tree(e.RHS),
			"matching": matching(e.VectorMatching), "bool": e.ReturnBool,
		}
	case *parser.Call:
		args := []any{}
		for _, arg := range e.Args {
			args = append(args, tree(arg))
		}
		return node{
			"type": "call", "args": args,
			"func": node{"name": e.Func.Name, "argTypes": e.Func.ArgTypes, "variadic": e.Func.Variadic, "returnType": e.Func.ReturnType},
		}
	case *parser.MatrixSelector:
		n := selector(e.VectorSelector.(*parser.VectorSelector))
		n["type"], n["range"], n["rangeExpr"] = "matrixSelector", e.Range.Milliseconds(), durationTree(e.RangeExpr)
		return n
	case *parser.VectorSelector:
		return selector(e)
	case *parser.SubqueryExpr:
		return node{
			"type": "subquery", "expr": tree(e.Expr),
			"range": e.Range.Milliseconds(), "rangeExpr": durationTree(e.RangeExpr),
			"offset": e.OriginalOffset.Milliseconds(), "offsetExpr": durationTree(e.OriginalOffsetExpr),
			"step": e.Step.Milliseconds(), "stepExpr": durationTree(e.StepExpr),
			"timestamp": e.Timestamp, "startOrEnd": startOrEnd(e.StartOrEnd),
		}
	case *parser.NumberLiteral:
		return node{"type": "numberLiteral", "val": strconv.FormatFloat(e.Val, 'f', -1, 64)}
	case *parser.ParenExpr:
		return node{"type": "parenExpr", "expr": tree(e.Expr)}
	case *parser.StringLiteral:
		return node{"type": "stringLiteral", "val": e.Val}
	case *parser.UnaryExpr:
		return node{"type": "unaryExpr", "op": e.Op.String(), "expr": tree(e.Expr)}
	}
	return nil // such as the parameter that an aggregation does not have
}

func selector(e *parser.VectorSelector) node {
	return node{
		"type": "vectorSelector", "name": e.Name,
		"offset": e.OriginalOffset.Milliseconds(), "offsetExpr": durationTree(e.OriginalOffsetExpr),
		"matchers": matchers(e.LabelMatchers), "timestamp": e.Timestamp, "startOrEnd": startOrEnd(e.StartOrEnd),
		"anchored": e.Anchored, "smoothed": e.Smoothed,
	}
}

func matching(m *parser.VectorMatching) any {
	if m == nil {
		return nil
	}
	return node{
		"card": m.Card.String(), "labels": texts(m.MatchingLabels), "on": m.On, "include": texts(m.Include),
		"fillValues": node{"lhs": m.FillValues.LHS, "rhs": m.FillValues.RHS},
	}
}

func matchers(all []*labels.Matcher) []any {
	out := []any{}
	for _, m := range all {
		out = append(out, node{"name": m.Name, "value": m.Value, "type": m.Type.String()})
	}
	return out
}

// durationTree returns the expression of a duration; nil is null.
func durationTree(e *parser.DurationExpr) any {
	if e == nil {
		return nil
	}
	return node{"type": "durationExpr", "op": e.Op.String(), "lhs": operandTree(e.LHS), "rhs": operandTree(e.RHS), "wrapped": e.Wrapped}
}

// operandTree returns an operand in the expression of a duration.
func operandTree(e parser.Expr) any {
	switch e := e.(type) {
	case *parser.DurationExpr:
		return durationTree(e)
	case *parser.NumberLiteral:
		return node{"type": "numberLiteral", "val": strconv.FormatFloat(e.Val, 'f', -1, 64), "duration": e.Duration}
	}
	return nil
}

func startOrEnd(item parser.ItemType) any {
	if item == 0 {
		return nil
	}
	return item.String()
}

// texts returns a list that is never null.
func texts(all []string) []string { return append([]string{}, all...) }
