package httpapi

import (
	"context"
	"net/http"
	"time"
)

// DefaultWriteWait is the longest time that a write waits for its turn.
const DefaultWriteWait = 30 * time.Second

var (
	errQueueFull = &apiError{http.StatusServiceUnavailable, "request throttled, queue full"}
	errQueueWait = &apiError{http.StatusServiceUnavailable, "request throttled, exceeds timeout"}
)

// throttle bounds the writes in flight and the writes that wait for their turn. The
// zero value bounds nothing.
type throttle struct {
	running chan struct{} // a token per write in flight; nil: no bound
	known   chan struct{} // a token per write in flight or waiting
	wait    time.Duration
}

func newThrottle(running, waiting int, wait time.Duration) *throttle {
	if running <= 0 {
		return &throttle{}
	}
	return &throttle{running: make(chan struct{}, running), known: make(chan struct{}, running+max(0, waiting)), wait: wait}
}

// enter waits for a turn. The caller must call release when the write ends.
func (t *throttle) enter(ctx context.Context) (release func(), err error) {
	if t.running == nil {
		return func() {}, nil
	}
	select {
	case t.known <- struct{}{}:
	default:
		return nil, errQueueFull
	}
	release = func() { <-t.running; <-t.known }
	select {
	case t.running <- struct{}{}:
		return release, nil
	default:
	}
	timer := time.NewTimer(t.wait)
	defer timer.Stop()
	select {
	case t.running <- struct{}{}:
		return release, nil
	case <-timer.C:
		err = errQueueWait
	case <-ctx.Done():
		err = ctx.Err()
	}
	<-t.known
	return nil, err
}
