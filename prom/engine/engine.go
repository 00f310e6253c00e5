package engine

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/stats"

	"tsdbd/model/scan"
	"tsdbd/prom/stored"
	"tsdbd/query/admission"
	"tsdbd/query/downsample"
	"tsdbd/query/syntax"
)

// DefaultLookback is how old the latest sample of a series may be, as in Prometheus.
const DefaultLookback = 5 * time.Minute

// subqueryStep is the step of a subquery that names none: the default interval at
// which Prometheus evaluates rules.
const subqueryStep = time.Minute

// Options adjust an Engine. Storage and Queries are required.
type Options struct {
	Storage scan.Storage
	// Downsamples returns what may stand for samples, by a use of downsamples; "" is the one
	// that is configured. nil, or nil of it: nothing does.
	Downsamples func(use downsample.Use) stored.Downsamples
	// Unused counts ranges of lost samples for which a downsample does not answer. Downsamples
	// needs it.
	Unused func()
	// Exemplars has the exemplars; nil: there are none.
	Exemplars Exemplars
	// Queries admits the queries, together with those of other languages.
	Queries *admission.Queries
	// Memory is asked whether the server is short of memory; nil: it never is.
	Memory *admission.Memory
	// Cores shares the processor among queries and with writes; nil lets every
	// query work at once.
	Cores  *admission.Cores
	Logger *slog.Logger // nil discards
	Limits
}

// Limits may change while queries run.
type Limits struct {
	// Lookback is how old the latest sample of a series may be. 0: DefaultLookback.
	Lookback time.Duration
	// Experimental allows the functions and modifiers that Prometheus has only with
	// a feature flag.
	Experimental bool
}

// Engine runs PromQL over one storage.
type Engine struct {
	opt      Options
	limits   atomic.Pointer[Limits]
	machines sync.Pool // of *machine
}

// New returns an engine.
func New(opt Options) *Engine {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	disableTracing()
	e := &Engine{opt: opt}
	e.SetLimits(opt.Limits)
	return e
}

// SetLimits replaces the limits for queries that start later.
func (e *Engine) SetLimits(l Limits) {
	l.Lookback = cmp.Or(max(0, l.Lookback), DefaultLookback)
	e.limits.Store(&l)
}

// What is in the language: without flags of Prometheus, and with all of them.
var (
	standard     = parser.NewParser(parser.Options{ExperimentalDurationExpr: true})
	experimental = parser.NewParser(parser.Options{
		ExperimentalDurationExpr: true, EnableExperimentalFunctions: true,
		EnableExtendedRangeSelectors: true, EnableBinopFillModifiers: true,
	})
)

// syntax returns the parser of queries that start now.
func (e *Engine) syntax() parser.Parser {
	if e.Limits().Experimental {
		return experimental
	}
	return standard
}

// Limits returns the present limits.
func (e *Engine) Limits() Limits { return *e.limits.Load() }

// Access says over which policy and for whom a request runs.
type Access struct {
	DB, RP string // RP "": the default policy
	// MayLack says that a database that does not exist is an empty one.
	MayLack bool
	User    string // shown in SHOW QUERIES
	// Partial lets the request answer where damage has taken samples; the outcome warns
	// of it. Without it the request fails.
	Partial bool
	// Downsamples says when downsamples stand for samples; "": as is configured.
	Downsamples downsample.Use
	// Account is charged for what the request holds, and stays the caller's. With
	// nil the request has an account of its own.
	Account *admission.Account
	// Turn lets the sink wait for a client outside the share of the query in the
	// cores, see Turn.Outside; nil is a Turn of its own.
	Turn *admission.Turn
	// Interrupt is called when the query is killed, times out, or its context ends.
	// A blocked sink must then return. Nil is nothing.
	Interrupt func()
}

// Request is a query in PromQL.
type Request struct {
	Access
	Expr       string
	Start, End time.Time     // of an instant query: equal
	Step       time.Duration // 0: an instant query
	// Lookback replaces Limits.Lookback. 0 and less do not.
	Lookback time.Duration
	// Limit bounds the series of the result; 0 is no limit.
	Limit int
	// Stats asks for statistics.
	Stats bool
	// StepStats asks for statistics of each step.
	StepStats bool
}

// Sink receives the value of a query. An error of a method ends the query and is
// returned by Run.
type Sink interface {
	// Begin is called first, with the type of the value.
	Begin(t parser.ValueType) error
	// Sample gets an element of a vector. The order is part of the value. The sample
	// belongs to the engine again when Sample returns.
	Sample(s *promql.Sample) error
	// Series gets a series of a matrix, in the order of their labels. It and its points
	// belong to the engine again when Series returns.
	Series(s *promql.Series) error
	// Scalar gets a scalar.
	Scalar(v promql.Scalar) error
	// String gets a string.
	String(v promql.String) error
}

// Outcome is what a query has in addition to its value.
type Outcome struct {
	Warnings, Infos []string
	Stats           stats.QueryStats // nil: none were asked for
}

// Run runs a query and passes its value to sink. The error is an *Error, or that of
// sink.
func (e *Engine) Run(ctx context.Context, req *Request, sink Sink) (out *Outcome, err error) {
	err = e.admit(ctx, &req.Access, func() string { return req.Expr }, func(r *run) error {
		expr, err := r.parse(req.Expr)
		if err != nil {
			return err
		}
		if expr, err = resolve(expr, req); err != nil {
			return err
		}
		out, err = r.evaluate(req, expr, &counting{Sink: sink, rows: &r.task.Rows})
		return err
	})
	return out, err
}

// Parse parses a query without running it. The error is an *Error.
func (e *Engine) Parse(ctx context.Context, access *Access, text string) (expr parser.Expr, err error) {
	err = e.admit(ctx, access, func() string { return text }, func(r *run) error {
		expr, err = r.parse(text)
		return err
	})
	return expr, err
}

// Selectors parses selectors such as up{job="a"}. The error is an *Error.
func (e *Engine) Selectors(texts []string) (sets [][]*labels.Matcher, err error) {
	var budget syntax.RegexBudget // of all of them
	for _, text := range texts {
		if err := check(text, &budget); err != nil {
			return nil, err
		}
	}
	if sets, err = e.syntax().ParseMetricSelectors(texts); err != nil {
		return nil, &Error{BadData, err}
	}
	return sets, nil
}

// QueryLimits returns the limits of queries in any language.
func (e *Engine) QueryLimits() admission.Limits { return *e.opt.Queries.Limits() }

// counting counts the samples that a sink gets as rows.
type counting struct {
	Sink
	rows *int64
}

// Sample implements Sink.
func (c *counting) Sample(s *promql.Sample) error {
	*c.rows++
	return c.Sink.Sample(s)
}

// Series implements Sink.
func (c *counting) Series(s *promql.Series) error {
	*c.rows += int64(len(s.Floats) + len(s.Histograms))
	return c.Sink.Series(s)
}

// Scalar implements Sink.
func (c *counting) Scalar(v promql.Scalar) error {
	*c.rows++
	return c.Sink.Scalar(v)
}

// String implements Sink.
func (c *counting) String(v promql.String) error {
	*c.rows++
	return c.Sink.String(v)
}
