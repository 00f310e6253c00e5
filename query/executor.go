package query

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/internal/aside"
	"tsdbd/meta"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
	"tsdbd/query/downsample"
	"tsdbd/query/result"
	"tsdbd/query/show"
	"tsdbd/query/syntax"
)

// ErrNotExecuted is the error of statements after one that failed, with InfluxDB's
// text.
var ErrNotExecuted = errors.New("not executed")

// ErrStopped is the error of an emit that stops in the middle of a Result because
// ExecuteOptions.Interrupt was called. The statement then fails with the reason why
// the query ended, and emit gets a Result with that error.
var ErrStopped = errors.New("query stopped")

// Options adjusts an Executor. Storage and Admin are required.
type Options struct {
	Storage scan.Storage
	Admin   Admin
	Logger  *slog.Logger // nil discards
	// Now is the clock for now() and durations; nil is time.Now.
	Now func() time.Time

	admission.Limits
	// Memory bounds the data that all queries hold at once; nil is no limit.
	Memory *admission.Memory
	// Cores shares the processor among queries and with writes; nil lets every
	// query work at once.
	Cores *admission.Cores
	// Into receives the rows of SELECT ... INTO. Without it such a statement fails.
	Into func(ctx context.Context, b *result.IntoBatch) error

	// WithoutPolicy has CREATE DATABASE make no policy unless it describes one.
	WithoutPolicy bool
	// HashPassword and CheckPassword serve the statements about users; nil is
	// meta.HashPassword and meta.CheckPassword.
	HashPassword  func(password string) (hash string, err error)
	CheckPassword func(hash, password string) bool

	// Statistics and Diagnostics return what SHOW STATS and SHOW DIAGNOSTICS
	// show in addition to the executor's own figures; nil is nothing.
	Statistics  func() []show.Statistic
	Diagnostics func() []show.Diagnostic
	// Servers returns the tables of SHOW SERVERS; nil is a node that is in no cluster.
	Servers func() []*result.Series
	// UseDownsamples says when SELECTs take downsamples; "" is never. CompleteUntil is
	// Until of downsample.Chooser, and required with downsample.Complete.
	UseDownsamples downsample.Use
	CompleteUntil  func(id uint64, measurement string, end int64) int64
	// Unused counts ranges of SELECTs whose rows are lost although a downsample has them; may
	// be nil.
	Unused func()
	// Downsamples returns how far the downsamples are, by their ids; nil is nothing.
	Downsamples func() map[uint64]show.Progress
	// Ended gets each query that has ended, as in admission.Queries; nil is nothing.
	Ended func(*admission.Ended)
}

// ExecuteOptions says for whom and how one request runs.
type ExecuteOptions struct {
	Database        string // for statements that name none
	RetentionPolicy string // for sources that name none; "" is the default policy
	ChunkSize       int    // rows per Result; 0 is all in one
	// Unused takes the reason why rows are missing although a downsample has them, before the
	// first Result, if there are no Hints; nil drops it.
	Unused func(text string)
	// WarnOfChanges adds InfluxDB's warning to the results of statements that a GET
	// request should not carry. They run all the same.
	WarnOfChanges bool
	User          string // shown in SHOW QUERIES
	// Text returns the statements as text for SHOW QUERIES and the log. Several
	// goroutines may call it at once. With nil, Execute writes the statements out at
	// the start, which takes time in the square of the length of a condition.
	Text func() string
	// Raw is the text of the statements as the client sent it; "" is that of Text.
	Raw string
	// MayRead and MaySee tell whether the user may read a database, and whether
	// it may be named to the user; nil is all. With MayRead the user sees no
	// running queries but its own.
	MayRead, MaySee func(database string) bool
	// Hints adds messages of result.LevelInfo to the results of SELECTs.
	Hints bool
	// Partial lets statements answer where damage has taken points; the results say
	// so. Without it they fail.
	Partial bool
	// SourceOnly makes SELECTs take no downsample.
	SourceOnly bool
	// Unlimited is for a caller that bounds by itself what a SELECT reads: the limits
	// on its points, series and windows do not apply.
	Unlimited bool
	// Interrupt is called when the query is killed, times out, or its context
	// ends. A blocked emit must then return. Nil is nothing.
	Interrupt func()
	// Account is charged for what the query holds, and stays the caller's. With
	// nil the query has an account of its own.
	Account *admission.Account
	// Turn lets the consumer of the results wait for a client outside the
	// query's share of the cores, see Turn.Outside; nil is a Turn of its own.
	Turn *admission.Turn
}

// Executor runs InfluxQL statements. It is safe for concurrent use.
type Executor struct {
	opt     Options
	queries *admission.Queries
	show    show.Options
}

// New returns an executor.
func New(opt Options) *Executor {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.HashPassword == nil {
		opt.HashPassword = meta.HashPassword
	}
	if opt.CheckPassword == nil {
		opt.CheckPassword = meta.CheckPassword
	}
	e := &Executor{opt: opt, queries: admission.NewQueries(opt.Limits, opt.Memory, opt.Logger)}
	e.queries.Ended = opt.Ended
	e.show = show.Options{
		Storage: opt.Storage, Catalog: opt.Admin.Catalog, Running: e.queries, Now: opt.Now, Started: opt.Now(),
		Statistics: opt.Statistics, Diagnostics: opt.Diagnostics, Servers: opt.Servers, Downsamples: opt.Downsamples,
	}
	return e
}

