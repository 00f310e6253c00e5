package engine

import (
	"errors"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/prom/queryable"
	"tsdbd/prom/window"
)

// errLimit ends an evaluation that has reached the limit of series.
var errLimit = errors.New("the limit of series is reached")

// direct evaluates an expression without Prometheus' engine, if prom/window can. It
// hands each series out when it is computed.
func (r *run) direct(req *Request, expr parser.Expr, sink Sink) (out *Outcome, done bool, err error) {
	if req.Stats || req.StepStats {
		return nil, false, nil // only the engine counts samples
	}
	plan := window.NewPlan(expr, &window.Query{Start: req.Start, End: req.End, Step: req.Step, Lookback: req.lookback(r.Limits())})
	if plan == nil {
		return nil, false, nil
	}
	src := queryable.Source{Storage: r.opt.Storage, DB: r.access.DB, RP: r.access.RP, Charge: r.claim.Keep}
	first, last := plan.Reads()
	found, err := src.Find(r.ctx, first, last, plan.Matchers())
	if r.lacks(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, true, err
	}
	defer found.Close()
	if found.Histograms() {
		return nil, false, nil
	}
	defer r.watch(bounds{})()
	h := handing{run: r, sink: sink, plan: plan, req: req}
	if err := r.claim.Keep(pointBytes * int64(plan.Steps())); err != nil {
		return nil, true, err
	}
	notes, err := plan.Run(found, window.Env{Charge: r.claim.Keep, Check: r.check}, h.series)
	notes.Merge(found.Warnings())
	if errors.Is(err, window.ErrEngine) {
		return nil, false, nil
	}
	if cut := errors.Is(err, errLimit); err == nil || cut {
		if err = h.begin(); err == nil {
			return outcome(req.Expr, notes, cut, nil), true, nil
		}
	}
	return nil, true, err
}

// check reports why the query must end, if it must, and lets others work.
func (r *run) check() error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	return r.turn.Yield(r.ctx)
}

// handing hands the series of a plan out.
type handing struct {
	run    *run
	sink   Sink
	plan   *window.Plan
	req    *Request
	begun  bool
	count  int
	points []promql.FPoint
}

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
	at := h.plan.Start()
	if h.req.Step == 0 {
		h.run.failed = h.sink.Sample(&promql.Sample{Metric: ls, T: at, F: steps[0]})
		return h.run.failed
	}
	h.points = h.points[:0]
	for _, v := range steps {
		if !window.IsAbsent(v) {
			h.points = append(h.points, promql.FPoint{T: at, F: v})
		}
		at += h.req.Step.Milliseconds()
	}
	h.run.failed = h.sink.Series(&promql.Series{Metric: ls, Floats: h.points})
	return h.run.failed
}
