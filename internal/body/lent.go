package body

import (
	"io"
	"net/http"
	"sync"
)

// Lent is the bytes of a body on their way to another server. What sends them may read on
// after the answer, while another request has the memory.
type Lent struct {
	mu    sync.Mutex
	rest  []byte
	ended bool
}

// Lend returns a reader of b, until TakeBack.
func Lend(b []byte) *Lent { return &Lent{rest: b} }

// Read implements io.Reader.
func (l *Lent) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return 0, http.ErrBodyReadAfterClose
	case len(l.rest) == 0:
		return 0, io.EOF
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Close implements io.Closer. The request may be sent again.
func (l *Lent) Close() error { return nil }

// TakeBack ends all reading.
func (l *Lent) TakeBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest, l.ended = nil, true
}
