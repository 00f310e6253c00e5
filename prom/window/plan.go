package window

import (
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
)

// Query says when an expression is evaluated.
type Query struct {
	Start, End time.Time
	Step       time.Duration // 0: an instant query
	Lookback   time.Duration
	// Substep is the step of subqueries that name none. 0: subqueries have no plan.
	Substep time.Duration
}

// Grid returns the evaluation times, and false if they are not whole
// milliseconds.
func (q *Query) Grid() (Grid, bool) {
	g := Grid{Start: q.Start.UnixMilli(), End: q.End.UnixMilli(), Step: q.Step.Milliseconds()}
	if q.Step == 0 {
		g.End, g.Step = g.Start, 1
	}
	if q.Step < 0 || g.Step < 1 {
		return g, false
	}
	return g, whole(q.Start) && whole(q.End)
}

// whole reports whether the engine takes t for the millisecond of UnixMilli: it
// rounds to zero, and counts nanoseconds in 64 bits.
func whole(t time.Time) bool {
	const far = 9_000_000_000_000
	ms := t.UnixMilli()
	return ms > -far && ms < far && (ms >= 0 || time.UnixMilli(ms).Equal(t))
}

// Plan is an expression that kernels compute: a selector, a function over a range
// selector, a function over a subquery of a plan, or an aggregation of one of them.
type Plan struct {
	spec     spec
	matchers []*labels.Matcher
	sub      *Plan                  // in the subquery; nil: the plan has a selector
	steps    int                    // of the result, all like the first if the spec has one step
	instant  bool                   // an instant query
	part     bool                   // of an expression, see Parts
	argument posrange.PositionRange // of the function

	op       string // of the aggregation; empty: none
	param    float64
	k        int      // of topk and bottomk
	grouping []string // sorted
	without  bool     // the names are in grouping
	fixed    bool     // the selector has a time of its own
}

// NewPlan returns the plan of an expression as it was parsed, or nil if Prometheus'
// engine must evaluate it.
func NewPlan(expr parser.Expr, q *Query) *Plan {
	p := newPlan(q, q.Lookback.Milliseconds())
	if p == nil {
		return nil
	}
	expr = Inner(expr)
	if agg, ok := expr.(*parser.AggregateExpr); ok {
		if !p.aggregate(agg) {
			return nil
		}
		expr = Inner(agg.Expr)
	}
	switch e := expr.(type) {
	case *parser.VectorSelector:
		if p.selector(e) {
			return p
		}
	case *parser.Call:
		if p.call(e, q) {
			return p
		}
	}
	return nil
}

func newPlan(q *Query, lookback int64) *Plan {
	g, ok := q.Grid()
	if !ok || g.Steps() == 0 {
		return nil
	}
	return &Plan{spec: spec{Grid: g, Lookback: lookback}, steps: g.Steps(), instant: q.Step == 0}
}

// NewPart is NewPlan for an expression in another one. Its series come in the order of
// Prometheus' engine.
func NewPart(expr parser.Expr, q *Query) *Plan {
	p := NewPlan(expr, q)
	if p != nil {
		p.part = true
	}
	return p
}

// NewOver returns a plan over the series of another expression, and when that is
// evaluated: the plan is an aggregation of it, or a function over a subquery of it. The
// plan has no matchers. A series of its Reader has a sample at each evaluation time of the
// other expression, which is the marker if there is no value. The plan is nil if it is none
// of both.
func NewOver(expr parser.Expr, q *Query) (p *Plan, of parser.Expr, at *Query) {
	if p = newPlan(q, 1); p == nil {
		return nil, nil, nil
	}
	p.part = true
	switch e := expr.(type) {
	case *parser.AggregateExpr:
		if p.aggregate(e) {
			return p, e.Expr, q
		}
	case *parser.Call:
		arg, ok := p.function(e)
		if sub, isSub := Inner(arg).(*parser.SubqueryExpr); ok && isSub {
			if at, ok = q.query(sub); ok {
				p.over(sub)
				return p, sub.Expr, at
			}
		}
	}
	return nil, nil, nil
}

// Inner returns what parentheses enclose.
func Inner(e parser.Expr) parser.Expr {
	for {
		p, ok := e.(*parser.ParenExpr)
		if !ok {
			return e
		}
		e = p.Expr
	}
}

