package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Transport is the port of a node and its connections to other nodes.
type Transport struct {
	opt       Options
	security  security
	advertise address
	socket    net.Listener
	client    *http.Client
	memory    *memory
	halfOpen  *halfOpen
	failures  failures
	cancel    context.CancelFunc // of everything under way
	ctx       context.Context
	running   sync.WaitGroup // the accept loop, and handshakes

	mu struct {
		sync.Mutex
		closed    bool
		conns     map[*Conn]struct{}
		listeners [HTTP + 1]*listener
	}
}

// failures count handshakes and connections that came to nothing.
type failures struct {
	failed  atomic.Int64 // handshakes, by strangers and errors of the network
	refused atomic.Int64 // handshakes, by this node or the peer
	evicted atomic.Int64 // handshakes, because there were too many
	stuck   atomic.Int64 // connections in which a write made no progress
}

// Listen opens the port of a node.
func Listen(o Options) (*Transport, error) {
	if err := Check(o, nil); err != nil {
		return nil, err
	}
	if host, _, _ := net.SplitHostPort(o.Bind); o.Advertise == "" && everywhere(host) {
		return nil, fmt.Errorf("a node that listens on %s needs an address to advertise, where other nodes reach it", o.Bind)
	}
	o = o.withDefaults()
	s, err := newSecurity(o)
	if err != nil {
		return nil, fmt.Errorf("prepare encryption between nodes: %w", err)
	}
	socket, err := o.Listen(o.Bind)
	if err != nil {
		return nil, fmt.Errorf("listen for nodes: %w", err)
	}
	t := &Transport{opt: o, security: s, socket: socket, advertise: address(o.Advertise), memory: newMemory(o.Logger, o.Now), halfOpen: newHalfOpen()}
	if t.advertise == "" {
		t.advertise = address(socket.Addr().String())
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.client = newClient(t)
	t.mu.conns = map[*Conn]struct{}{}
	t.running.Go(t.acceptLoop)
	return t, nil
}

// Address returns where other nodes reach this one.
func (t *Transport) Address() string { return string(t.advertise) }

// Close ends all connections, and waits until the transport runs nothing more. Servers
// of Streams and HTTP get net.ErrClosed.
func (t *Transport) Close() error {
	t.mu.Lock()
	if t.mu.closed {
		t.mu.Unlock()
		return nil
	}
	t.mu.closed = true
	listeners := t.mu.listeners
	t.mu.Unlock()

	t.cancel()
	err := t.socket.Close()
	for _, l := range listeners {
		if l != nil {
			err = errors.Join(err, l.Close())
		}
	}
	t.abortAll(func(*Conn) bool { return true })
	t.client.CloseIdleConnections()
	t.running.Wait()
	return err
}

// acceptLoop starts a handshake with each peer that dials.
func (t *Transport) acceptLoop() {
	pause := time.Duration(0)
	for {
		raw, err := t.socket.Accept()
		if t.ctx.Err() != nil {
			if err == nil {
				raw.Close()
			}
			return
		}
		if err != nil { // no file descriptors left, for example
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			t.memory.failure("", fmt.Errorf("accept: %w", err))
			select {
			case <-time.After(pause):
			case <-t.ctx.Done():
				return
			}
			continue
		}
		pause = 0
		if !t.halfOpen.enter(t.ctx, raw, &t.failures.evicted) {
			raw.Close()
			return
		}
		t.running.Go(func() {
			defer t.halfOpen.leave(raw)
			t.welcome(raw)
		})
	}
}

const (
	maxHalfOpen = 128             // handshakes at a time
	minHalfOpen = 2 * time.Second // that a handshake has, even if others wait
)

// halfOpen bounds the handshakes of peers that dialed. When there are too many, the
// oldest is ended once it has had minHalfOpen: those of nodes take milliseconds.
type halfOpen struct {
	changed chan struct{} // has an element after one has left
	mu      struct {
		sync.Mutex
		conns []halfOpenConn // the oldest first
	}
}

type halfOpenConn struct {
	net.Conn
	since time.Time
}

func newHalfOpen() *halfOpen { return &halfOpen{changed: make(chan struct{}, 1)} }

// enter waits for room. It returns false if ctx ends first.
func (h *halfOpen) enter(ctx context.Context, c net.Conn, evicted *atomic.Int64) bool {
	for {
		h.mu.Lock()
		if len(h.mu.conns) < maxHalfOpen {
			h.mu.conns = append(h.mu.conns, halfOpenConn{c, time.Now()})
			h.mu.Unlock()
			return true
		}
		oldest := h.mu.conns[0]
		h.mu.Unlock()
		wait := time.NewTimer(minHalfOpen - time.Since(oldest.since))
		select {
		case <-ctx.Done():
			wait.Stop()
			return false
		case <-h.changed:
			wait.Stop()
		case <-wait.C:
			if h.leave(oldest.Conn) {
				oldest.Close() // its handshake fails
				evicted.Add(1)
			}
		}
	}
}

// leave ends the part of a connection in the bound. It returns false if that has
// happened before.
func (h *halfOpen) leave(c net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.mu.conns, func(o halfOpenConn) bool { return o.Conn == c })
	if i < 0 {
		return false
	}
	h.mu.conns = slices.Delete(h.mu.conns, i, i+1)
	select {
	case h.changed <- struct{}{}:
	default:
	}
	return true
}
