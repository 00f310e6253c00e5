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

// grid returns the evaluation times, and false if they are not whole
// milliseconds.
func (q *Query) grid() (Grid, bool) {
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
	g, ok := q.grid()
	if !ok {
		return nil
	}
	p := &Plan{spec: spec{Grid: g, Lookback: q.Lookback.Milliseconds()}, steps: g.Steps(), instant: q.Step == 0}
	expr = Inner(expr)
	if agg, ok := expr.(*parser.AggregateExpr); ok {
		if !p.aggregate(agg) {
			return nil
		}
		expr = Inner(agg.Expr)
	}
	switch e := expr.(type) {
	case *parser.VectorSelector:
		ok = p.selector(e)
	case *parser.Call:
		ok = p.call(e, q)
	default:
		ok = false
	}
	if !ok || p.steps == 0 {
		return nil
	}
	if _, ok := functions[p.spec.Func]; !ok {
		return nil
	}
	return p
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

// number returns the value of a literal.
func number(e parser.Expr) (float64, bool) {
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
		k, ok := number(e.Param)
		if !ok || !(k >= 1) || k > math.MaxInt32 {
			return false
		}
		p.k = int(k)
	case "quantile":
		var ok bool
		if p.param, ok = number(e.Param); !ok || !(p.param >= 0 && p.param <= 1) {
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

func (p *Plan) call(e *parser.Call, q *Query) bool {
	p.spec.Func = e.Func.Name
	var arg parser.Expr
	switch {
	case p.spec.Func == "quantile_over_time":
		q, ok := number(e.Args[0])
		if !ok || !(q >= 0 && q <= 1) {
			return false // the engine warns
		}
		p.spec.Param, arg = q, e.Args[1]
	case p.spec.Func == "predict_linear":
		d, ok := number(e.Args[1])
		if !ok {
			return false
		}
		p.spec.Param, arg = d, e.Args[0]
	case len(e.Args) == 1:
		arg = e.Args[0]
	default:
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

// Start returns the time of the first step.
func (p *Plan) Start() int64 { return p.spec.Start }

// Steps returns the number of steps of the result.
func (p *Plan) Steps() int { return p.steps }

// InOrder reports whether the series come in the order of Prometheus' engine, not in
// that of their labels.
func (p *Plan) InOrder() bool { return p.instant || p.part }

// drops reports whether the results lack the names of the series.
func (p *Plan) drops() bool { return !p.spec.KeepsName() }

// top reports whether the plan chooses series.
func (p *Plan) top() bool { return p.k > 0 }