// SetLimits replaces the limits. Statements that start later use the new limits,
// but a query keeps the timeout that it started with.
func (e *Executor) SetLimits(l admission.Limits) { e.queries.SetLimits(l) }

// Queries returns what admits the statements, for queries in other languages.
func (e *Executor) Queries() *admission.Queries { return e.queries }

// Execute runs the statements of q in order and passes the results to emit in
// that order, one or more for each statement. If a statement fails, emit gets a
// Result with Err, and the statements after it are not executed. Execute returns
// an error only if emit returns one. Then it stops the query and emits nothing
// more. It rewrites the statements of q.
func (e *Executor) Execute(ctx context.Context, q *influxql.Query, opt ExecuteOptions, emit func(*result.Result) error) error {
	text := opt.Text
	if text == nil {
		written := q.String()
		text = func() string { return written }
	}
	ctx, task, err := e.queries.Start(ctx, admission.Request{
		Text: text, Raw: opt.Raw, Language: admission.InfluxQL, Database: opt.Database, User: opt.User, Account: opt.Account, Interrupt: opt.Interrupt,
	})
	if err != nil {
		return emit(&result.Result{Err: err})
	}
	defer task.End()
	opt.Account = task.Account
	for i, stmt := range q.Statements {
		if task.Failed {
			if err := emit(&result.Result{StatementID: i, Err: ErrNotExecuted}); err != nil {
				return err
			}
			continue
		}
		out := &output{statement: i, chunk: opt.ChunkSize, emit: emit}
		err := e.queries.Guard(func() string { return admission.RedactURLs(stmt.String()) }, func() error {
			return e.statement(ctx, stmt, opt, out)
		})
		task.Rows += out.rows
		task.Failed = err != nil
		if out.err != nil && !errors.Is(out.err, ErrStopped) {
			return out.err
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && (out.err != nil || errors.Is(err, ctx.Err())) {
				err = cause
			}
			if err := emit(&result.Result{StatementID: i, Err: err}); err != nil {
				return err
			}
		}
	}
	return nil
}

// statement runs one statement.
func (e *Executor) statement(ctx context.Context, stmt influxql.Statement, opt ExecuteOptions, out *output) (err error) {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	database := opt.Database
	if database == "" {
		if s, ok := stmt.(influxql.HasDefaultDatabase); ok {
			database = s.DefaultDatabase()
		}
	}
	switch stmt.(type) {
	case *influxql.SelectStatement, *influxql.ExplainStatement:
		if err := syntax.RefuseSystemSources(stmt); err != nil {
			return err
		}
	}
	if err := Normalize(stmt, e.opt.Admin.Catalog(), database, opt.RetentionPolicy); err != nil {
		return err
	}
	s := &session{Executor: e, ctx: ctx, req: opt, out: out}
	r := ruleOf(stmt)
	if !r.noTurn {
		if s.req.Turn == nil {
			s.req.Turn = new(admission.Turn)
		}
		if s.workers, err = s.req.Turn.Begin(ctx, e.opt.Cores, runtime.GOMAXPROCS(0)); err != nil {
			return err
		}
		defer s.req.Turn.End()
		ctx = aside.With(ctx, s.req.Turn.Outside)
		s.ctx = ctx
	}
	s.claim = s.req.Account.Claim(ctx, s.req.Turn, e.queries.Limits().MemoryBytes)
	defer s.claim.Release()
	if opt.WarnOfChanges && changesState(stmt) {
		out.messages = append(out.messages, result.Message{Level: "warning", Text: fmt.Sprintf(
			"deprecated use of '%s' in a read only context, please use a POST request instead", stmt)})
	}
	if err := r.run(s, stmt); err != nil {
		return err
	}
	return out.finish()
}

// Statistics returns what SHOW STATS shows to an administrator.
func (e *Executor) Statistics(ctx context.Context) (all []show.Statistic, err error) {
	err = e.index(ctx, "statistics", func(s *show.Statement) (err error) {
		all, err = s.AllStatistics()
		return err
	})
	return all, err
}

// Explore counts the series of a database by measurement, tag key and value,
// from the index alone.
func (e *Executor) Explore(ctx context.Context, x show.Exploration) (found *show.Explored, err error) {
	err = e.index(ctx, "exploration of "+x.Database, func(s *show.Statement) (err error) {
		found, err = s.Explore(x)
		return err
	})
	return found, err
}

// index runs f, which looks at indexes for no statement. what names it in the log.
func (e *Executor) index(ctx context.Context, what string, f func(*show.Statement) error) error {
	account := e.opt.Memory.Open(nil, nil)
	defer account.Close()
	claim := account.Claim(ctx, nil, e.queries.Limits().MemoryBytes)
	return e.queries.Guard(func() string { return what }, func() error {
		return f(&show.Statement{Options: &e.show, Ctx: ctx, Keep: claim.Keep})
	})
}
