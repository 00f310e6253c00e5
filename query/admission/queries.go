package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The reasons why a query ends early, with InfluxDB's texts.
var (
	ErrQueryInterrupted = errors.New("query interrupted")
	ErrQueryTimeout     = errors.New("query-timeout limit exceeded")
	ErrAlreadyKilled    = errors.New("already killed")
)

// Limits bounds queries. They may change while queries run. 0 is no limit, unless
// a field says otherwise.
type Limits struct {
	// MaxConcurrentQueries bounds the queries that run at once.
	MaxConcurrentQueries int
	// QueryTimeout ends queries that run longer.
	QueryTimeout time.Duration
	// LogQueriesAfter logs queries that took longer; 0 is never.
	LogQueriesAfter time.Duration

	// Of one SELECT, as in the options of SELECT.
	MaxSelectPoint, MaxSelectSeries, MaxSelectBuckets int
	MemoryBytes                                       int64
}

// Request is a query that asks to run.
type Request struct {
	// Text writes the query out for SHOW QUERIES and the log. Several goroutines
	// may call it at once.
	Text           func() string
	Database, User string
	// Raw is the query as the client sent it, for Queries.Ended. "": Text writes it.
	Raw      string
	Language string // InfluxQL or PromQL
	// Account is charged for what the query holds, and stays the caller's. With
	// nil the query has an account of its own.
	Account *Account
	// Interrupt is called when the query is killed, times out, or its context
	// ends. Nil is nothing.
	Interrupt func()
}

// The languages of queries.
const (
	InfluxQL = "influxql"
	PromQL   = "promql"
)

// Ended describes a query that has ended.
type Ended struct {
	Text, Language, Database, User string // Text may have passwords
	At                             time.Time
	Took                           time.Duration
	Rows                           int64 // of the answer
	Failed                         bool
}

// Queries admits queries in any language, lists those that run, and ends them. It
// is safe for concurrent use.
type Queries struct {
	// Ended gets each query at its end, in the goroutine of the query. It is set before the
	// first query starts; nil is nothing. The Ended is valid until the call returns.
	Ended func(*Ended)

	memory *Memory
	logger *slog.Logger
	limits atomic.Pointer[Limits]

	panics, executed, finished atomic.Int64
	took                       atomic.Int64 // ns, of finished queries

	mu struct {
		sync.Mutex
		lastID uint64
		tasks  map[uint64]*Task
	}
}

// NewQueries returns a Queries without a query. A nil memory is no limit.
func NewQueries(limits Limits, memory *Memory, logger *slog.Logger) *Queries {
	q := &Queries{memory: memory, logger: logger}
	q.mu.tasks = map[uint64]*Task{}
	q.SetLimits(limits)
	return q
}

// SetLimits replaces the limits. Queries that start later use the new limits, but
// a query keeps the timeout that it started with.
func (q *Queries) SetLimits(l Limits) { q.limits.Store(&l) }

// Limits returns the present limits.
func (q *Queries) Limits() *Limits { return q.limits.Load() }

// Task is a query that runs.
type Task struct {
	// Account is the one of the Request, or the query's own.
	Account *Account
	// Rows and Failed are what the query answered. They are set before End.
	Rows   int64
	Failed bool

	queries   *Queries
	id        uint64
	req       Request
	started   time.Time
	cancel    context.CancelCauseFunc
	stopTimer context.CancelFunc
	unwatch   func() bool
	own       bool // Account is the query's own
	killed    bool // guarded by Queries.mu
}

