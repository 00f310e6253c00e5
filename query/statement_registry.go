package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// registry knows the queries that run.
type registry struct {
	panics   atomic.Int64
	executed atomic.Int64
	finished atomic.Int64
	took     atomic.Int64 // ns, of finished queries

	mu struct {
		sync.Mutex
		lastID uint64
		tasks  map[uint64]*queryTask
	}
}

// queryTask is one query that runs.
type queryTask struct {
	id             uint64
	text           func() string
	database, user string
	started        time.Time
	cancel         context.CancelCauseFunc
	stopTimer      context.CancelFunc
	killed         bool // guarded by registry.mu
}

// start registers a query and returns the context that kill and timeout end.
func (r *registry) start(ctx context.Context, text func() string, opt ExecuteOptions, limits *Limits) (context.Context, *queryTask, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, limit := len(r.mu.tasks), limits.MaxConcurrentQueries; limit > 0 && n >= limit {
		return nil, nil, fmt.Errorf("max-concurrent-queries limit exceeded(%d, %d)", n, limit)
	}
	r.mu.lastID++
	t := &queryTask{id: r.mu.lastID, text: text, database: opt.Database, user: opt.User, started: time.Now(), stopTimer: func() {}}
	ctx, t.cancel = context.WithCancelCause(ctx)
	if limits.QueryTimeout > 0 {
		ctx, t.stopTimer = context.WithTimeoutCause(ctx, limits.QueryTimeout, ErrQueryTimeout)
	}
	r.mu.tasks[t.id] = t
	r.executed.Add(1)
	return ctx, t, nil
}

// finish forgets a query and returns how long it ran.
func (r *registry) finish(t *queryTask) time.Duration {
	took := time.Since(t.started)
	t.stopTimer()
	t.cancel(nil)
	r.mu.Lock()
	delete(r.mu.tasks, t.id)
	r.mu.Unlock()
	r.finished.Add(1)
	r.took.Add(int64(took))
	return took
}

// kill ends a query.
func (r *registry) kill(id uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.mu.tasks[id]
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

// runningQuery is what SHOW QUERIES tells of a query.
type runningQuery struct {
	id                   uint64
	text, database, user string
	took                 time.Duration
	killed               bool
}

// list returns the queries that run, in order of their start.
func (r *registry) list() []runningQuery {
	r.mu.Lock()
	list := make([]runningQuery, 0, len(r.mu.tasks))
	var texts []func() string
	for _, t := range r.mu.tasks {
		list = append(list, runningQuery{t.id, "", t.database, t.user, time.Since(t.started), t.killed})
		texts = append(texts, t.text)
	}
	r.mu.Unlock()
	for i, text := range texts {
		list[i].text = RedactURLs(text()) // may take a while
	}
	slices.SortFunc(list, func(a, b runningQuery) int { return cmp.Compare(a.id, b.id) })
	return list
}

func (r *registry) active() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.tasks)
}
