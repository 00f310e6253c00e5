package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"

	"tsdbd/internal/aside"
	"tsdbd/prom/stored"
	"tsdbd/query/admission"
	"tsdbd/query/syntax"
)

// errTruncated is the warning of a value that was cut, in Prometheus' words.
var errTruncated = errors.New("results truncated due to limit")

// run is a request that was admitted.
type run struct {
	*Engine
	ctx    context.Context
	task   *admission.Task
	access *Access
	turn   *admission.Turn
	claim  *admission.Claim
	// watched says that watch runs.
	watched bool
	failed  error // of the sink
	syntax  parser.Parser
	stored  *stored.Policy // nil: downsamples do not stand for samples
}

// admit runs f as a query.
func (e *Engine) admit(ctx context.Context, access *Access, text func() string, f func(*run) error) error {
	ctx, task, err := e.opt.Queries.Start(ctx, admission.Request{
		Text: text, Language: admission.PromQL, Database: access.DB, User: access.User, Account: access.Account, Interrupt: access.Interrupt,
	})
	if err != nil {
		return &Error{Unavailable, err}
	}
	defer task.End()
	r := &run{Engine: e, ctx: ctx, task: task, access: access, turn: access.Turn, syntax: e.syntax()}
	if r.turn == nil {
		r.turn = new(admission.Turn)
	}
	if e.opt.Downsamples != nil {
		if d := e.opt.Downsamples(access.Downsamples); d != nil {
			r.stored = &stored.Policy{Downsamples: d, Storage: r.storage(), DB: access.DB, RP: access.RP, Charge: r.keep, Unused: e.opt.Unused}
		}
	}
	r.claim = task.Account.Claim(r.ctx, r.turn, e.opt.Queries.Limits().MemoryBytes)
	defer r.claim.Release()
	err = e.opt.Queries.Guard(func() string { return admission.RedactURLs(text()) }, func() error {
		if _, err := r.turn.Begin(r.ctx, e.opt.Cores, 1); err != nil {
			return err
		}
		defer r.turn.End()
		r.ctx = aside.With(r.ctx, r.turn.Outside)
		return f(r)
	})
	task.Failed = err != nil
	switch {
	case r.failed != nil && r.ctx.Err() != nil: // the sink was interrupted
		return classify(r.ctx, r.ctx.Err())
	case r.failed != nil:
		return r.failed
	}
	return classify(r.ctx, err)
}

// parse checks and parses an expression.
func (r *run) parse(text string) (parser.Expr, error) {
	var budget syntax.RegexBudget
	if err := check(text, &budget); err != nil {
		return nil, err
	}
	if err := r.keep(regexMemory * budget.Bytes()); err != nil {
		return nil, err
	}
	expr, err := r.syntax.ParseExpr(text)
	if err != nil {
		return nil, &Error{BadData, err}
	}
	return expr, nil
}

// tree returns the expression of a request that was parsed before. An evaluation changes
// its tree.
func (r *run) tree(req *Request) (parser.Expr, error) {
	expr, err := r.syntax.ParseExpr(req.Expr)
	if err != nil {
		return nil, &Error{BadData, err}
	}
	return resolve(expr, req)
}

// evaluate computes an expression and hands its value out.
func (r *run) evaluate(req *Request, expr parser.Expr, sink Sink) (*Outcome, error) {
	if out, done, err := r.direct(req, expr, sink); done || err != nil {
		return out, err
	}
	if req.Step > 0 && boundsOf(expr, req).values {
		return r.sliced(req, expr, sink, sliceSteps)
	}
	steps := 1 // that may be evaluated in slices
	reads := float64(maxReads)
	if req.Step > 0 && !req.StepStats {
		steps = req.steps()
	}
	if steps > 1 {
		reads = sliceReads
	}
	held := r.claim.Held()
	var out *Outcome
	err := r.engine(req, expr, reads, func(res *promql.Result, s *stats.Statistics) error {
		cut, err := r.hand(res.Value, req.Limit, sink)
		out = r.outcome(req.Expr, res.Warnings, cut, s)
		return err
	})
	var long *longWindows
	if steps == 1 || !errors.As(err, &long) {
		return out, err
	}
	_ = r.keep(held - r.claim.Held()) // giving back cannot fail
	if expr, err = r.tree(req); err != nil {
		return nil, err
	}
	return r.sliced(req, expr, sink, max(1, int(float64(steps)*sliceReads/long.reads)))
}