// Start registers a query and returns the context that Kill and the timeout end.
// The caller must call End. The error says that too many queries run.
func (q *Queries) Start(ctx context.Context, req Request) (context.Context, *Task, error) {
	limits := q.Limits()
	q.mu.Lock()
	defer q.mu.Unlock()
	if n, limit := len(q.mu.tasks), limits.MaxConcurrentQueries; limit > 0 && n >= limit {
		return nil, nil, fmt.Errorf("max-concurrent-queries limit exceeded(%d, %d)", n, limit)
	}
	q.mu.lastID++
	t := &Task{Account: req.Account, queries: q, id: q.mu.lastID, req: req, started: time.Now(), stopTimer: func() {}}
	if t.own = t.Account == nil; t.own {
		t.Account = q.memory.Open(nil, nil)
	}
	ctx, t.cancel = context.WithCancelCause(ctx)
	if limits.QueryTimeout > 0 {
		ctx, t.stopTimer = context.WithTimeoutCause(ctx, limits.QueryTimeout, ErrQueryTimeout)
	}
	t.unwatch = context.AfterFunc(ctx, func() {
		t.Account.ended.Store(true)
		if req.Interrupt != nil {
			req.Interrupt()
		}
	})
	q.mu.tasks[t.id] = t
	q.executed.Add(1)
	return ctx, t, nil
}

// End forgets the query, gives back the memory of its own account, and logs the
// query if it was slow.
func (t *Task) End() {
	q := t.queries
	t.unwatch()
	if t.own {
		t.Account.Close()
	}
	took := time.Since(t.started)
	t.stopTimer()
	t.cancel(nil)
	q.mu.Lock()
	delete(q.mu.tasks, t.id)
	q.mu.Unlock()
	q.finished.Add(1)
	q.took.Add(int64(took))
	if q.Ended != nil {
		text := t.req.Raw
		if text == "" {
			text = t.req.Text()
		}
		q.Ended(&Ended{text, t.req.Language, t.req.Database, t.req.User, t.started.Add(took), took, t.Rows, t.Failed})
	}
	if after := q.Limits().LogQueriesAfter; after > 0 && took > after {
		q.logger.Warn("slow query", "query", RedactURLs(t.req.Text()), "db", t.req.Database, "took", took)
	}
}

// Cancel ends the query with a cause.
func (t *Task) Cancel(cause error) { t.cancel(cause) }

// Guard runs f. A panic in f, also in one of its workers, becomes an error that
// begins with text. The panic is counted and logged.
func (q *Queries) Guard(text func() string, f func() error) error {
	err := Guard(f)
	var p *Panic
	if !errors.As(err, &p) {
		return err
	}
	q.panics.Add(1)
	q.logger.Error("panic in a statement", "query", text(), "err", p.Value, "stack", string(p.Stack))
	return fmt.Errorf("%s %w", text(), p)
}

// Kill ends a query.
func (q *Queries) Kill(id uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.mu.tasks[id]
	if t == nil {
		return fmt.Errorf("no such query id: %d", id)
	}
	if t.killed {
		return ErrAlreadyKilled
	}
	t.killed = true
	t.cancel(ErrQueryInterrupted)
	return nil
}

// Running describes a query that runs.
type Running struct {
	ID                   uint64
	Text, Database, User string
	Took                 time.Duration
	Killed               bool
}

// List returns the queries that run, in order of their start.
func (q *Queries) List() []Running {
	q.mu.Lock()
	list := make([]Running, 0, len(q.mu.tasks))
	var texts []func() string
	for _, t := range q.mu.tasks {
		list = append(list, Running{t.id, "", t.req.Database, t.req.User, time.Since(t.started), t.killed})
		texts = append(texts, t.req.Text)
	}
	q.mu.Unlock()
	for i, text := range texts {
		list[i].Text = RedactURLs(text()) // may take a while
	}
	slices.SortFunc(list, func(a, b Running) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Figures counts queries since the start.
type Figures struct {
	Active, Executed, Finished int64
	Took                       time.Duration // of finished queries
	Panics                     int64
}

// Figures returns the present counts.
func (q *Queries) Figures() Figures {
	q.mu.Lock()
	active := len(q.mu.tasks)
	q.mu.Unlock()
	return Figures{int64(active), q.executed.Load(), q.finished.Load(), time.Duration(q.took.Load()), q.panics.Load()}
}
