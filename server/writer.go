package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/server/memory"
)

// writer is the engine behind the guard: where clients, inputs and the monitor write.
type writer struct {
	engine
	guard *memory.Guard
	log   *slog.Logger
	// A write that takes longer than limit continues, but its caller gets an
	// *point.OverdueError: a disk may hang for ever. 0: no limit.
	limit   time.Duration
	overdue *atomic.Int64 // writes that go on
}

// Table returns a database's table of series, or an error that clients survive
// while memory is full. It is what a write asks for first.
func (w writer) Table(db string) (*point.Table, error) {
	if err := w.guard.Admit(); err != nil {
		return nil, fmt.Errorf("write to %s: %w", db, err)
	}
	return w.engine.Table(db)
}

// Write implements httpapi.Writer.
func (w writer) Write(ctx context.Context, db, rp string, batch *point.Batch) error {
	return w.within(func() error { return w.engine.Write(ctx, db, rp, batch) })
}

// WriteExemplars implements httpapi.Writer.
func (w writer) WriteExemplars(ctx context.Context, db string, list []model.Exemplar) (kept, older int, err error) {
	var k, o int
	err = w.within(func() (err error) {
		k, o, err = w.engine.WriteExemplars(ctx, db, list)
		return err
	})
	if err != nil { // it may be under way
		return 0, 0, err
	}
	return k, o, nil
}

// Ensure implements input.Writer.
func (w writer) Ensure(ctx context.Context, db, rp string) error {
	if rp == "" {
		return w.ensure(ctx, db, nil)
	}
	return w.ensure(ctx, db, &meta.RetentionPolicySpec{Name: rp})
}

// EnsurePolicy implements monitor.Writer.
func (w writer) EnsurePolicy(ctx context.Context, db, rp string, Duration time.Duration) error {
	return w.ensure(ctx, db, &meta.RetentionPolicySpec{Name: rp, Duration: &Duration})
}

// ensure makes a database, with a policy of its own if one is given, or the
// policy of a database that is there. What is there already stays as it is.
func (w writer) ensure(ctx context.Context, db string, policy *meta.RetentionPolicySpec) error {
	if err := meta.CheckName(db); err != nil {
		return err
	}
	d := w.Catalog().Database(db)
	switch {
	case d == nil:
		return w.Apply(ctx, meta.CreateDatabase{Name: db, Policy: policy})
	case policy != nil && d.RetentionPolicy(policy.Name) == nil:
		return w.Apply(ctx, meta.CreateRetentionPolicy{Database: db, Policy: *policy})
	}
	return nil
}
