package server

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"tsdbd/meta"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/store"
)

// maxOverdue bounds the writes that go on without a client.
const maxOverdue = 1000

// stuckError refuses a write before it has begun.
type stuckError string

func (e stuckError) Error() string { return string(e) }

// Temporary reports that to try again may help.
func (stuckError) Temporary() bool { return true }

// clientAdmin changes the catalog and deletes rows within the limit of a writer. A move takes
// as long as it has rows.
type clientAdmin struct{ writer }

// admin returns the clientAdmin with w's limit. It counts its statements by themselves: where
// one takes long the server may be healthy, for a DELETE waits for some backups.
func (w writer) admin() clientAdmin {
	w.overdue = new(atomic.Int64)
	return clientAdmin{w}
}

// Apply implements query.Admin.
func (a clientAdmin) Apply(ctx context.Context, cmd meta.Command) error {
	return a.within(func() error { return a.engine.Apply(ctx, cmd) })
}

// Delete implements query.Admin.
func (a clientAdmin) Delete(ctx context.Context, req scan.DeleteRequest) error {
	return a.within(func() error { return a.engine.Delete(ctx, req) })
}

// within runs a write, for as long as the limit in the time of the caller.
func (w writer) within(write func() error) (err error) {
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
			w.log.Error("panic in a write whose client has its answer", "err", panicked)
		}
	})
	return err
}

// storeHealth is the health of the store, and of the writes that wait for it.
type storeHealth struct {
	*store.Store
	limit   time.Duration
	overdue *atomic.Int64
	held    func() string // what has expired and is kept, if not nil
}

// Health implements httpapi.Health.
func (h storeHealth) Health() (ok bool, message string) {
	ok, message = h.Store.Health()
	if n := h.overdue.Load(); ok && n > 0 {
		return false, fmt.Sprintf("%d writes have not ended within %s: the disk hangs, or the server is overloaded; queries are answered", n, h.limit)
	}
	if ok && h.held != nil {
		if text := h.held(); text != "" {
			message += "; " + text
		}
	}
	return ok, message
}
