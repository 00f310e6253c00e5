// Package throttle bounds the writes that are in flight and that wait for their turn.
//
// A Throttle is safe for concurrent use.
package throttle

import (
	"context"
	"time"
)

// Error refuses a write that should be sent again.
type Error string

// The errors of Enter, in InfluxDB's words.
const (
	ErrFull = Error("request throttled, queue full")
	ErrWait = Error("request throttled, exceeds timeout")
)

func (e Error) Error() string { return string(e) }

// Temporary says that the error goes away by itself.
func (Error) Temporary() bool { return true }

// Throttle bounds the writes in flight and the writes that wait for their turn. The
// zero value bounds nothing.
type Throttle struct {
	running chan struct{} // a token per write in flight; nil: no bound
	known   chan struct{} // a token per write in flight or waiting
	wait    time.Duration
}

// New returns a Throttle of running writes in flight, 0 for any number, and of waiting
// writes that wait at most that long.
func New(running, waiting int, wait time.Duration) *Throttle {
	if running <= 0 {
		return &Throttle{}
	}
	return &Throttle{running: make(chan struct{}, running), known: make(chan struct{}, running+max(0, waiting)), wait: wait}
}

// Enter waits for a turn. The caller must call release when the write ends.
func (t *Throttle) Enter(ctx context.Context) (release func(), err error) {
	if t.running == nil {
		return func() {}, nil
	}
	select {
	case t.known <- struct{}{}:
	default:
		return nil, ErrFull
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
		err = ErrWait
	case <-ctx.Done():
		err = ctx.Err()
	}
	<-t.known
	return nil, err
}
