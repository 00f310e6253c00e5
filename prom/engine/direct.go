package engine

import (
	"errors"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"tsdbd/prom/operator"
	"tsdbd/prom/stored"
	"tsdbd/prom/window"
)

// errLimit ends an evaluation that has reached the limit of series.
var errLimit = errors.New("the limit of series is reached")

// planned returns when an expression is evaluated, and false if Prometheus' engine must
// do all of it: only the engine counts samples.
func (r *run) planned(req *Request) (*window.Query, bool) {
	q := &window.Query{Start: req.Start, End: req.End, Step: req.Step, Lookback: req.lookback(r.Limits()), Substep: subqueryStep}
	return q, !req.Stats && !req.StepStats
}

// find returns the series of a plan, and nil if Prometheus' engine must evaluate it.
// The caller closes them.
func (r *run) find(plan *window.Plan) (stored.Series, error) {
	src := r.policy()
	first, last := plan.Reads()
	found, err := src.Find(r.ctx, first, last, plan.Matchers())
	if r.lacks(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if found.Histograms() {
		found.Close()
		return nil, nil
	}
	var in stored.Series = found
	if r.stored != nil {
		if in, err = r.stored.Series(r.ctx, plan, found); err != nil {
			return nil, err
		}
	}
	if fits, err := plan.Fits(in, r.keep); !fits {
		in.Close()
		return nil, err
	}
	return in, nil
}

// env is what plans may use.
func (r *run) env() window.Env { return window.Env{Charge: r.keep, Check: r.check} }

// direct evaluates an expression without Prometheus' engine, if prom/window or
// prom/operator can. It passes each series of a plan to the sink as soon as it is computed.
func (r *run) direct(req *Request, expr parser.Expr, sink Sink) (out *Outcome, done bool, err error) {
	q, ok := r.planned(req)
	if !ok {
		return nil, false, nil
	}
	h := handing{run: r, sink: sink, req: req, start: req.Start.UnixMilli()}
	var notes annotations.Annotations
	if plan := window.NewPlan(expr, q); plan != nil {
		notes, ok, err = r.plan(plan, &h)
	} else if tree := operator.New(expr, q); tree != nil {
		notes, ok, err = r.operator(tree, &h)
	} else {
		return nil, false, nil
	}
	cut := errors.Is(err, errLimit)
	if !ok || err != nil && !cut {
		return nil, err != nil, err
	}
	if err = h.begin(); err != nil {
		return nil, true, err
	}
	return r.outcome(req.Expr, notes, cut, nil), true, nil
}

// plan evaluates a plan. ok is false if Prometheus' engine must do it.
func (r *run) plan(plan *window.Plan, h *handing) (notes annotations.Annotations, ok bool, err error) {
	found, err := r.find(plan)
	if found == nil {
		return nil, false, err
	}
	defer found.Close()
	if err := h.room(); err != nil {
		return nil, true, err
	}
	notes, err = plan.Run(found, r.env(), h.series)
	notes.Merge(found.Warnings())
	return notes, true, err
}

// operator evaluates a tree of operators.
func (r *run) operator(tree *operator.Tree, h *handing) (notes annotations.Annotations, ok bool, err error) {
	var in []window.Reader
	var warnings annotations.Annotations
	for _, plan := range tree.Plans() {
		found, err := r.find(plan)
		if found == nil {
			return nil, false, err
		}
		defer found.Close()
		in = append(in, found)
		warnings.Merge(found.Warnings())
	}
	if err := h.room(); err != nil {
		return nil, true, err
	}
	notes, ok, err = tree.Run(in, r.env(), h.series)
	notes.Merge(warnings)
	return notes, ok, err
}

// parts are the parts of an expression that are evaluated without Prometheus' engine.
type parts struct {
	run  *run
	list []*part
}

// part is a part with its series.
type part struct {
	*window.Plan
	matcher *labels.Matcher // of its selector; nil: it has none
	found   stored.Series
	set     *window.Set // nil until the engine has asked for it
}

// parts replaces the parts of an expression that prom/window has a plan for by
// selectors. The caller closes them.
func (r *run) parts(req *Request, expr parser.Expr) (*parts, error) {
	all := &parts{run: r}
	q, ok := r.planned(req)
	if !ok {
		return all, nil
	}
	replaced, err := window.Parts(expr, q, func(plan *window.Plan) (bool, error) {
		if plan.Fixed() && (r.stored == nil || !r.stored.Reaches(plan)) {
			return false, nil // the engine evaluates it once, and what is around it too
		}
		found, err := r.find(plan)
		if found == nil {
			return false, err
		}
		all.list = append(all.list, &part{Plan: plan, found: found})
		return true, nil
	})
	for i, p := range replaced {
		all.list[i].matcher = p.Selector.LabelMatchers[0]
	}
	if err != nil {
		all.close()
	}
	return all, err
}

func (p *parts) close() {
	for _, one := range p.list {
		one.found.Close()
	}
}

// of returns the series of a part, if the matchers are those of its selector.
func (p *parts) of(matchers []*labels.Matcher) (storage.SeriesSet, bool) {
	if p == nil { // of a request without an expression
		return nil, false
	}
	for _, one := range p.list {
		if len(matchers) == 0 || matchers[0] != one.matcher {
			continue
		}
		set, err := one.NewSet(one.found, p.run.env())
		if err != nil {
			return storage.ErrSeriesSet(err), true
		}
		one.set = set
		return set, true
	}
	return nil, false
}

// notes adds the annotations of the parts.
func (p *parts) notes(to annotations.Annotations) annotations.Annotations {
	for _, one := range p.list {
		to.Merge(one.found.Warnings())
		if one.set != nil {
			to.Merge(one.set.Notes())
		}
	}
	return to
}

// check reports why the query must end, if it must, and lets others work.
func (r *run) check() error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	return r.turn.Yield(r.ctx)
}

// handing passes the series of a result to the sink.
type handing struct {
	run    *run
	sink   Sink
	start  int64 // time of the first step
	req    *Request
	begun  bool
	count  int
	sample promql.Sample // the latest one
	values promql.Series // the latest one of a matrix
}

// room makes room for the points of a series.
func (h *handing) room() error { return h.run.keep(pointBytes * int64(h.req.steps())) }

func (h *handing) begin() error {
	if h.begun {
		return nil
	}
	h.begun = true
	t := parser.ValueTypeVector
	if h.req.Step > 0 {
		t = parser.ValueTypeMatrix
	}
	h.run.failed = h.sink.Begin(t)
	return h.run.failed
}

func (h *handing) series(ls labels.Labels, steps []float64) error {
	if h.req.Limit > 0 && h.count == h.req.Limit {
		return errLimit
	}
	h.count++
	if err := h.begin(); err != nil {
		return err
	}
	at := h.start
	if h.req.Step == 0 {
		h.sample = promql.Sample{Metric: ls, T: at, F: steps[0]}
		h.run.failed = h.sink.Sample(&h.sample)
		return h.run.failed
	}
	if h.values.Floats == nil {
		h.values.Floats = make([]promql.FPoint, 0, len(steps))
	}
	points := h.values.Floats[:0]
	for _, v := range steps {
		if !window.IsAbsent(v) {
			points = append(points, promql.FPoint{T: at, F: v})
		}
		at += h.req.Step.Milliseconds()
	}
	h.values.Metric, h.values.Floats = ls, points
	h.run.failed = h.sink.Series(&h.values)
	return h.run.failed
}
