package window

import (
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

// maxSubsteps bounds the steps of a subquery that has a plan.
const maxSubsteps = 1 << 24

// query returns when a subquery in an expression is evaluated, and false if only the
// engine can tell, or if there are too many steps.
func (q *Query) query(e *parser.SubqueryExpr) (*Query, bool) {
	g, ok := q.Grid()
	if !ok || g.Steps() == 0 || q.Substep <= 0 || e.Timestamp != nil || e.StartOrEnd != 0 ||
		e.RangeExpr != nil || e.StepExpr != nil || e.OriginalOffsetExpr != nil {
		return nil, false
	}
	step := e.Step.Milliseconds()
	if e.Step == 0 {
		step = q.Substep.Milliseconds()
	}
	if step < 1 {
		return nil, false
	}
	offset := e.OriginalOffset.Milliseconds()
	// Its steps are multiples of the step, from the first after the window on.
	before := g.Start - offset - e.Range.Milliseconds()
	start := step * (before / step)
	if start <= before {
		start += step
	}
	end := g.At(g.Steps()-1) - offset
	if (end-start)/step >= maxSubsteps {
		return nil, false
	}
	return &Query{
		Start: time.UnixMilli(start), End: time.UnixMilli(end), Step: time.Duration(step) * time.Millisecond,
		Lookback: q.Lookback, Substep: q.Substep,
	}, true
}

// subquery plans a function over a subquery.
func (p *Plan) subquery(e *parser.SubqueryExpr, q *Query) bool {
	at, ok := q.query(e)
	if !ok {
		return false
	}
	p.sub = NewPart(e.Expr, at)
	if p.sub == nil || p.sub.fixed || p.sub.top() || slices.ContainsFunc(p.sub.grouping, IsReserved) && !p.sub.without {
		return false // the engine has the order of the best series, and finds equal labels
	}
	p.over(e)
	return true
}

// over sets the range of a function over a subquery.
func (p *Plan) over(e *parser.SubqueryExpr) {
	p.spec.Range, p.spec.Offset = e.Range.Milliseconds(), e.OriginalOffset.Milliseconds()
}

// stage is the result of a plan in a subquery: series with samples at its steps, which
// another plan reads.
type stage struct {
	*Set
	times  []int64
	values []float64
}

func (p *Plan) stage(in Reader, env Env) (*stage, error) {
	set, err := p.NewSet(in, env)
	if err != nil {
		return nil, err
	}
	n := p.Steps()
	if err := env.Charge(16 * int64(n)); err != nil {
		return nil, err
	}
	return &stage{Set: set, times: make([]int64, 0, n), values: make([]float64, 0, n)}, nil
}

// Order implements Reader.
func (s *stage) Order(order []int32) error {
	if s.op == "" {
		return s.in.Order(order)
	}
	old := s.series
	s.series = make([]computed, len(old))
	for i, from := range order {
		s.series[i] = old[from]
	}
	return nil
}

// Samples implements Reader.
func (s *stage) Samples(i int) ([]int64, []float64, error) {
	steps, err := s.stepsOf(i)
	if err != nil {
		return nil, nil, err
	}
	s.times, s.values = s.times[:0], s.values[:0]
	for k, v := range steps {
		if !IsAbsent(v) {
			s.times, s.values = append(s.times, s.grid.At(k)), append(s.values, v)
		}
	}
	return s.times, s.values, nil
}
