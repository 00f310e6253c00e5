package window

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Part is a part of an expression that has a plan.
type Part struct {
	*Plan
	// Selector replaces the part. Its first matcher matches no series.
	Selector *parser.VectorSelector
}

// Parts replaces the largest parts of an expression that have a plan, and for which
// accept returns true, by selectors. It changes the expression.
func Parts(expr parser.Expr, q *Query, accept func(*Plan) (bool, error)) ([]Part, error) {
	r := &replacer{query: q, accept: accept}
	r.replace(&expr)
	return r.parts, r.err
}

type replacer struct {
	query  *Query
	accept func(*Plan) (bool, error)
	parts  []Part
	err    error
}

func (r *replacer) replace(expr *parser.Expr) {
	if *expr == nil || r.err != nil || r.part(expr) {
		return
	}
	switch e := (*expr).(type) {
	case *parser.Call:
		switch e.Func.Name {
		case "info", "timestamp", "start_timestamp":
			return // they look at the selector itself
		case "absent":
			if of, ok := e.Args[0].(*parser.VectorSelector); ok {
				r.absent(e, of, of)
				return
			}
		case "absent_over_time":
			of, _ := Inner(e.Args[0]).(*parser.MatrixSelector)
			var selector *parser.VectorSelector
			if of != nil {
				selector = Inner(of.VectorSelector).(*parser.VectorSelector)
			}
			r.absent(e, &parser.Call{Func: parser.Functions["last_over_time"], Args: e.Args, PosRange: e.PosRange}, selector)
			return
		}
	case *parser.MatrixSelector:
		return
	case *parser.SubqueryExpr:
		outer := r.query
		q, ok := outer.query(e)
		if !ok {
			return
		}
		r.query = q
		defer func() { r.query = outer }()
	}
	Operands(*expr, r.replace)
}

// Operands calls visit for each operand of an expression. visit may replace it.
func Operands(e parser.Expr, visit func(*parser.Expr)) {
	switch e := e.(type) {
	case *parser.ParenExpr:
		visit(&e.Expr)
	case *parser.UnaryExpr:
		visit(&e.Expr)
	case *parser.BinaryExpr:
		visit(&e.LHS)
		visit(&e.RHS)
	case *parser.AggregateExpr:
		visit(&e.Expr)
		visit(&e.Param)
	case *parser.Call:
		for i := range e.Args {
			visit(&e.Args[i])
		}
	case *parser.MatrixSelector:
		visit(&e.VectorSelector)
	case *parser.SubqueryExpr:
		visit(&e.Expr)
	}
}

// absent replaces absent and absent_over_time by absent of a part, which has a value where there
// is a sample. A selector is what is absent.
func (r *replacer) absent(e *parser.Call, of parser.Expr, selector *parser.VectorSelector) {
	last := of
	if !r.part(&last) || last == of {
		return
	}
	s := last.(*parser.VectorSelector)
	if selector != nil { // the result has the labels that the matchers ask for
		s.LabelMatchers = append(s.LabelMatchers, selector.LabelMatchers...)
	}
	e.Func, e.Args = parser.Functions["absent"], parser.Expressions{s}
}

// part replaces an expression if it has a plan.
func (r *replacer) part(expr *parser.Expr) bool {
	if _, ok := (*expr).(*parser.ParenExpr); ok || (*expr).Type() != parser.ValueTypeVector {
		return false // notes of the engine name the place of parentheses, or of what is in them
	}
	p := NewPart(*expr, r.query)
	if p == nil {
		return false
	}
	ok, err := r.accept(p)
	if err != nil || !ok {
		r.err = err
		return true
	}
	s := &parser.VectorSelector{
		LabelMatchers: []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, "")},
		PosRange:      (*expr).PositionRange(),
	}
	r.parts = append(r.parts, Part{p, s})
	*expr = s
	return true
}