// Number returns the value of a literal.
func Number(e parser.Expr) (float64, bool) {
	n, ok := Inner(e).(*parser.NumberLiteral)
	if !ok {
		return 0, false
	}
	return n.Val, true
}

func (p *Plan) aggregate(e *parser.AggregateExpr) bool {
	p.op = e.Op.String()
	switch p.op {
	case "topk", "bottomk":
		k, ok := Number(e.Param)
		if !ok || !(k >= 1) || k > math.MaxInt32 {
			return false
		}
		p.k = int(k)
	case "quantile":
		var ok bool
		if p.param, ok = Number(e.Param); !ok || !(p.param >= 0 && p.param <= 1) {
			return false // the engine warns
		}
	default:
		if foldWords[p.op] == 0 {
			return false
		}
	}
	p.grouping, p.without = slices.Clone(e.Grouping), e.Without
	if p.without {
		p.grouping = append(p.grouping, model.MetricNameLabel)
	}
	slices.Sort(p.grouping)
	return true
}

// function sets the function of a call, and returns its argument that is no number.
func (p *Plan) function(e *parser.Call) (arg parser.Expr, ok bool) {
	p.spec.Func = e.Func.Name
	if _, ok = functions[p.spec.Func]; !ok {
		return nil, false
	}
	switch {
	case p.spec.Func == "quantile_over_time":
		p.spec.Param, ok = Number(e.Args[0])
		return e.Args[1], ok && p.spec.Param >= 0 && p.spec.Param <= 1 // or else the engine warns
	case p.spec.Func == "predict_linear":
		p.spec.Param, ok = Number(e.Args[1])
	}
	return e.Args[0], ok
}

func (p *Plan) call(e *parser.Call, q *Query) bool {
	arg, ok := p.function(e)
	if !ok {
		return false
	}
	if sub, ok := Inner(arg).(*parser.SubqueryExpr); ok {
		return p.subquery(sub, q)
	}
	m, ok := Inner(arg).(*parser.MatrixSelector)
	if !ok || m.RangeExpr != nil {
		return false
	}
	vs, ok := Inner(m.VectorSelector).(*parser.VectorSelector)
	if !ok {
		return false
	}
	p.spec.Range, p.argument = m.Range.Milliseconds(), m.PositionRange()
	return p.selector(vs)
}

func (p *Plan) selector(e *parser.VectorSelector) bool {
	if e.Anchored || e.Smoothed || e.OriginalOffsetExpr != nil {
		return false
	}
	p.matchers, p.spec.Offset = e.LabelMatchers, e.OriginalOffset.Milliseconds()
	at := e.Timestamp
	switch e.StartOrEnd {
	case parser.START:
		at = &p.spec.Start
	case parser.END:
		at = &p.spec.End
	}
	if at == nil {
		return true
	}
	if p.spec.Func == "predict_linear" {
		return false // it depends on the evaluation time
	}
	// All steps are evaluated as of one time, once.
	p.fixed = true
	p.spec.Offset += p.spec.Start - *at
	p.spec.End = p.spec.Start
	return true
}

// Matchers returns the matchers of the selector.
func (p *Plan) Matchers() []*labels.Matcher {
	if p.sub != nil {
		return p.sub.Matchers()
	}
	return p.matchers
}

// Reads returns the first and the last millisecond that the plan reads.
func (p *Plan) Reads() (mint, maxt int64) {
	if p.sub != nil {
		return p.sub.Reads()
	}
	mint, maxt = p.spec.Reads()
	return mint + 1, maxt
}

// Fixed reports whether the selector has a time of its own, so that all steps are the same.
func (p *Plan) Fixed() bool { return p.fixed }

// Steps returns the number of steps of the result.
func (p *Plan) Steps() int { return p.steps }

// InOrder reports whether the series come in the order of Prometheus' engine, not in
// that of their labels.
func (p *Plan) InOrder() bool { return p.instant || p.part }

// drops reports whether the results lack the names of the series.
func (p *Plan) drops() bool { return !p.spec.KeepsName() }

// top reports whether the plan chooses series.
func (p *Plan) top() bool { return p.k > 0 }
