package httpapi

import (
	"net/http"
	"sync"
	"time"
)

// A client must read its answer: a query whose answer is not read holds memory
// and files.
const (
	// stallTime is how long a client may read nothing, and how far it may fall
	// behind readRate.
	stallTime = time.Minute
	// readRate is the slowest a client may read, in bytes per second. Only the
	// time that the server waits for the client counts.
	readRate = 32 << 10
	// writeBytes is how much is written between two looks at the clock. The
	// client takes it well within stallTime.
	writeBytes = 256 << 10
	// interruptTime is how long a client may take for a piece of an answer
	// whose query has ended, so that one that reads gets to know the error.
	interruptTime = 200 * time.Millisecond
)

// clientPace bounds how long the client of one request keeps the server
// waiting. The zero value is a client that has not been waited for.
type clientPace struct {
	mu struct {
		sync.Mutex
		behind      time.Duration // of what readRate gives for the bytes that were read
		since       time.Time     // of the write under way; zero: there is none
		connection  *http.ResponseController
		interrupted bool
	}
}

// begin notes that a write begins and returns when. The write fails if the
// client does not take it in time.
func (p *clientPace) begin(c *http.ResponseController) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.mu.since, p.mu.connection = now, c
	left := stallTime - p.mu.behind
	if p.mu.interrupted {
		left = min(left, interruptTime)
	}
	_ = c.SetWriteDeadline(now.Add(left)) // not every writer has one
	return now
}

// end notes that the write that began at begin is over, and wrote n bytes.
func (p *clientPace) end(begin time.Time, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.since, p.mu.connection = time.Time{}, nil
	p.mu.behind = max(0, p.mu.behind+time.Since(begin)-time.Duration(n)*(time.Second/readRate))
}

// last gives the client time for what the server writes after the handler: all of
// an answer without a body, however long the request took.
func (p *clientPace) last(c *http.ResponseController) { p.end(p.begin(c), 0) }

// interrupt ends the write under way, and lets the later ones of the request
// take little time. It may be called at any time by any goroutine.
func (p *clientPace) interrupt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.interrupted = true
	if c := p.mu.connection; c != nil {
		_ = c.SetWriteDeadline(time.Now().Add(interruptTime))
	}
}

// ended reports whether interrupt was called.
func (p *clientPace) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.interrupted
}

// waiting returns how long the write under way has been waiting for the client.
func (p *clientPace) waiting() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.since.IsZero() {
		return 0
	}
	return time.Since(p.mu.since)
}
