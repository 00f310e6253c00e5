package query

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
	"tsdbd/query/result"
)

// The errors of query execution that callers branch on, with InfluxDB's texts.
var (
	ErrDatabaseNameRequired = errors.New("database name required")
	ErrNotExecuted          = errors.New("not executed")
)

// ErrStopped is what emit returns when it stops in the middle of a Result
// because ExecuteOptions.Interrupt was called. The statement then fails with
// the reason why the query ended, and emit gets a Result that says so.
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

	// ShardDurations is the rule for policies made without SHARD DURATION.
	ShardDurations meta.ShardDurations
	// HashPassword and CheckPassword serve the statements about users; nil is
	// meta.HashPassword and meta.CheckPassword.
	HashPassword  func(password string) (hash string, err error)
	CheckPassword func(hash, password string) bool

	// Statistics and Diagnostics give what SHOW STATS and SHOW DIAGNOSTICS
	// show beside the executor's own; nil is nothing.
	Statistics  func() []Statistic
	Diagnostics func() []Diagnostic
}

// ExecuteOptions says for whom and how one request runs.
type ExecuteOptions struct {
	Database        string // for statements that name none
	RetentionPolicy string // for sources that name none; "" is the default policy
	ChunkSize       int    // rows per Result; 0 is all in one
	// ReadOnly is a GET request: changes are made all the same, with a warning.
	ReadOnly bool
	User     string // shown in SHOW QUERIES
	// Text writes the statements out for SHOW QUERIES and the log, if somebody
	// asks; it may be called by several goroutines at once. Nil writes them out
	// at the start, which takes time in the square of the length of a condition.
	Text func() string
	// MayRead and MaySee tell whether the user may read a database, and whether
	// it may be named to the user; nil is all. With MayRead the user sees no
	// running queries but its own.
	MayRead, MaySee func(database string) bool
	// Interrupt is called when the query is killed, times out, or its context
	// ends, so that an emit that is blocked returns. Nil is nothing.
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
	started time.Time
	queries *admission.Queries
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
	return &Executor{opt: opt, started: opt.Now(), queries: admission.NewQueries(opt.Limits, opt.Memory, opt.Logger)}
}

// SetLimits replaces the limits. Statements that start later use the new limits,
// but a query keeps the timeout that it started with.
func (e *Executor) SetLimits(l admission.Limits) { e.queries.SetLimits(l) }

// Execute runs the statements of q in order and hands the results to emit in
// that order, one or more for each statement. A statement's failure is a Result
// with Err, after which every other statement is "not executed". Execute returns
// an error only when emit does, which also stops the query; then nothing more
// is emitted. It rewrites the statements of q.
func (e *Executor) Execute(ctx context.Context, q *influxql.Query, opt ExecuteOptions, emit func(*result.Result) error) error {
	text := opt.Text
	if text == nil {
		written := q.String()
		text = func() string { return written }
	}
	ctx, task, err := e.queries.Start(ctx, admission.Request{
		Text: text, Database: opt.Database, User: opt.User, Account: opt.Account, Interrupt: opt.Interrupt,
	})
	if err != nil {
		return emit(&result.Result{Err: err})
	}
	defer task.End()
	opt.Account = task.Account
	failed := false
	for i, stmt := range q.Statements {
		if failed {
			if err := emit(&result.Result{StatementID: i, Err: ErrNotExecuted}); err != nil {
				return err
			}
			continue
		}
		out := &output{statement: i, chunk: opt.ChunkSize, emit: emit}
		err := e.queries.Guard(func() string { return admission.RedactURLs(stmt.String()) }, func() error {
			return e.statement(ctx, stmt, opt, out)
		})
		if out.err != nil && !errors.Is(out.err, ErrStopped) {
			return out.err
		}
		if err != nil {
			failed = true
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
	if err := refuseSystemSources(stmt); err != nil {
		return err
	}
	if err := Normalize(stmt, e.opt.Admin.Catalog(), database, opt.RetentionPolicy); err != nil {
		return err
	}
	s := &session{Executor: e, ctx: ctx, req: opt, database: opt.Database, out: out}
	defer s.release()
	if computes(stmt) {
		if s.req.Turn == nil {
			s.req.Turn = new(admission.Turn)
		}
		if s.workers, err = s.req.Turn.Begin(ctx, e.opt.Cores, runtime.GOMAXPROCS(0)); err != nil {
			return err
		}
		defer s.req.Turn.End()
	}
	if opt.ReadOnly && changesState(stmt) {
		out.messages = append(out.messages, result.Message{Level: "warning", Text: fmt.Sprintf(
			"deprecated use of '%s' in a read only context, please use a POST request instead", stmt)})
	}
	if err := s.run(stmt); err != nil {
		return err
	}
	return out.finish()
}

// computes reports whether a statement reads data or an index, and so waits for
// a turn. A statement that shows or ends the queries under way never waits.
func computes(stmt influxql.Statement) bool {
	switch stmt.(type) {
	case *influxql.SelectStatement, *influxql.ExplainStatement:
		return true
	case *influxql.KillQueryStatement, *influxql.ShowQueriesStatement:
		return false
	}
	return !changesState(stmt)
}

// session is one statement under way.
type session struct {
	*Executor
	ctx      context.Context
	req      ExecuteOptions
	database string // the request's
	out      *output
	workers  int          // goroutines that the statement may use; 0 is one per core
	held     atomic.Int64 // bytes, of statements other than SELECT
	charged  atomic.Int64 // of held: what the account knows of
}

// output hands the results of one statement to the consumer.
type output struct {
	statement int
	chunk     int
	emit      func(*result.Result) error
	messages  []result.Message // go with the first result
	sent      bool
	err       error // the consumer's
}

// send hands out one result.
func (o *output) send(r *result.Result) error {
	if o.err != nil {
		return o.err
	}
	r.StatementID = o.statement
	r.Messages = append(o.messages, r.Messages...)
	o.messages, o.sent = nil, true
	o.err = o.emit(r)
	return o.err
}

// finish sends an empty result if the statement had none.
func (o *output) finish() error {
	if o.sent {
		return nil
	}
	return o.send(&result.Result{})
}

// whole hands out complete tables in one result, as InfluxDB does for what it does
// not read with a SELECT.
func (o *output) whole(all []*result.Series) error {
	if len(all) == 0 {
		return nil
	}
	return o.send(&result.Result{Series: all})
}

// apart hands out complete tables, each in a result if there is a chunk size.
func (o *output) apart(all []*result.Series) error {
	if o.chunk <= 0 {
		return o.whole(all)
	}
	for _, s := range all {
		if err := o.whole([]*result.Series{s}); err != nil {
			return err
		}
	}
	return nil
}

// series hands out complete tables, cut to the chunk size if there is one.
func (o *output) series(all []*result.Series) error {
	if len(all) == 0 {
		return nil
	}
	if o.chunk <= 0 {
		return o.send(&result.Result{Series: all})
	}
	for i, s := range all {
		for lo := 0; lo < s.Rows || lo == 0; lo += o.chunk {
			hi := min(lo+o.chunk, s.Rows)
			part := *s
			part.Values = nil
			for c := range s.Values {
				part.Values = append(part.Values, s.Values[c].Slice(lo, hi))
			}
			part.Rows, part.Partial = hi-lo, hi < s.Rows
			last := i == len(all)-1 && !part.Partial
			if err := o.send(&result.Result{Series: []*result.Series{&part}, Partial: !last}); err != nil {
				return err
			}
		}
	}
	return nil
}
