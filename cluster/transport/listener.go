package transport

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// maxWaiting bounds connections of one kind that wait for Accept.
const maxWaiting = 64

// listener gives the connections of one kind to their server.
type listener struct {
	address address
	waiting chan *Conn
	done    chan struct{}
	closing sync.Once
}

func newListener(a address) *listener {
	return &listener{address: a, waiting: make(chan *Conn, maxWaiting), done: make(chan struct{})}
}

// Accept waits for a connection whose handshake is done.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.waiting:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept. The Transport goes on without this kind.
func (l *listener) Close() error {
	l.closing.Do(func() { close(l.done) })
	for {
		select {
		case c := <-l.waiting:
			c.abort()
		default:
			return nil
		}
	}
}

// Addr returns the address where other nodes reach this one.
func (l *listener) Addr() net.Addr { return l.address }

// closed reports whether Close was called.
func (l *listener) closed() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// deliver gives a connection to Accept, or ends it if nobody serves its kind.
func (l *listener) deliver(c *Conn) {
	select {
	case <-l.done:
		c.abort()
		return
	default:
	}
	select {
	case l.waiting <- c:
		if l.closed() { // Close may have emptied the queue before
			_ = l.Close()
		}
	default:
		c.abort()
	}
}

// address is a net.Addr of the form host:port.
type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// streams is the raft.StreamLayer.
type streams struct {
	*listener
	t *Transport
}

// Close ends the connections of raft, too: raft leaves those that it has accepted to
// their peers.
func (s streams) Close() error {
	err := s.listener.Close()
	s.t.abortAll(func(c *Conn) bool { return c.kind == Raft })
	return err
}

// Dial connects to the raft of a node.
func (s streams) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if s.closed() {
		return nil, net.ErrClosed
	}
	ctx := context.Background()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return s.t.dial(ctx, string(to), Raft)
}

// Streams returns the connections of raft. From now on the node accepts them, until
// they are closed. A later call opens them again.
//
// Close them before raft is shut down: their end ends the calls that raft waits for.
// With a peer that hangs, raft would otherwise wait for its own timeout.
func (t *Transport) Streams() raft.StreamLayer { return streams{t.serving(Raft), t} }

// HTTP returns the connections of peers that speak HTTP, for an http.Server.
// From now on the node accepts them, until they are closed.
func (t *Transport) HTTP() net.Listener { return t.serving(HTTP) }

// serving returns the listener of a kind.
func (t *Transport) serving(k Kind) *listener {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.mu.listeners[k]; l != nil && !l.closed() {
		return l
	}
	l := newListener(t.advertise)
	if t.mu.closed {
		_ = l.Close()
	}
	t.mu.listeners[k] = l
	return l
}

// deliver gives an accepted connection to who serves its kind.
func (t *Transport) deliver(c *Conn) {
	t.mu.Lock()
	l := t.mu.listeners[c.kind]
	t.mu.Unlock()
	if l == nil {
		c.abort()
		return
	}
	l.deliver(c)
}