// steps returns the number of steps.
func (req *Request) steps() int {
	if req.Step == 0 {
		return 1
	}
	return int(req.End.Sub(req.Start)/req.step()) + 1
}

// step returns the step in whole milliseconds, as the engine counts it.
func (req *Request) step() time.Duration {
	return max(req.Step.Truncate(time.Millisecond), time.Millisecond)
}

// engine evaluates an expression by Prometheus' engine, but the parts of it that have a
// plan. The windows of a series may have as many points as reads. The result belongs to
// the engine when f returns.
func (r *run) engine(req *Request, expr parser.Expr, reads float64, f func(*promql.Result, *stats.Statistics) error) error {
	parts, err := r.parts(req, expr)
	if err != nil {
		return err
	}
	defer parts.close()
	b := boundsOf(expr, req)
	if err := r.keep(b.fixed); err != nil {
		return err
	}
	if b.reads > reads {
		return &longWindows{reads: b.reads, limit: reads}
	}
	m := r.machine(expr)
	defer r.machines.Put(m)
	src := &source{run: r, bounds: b, parts: parts, reads: reads}
	opts := promql.NewPrometheusQueryOpts(req.StepStats, req.lookback(r.Limits()))
	var q promql.Query
	if req.Step > 0 {
		q, err = m.engine.NewRangeQuery(r.ctx, src, opts, req.Expr, req.Start, req.End, req.Step)
	} else {
		q, err = m.engine.NewInstantQuery(r.ctx, src, opts, req.Expr, req.Start)
	}
	if err != nil {
		return &Error{BadData, err}
	}
	defer q.Close()
	res := q.Exec(r.ctx)
	if res.Err != nil {
		return res.Err
	}
	res.Warnings = parts.notes(res.Warnings)
	return f(res, q.Stats())
}

// lookback returns how old the latest sample of a series may be.
func (req *Request) lookback(l Limits) time.Duration {
	if req.Lookback > 0 {
		return req.Lookback
	}
	return l.Lookback
}

// hand hands a value out. It reports whether limit has cut it.
func (r *run) hand(v parser.Value, limit int, sink Sink) (cut bool, err error) {
	if r.failed = sink.Begin(v.Type()); r.failed != nil {
		return false, r.failed
	}
	switch v := v.(type) {
	case promql.Scalar:
		r.failed = sink.Scalar(v)
		return false, r.failed
	case promql.String:
		r.failed = sink.String(v)
		return false, r.failed
	case promql.Vector:
		if cut = limit > 0 && len(v) > limit; cut {
			v = v[:limit]
		}
		for i := range v {
			if i%contextRows == 0 {
				if err := r.pause(); err != nil {
					return false, err
				}
			}
			if r.failed = sink.Sample(&v[i]); r.failed != nil {
				return false, r.failed
			}
		}
	case promql.Matrix:
		if cut = limit > 0 && len(v) > limit; cut {
			v = v[:limit]
		}
		for i := range v {
			if err := r.pause(); err != nil {
				return false, err
			}
			if r.failed = sink.Series(&v[i]); r.failed != nil {
				return false, r.failed
			}
		}
	}
	return cut, nil
}

// outcome returns what follows a value. The statistics may be nil.
func (r *run) outcome(text string, notes annotations.Annotations, cut bool, s *stats.Statistics) *Outcome {
	const most = 10 // of each kind, as in Prometheus
	if r.stored != nil {
		notes.Merge(r.stored.Notes)
	}
	if cut {
		notes.Add(errTruncated)
	}
	out := new(Outcome)
	if s != nil {
		out.Stats = stats.NewQueryStats(s)
	}
	if len(notes) > 0 {
		out.Warnings, out.Infos = notes.AsStrings(text, most, most)
		slices.Sort(out.Warnings)
		slices.Sort(out.Infos)
	}
	return out
}

// watchInterval is how often a large query looks whether the server is short of memory.
const watchInterval = 50 * time.Millisecond

// keep charges for n more bytes until the query ends. A query that has become large is
// watched from then on.
func (r *run) keep(n int64) error {
	if err := r.claim.Keep(n); err != nil {
		return err
	}
	if !r.watched && r.opt.Memory.Large(r.claim.Held()) {
		r.watched = true
		go r.watch()
	}
	return nil
}

// watch ends the query when the server is short of memory, unless the query is small
// then.
func (r *run) watch() {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for !r.opt.Memory.Short(r.claim.Held()) {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
	}
	r.task.Cancel(fmt.Errorf("%w: the server is short of memory, try again", admission.ErrMemory))
}
