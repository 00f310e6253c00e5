package stall

import (
	"net/http"
	"sync"
	"time"
)

// A client must read its answer, because the query holds memory and files until
// then.
const (
	// Time is the longest time that a client may read nothing, and the longest
	// delay behind ReadRate.
	Time = time.Minute
	// ReadRate is the lowest rate of a client in bytes per second. Only the time
	// that the server waits for the client counts.
	ReadRate = 32 << 10
	// WriteBytes is the largest single write. A client at ReadRate reads it well
	// within Time.
	WriteBytes = 256 << 10
	// interruptTime is the time for a write after the query has ended, so that a
	// client that reads sees the error.
	interruptTime = 200 * time.Millisecond
)

// Client bounds the time that the server waits for the client of one request.
// The zero value has not waited.
type Client struct {
	mu struct {
		sync.Mutex
		behind      time.Duration // delay behind ReadRate
		since       time.Time     // begin of the write in progress; zero: there is none
		connection  *http.ResponseController
		interrupted bool
	}
}

// Begin starts a write and returns the time. The write fails if the client does not
// read it in time.
func (p *Client) Begin(c *http.ResponseController) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.mu.since, p.mu.connection = now, c
	left := Time - p.mu.behind
	if p.mu.interrupted {
		left = min(left, interruptTime)
	}
	_ = c.SetWriteDeadline(now.Add(left)) // not every writer has one
	return now
}

// End ends the write that started at Begin and wrote n bytes.
func (p *Client) End(begin time.Time, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.since, p.mu.connection = time.Time{}, nil
	p.mu.behind = max(0, p.mu.behind+time.Since(begin)-time.Duration(n)*(time.Second/ReadRate))
}

// Last gives the client time to read what net/http writes after the handler. That is
// the whole answer if it has no body.
func (p *Client) Last(c *http.ResponseController) { p.End(p.Begin(c), 0) }

// Interrupt ends the write in progress within interruptTime, and each later write of
// the request. Any goroutine may call it at any time.
func (p *Client) Interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.interrupted = true
	if c := p.mu.connection; c != nil {
		_ = c.SetWriteDeadline(time.Now().Add(interruptTime))
	}
}

// Ended reports whether Interrupt was called.
func (p *Client) Ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.interrupted
}

// Waiting returns how long the write in progress has been waiting for the client.
func (p *Client) Waiting() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.since.IsZero() {
		return 0
	}
	return time.Since(p.mu.since)
}
