package server

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/store"
)

// maxOverdue bounds the writes that go on without a client.
const maxOverdue = 1000

// timely is the writer of HTTP requests. A write that has not ended within a limit goes on,
// and its client gets an *point.OverdueError: a disk may hang for ever.
type timely struct {
	guarded
	limit   time.Duration // 0: none
	overdue *atomic.Int64 // writes that go on
	logger  *slog.Logger
}

// stuckError refuses a write before it has begun.
type stuckError string

func (e stuckError) Error() string { return string(e) }

// Temporary reports that to try again may help.
func (stuckError) Temporary() bool { return true }

// Write implements httpapi.Writer.
func (w timely) Write(ctx context.Context, db, rp string, batch *point.Batch) error {
	return w.within(func() error { return w.guarded.Write(ctx, db, rp, batch) })
}

// WriteExemplars implements httpapi.Writer.
func (w timely) WriteExemplars(ctx context.Context, db string, list []model.Exemplar) (kept, older int, err error) {
	var k, o int
	err = w.within(func() (err error) {
		k, o, err = w.guarded.WriteExemplars(ctx, db, list)
		return err
	})
	if err != nil { // it may be under way
		return 0, 0, err
	}
	return k, o, nil
}

// timelySelf writes as timely, and makes databases that are not there.
type timelySelf struct {
	selfWriter
	timely timely
}

// Write implements input.Writer. It may return an *point.OverdueError.
func (w timelySelf) Write(ctx context.Context, db, rp string, batch *point.Batch) error {
	return w.timely.Write(ctx, db, rp, batch)
}

// within runs a write, for as long as the limit in the time of the caller.
func (w timely) within(write func() error) (err error) {
	if w.limit <= 0 {
		return write()
	}
	if n := w.overdue.Load(); n >= maxOverdue {
		return stuckError(fmt.Sprintf("%d writes have not ended within %s: the disk hangs, or the server is overloaded", n, w.limit))
	}
	var result error
	var panicked any
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if p := recover(); p != nil {
				panicked = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
		}()
		result = write()
	}()
	late := time.NewTimer(w.limit)
	defer late.Stop()
	select {
	case <-ended:
		if panicked != nil {
			panic(panicked)
		}
		return result
	case <-late.C:
	}
	err = &point.OverdueError{After: w.limit, Ended: ended}
	w.overdue.Add(1)
	point.WhenEnded(err, func() {
		w.overdue.Add(-1)
		if panicked != nil {
			w.logger.Error("panic in a write whose client has its answer", "err", panicked)
		}
	})
	return err
}

// storeHealth is the health of the store, and of the writes that wait for it.
type storeHealth struct {
	*store.Store
	limit   time.Duration
	overdue *atomic.Int64
}

// Health implements httpapi.Health.
func (h storeHealth) Health() (ok bool, message string) {
	ok, message = h.Store.Health()
	if n := h.overdue.Load(); ok && n > 0 {
		return false, fmt.Sprintf("%d writes have not ended within %s: the disk hangs, or the server is overloaded; queries are answered", n, h.limit)
	}
	return ok, message
}
