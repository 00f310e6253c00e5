package faulty

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	pieceSize  = 16 << 10
	flightSize = 64 // pieces of a connection that are delayed at a time
)

// Proxy relays the connections of one port to a target.
type Proxy struct {
	// Forward carries what the dialers send, Backward what the target sends.
	Forward, Backward *Link

	target  string
	socket  net.Listener
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	mu      struct {
		sync.Mutex
		relays map[*relay]struct{}
	}
}

// NewProxy listens on a free port of 127.0.0.1. A link that is nil has no faults yet.
func NewProxy(target string, forward, backward *Link) (*Proxy, error) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if forward == nil {
		forward = NewLink(1)
	}
	if backward == nil {
		backward = NewLink(2)
	}
	p := &Proxy{Forward: forward, Backward: backward, target: target, socket: socket}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.mu.relays = map[*relay]struct{}{}
	p.running.Go(p.acceptLoop)
	return p, nil
}

// Address returns where the proxy listens.
func (p *Proxy) Address() string { return p.socket.Addr().String() }

// Open returns how many connections there are.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.relays)
}

// Reset breaks all connections: both ends get a reset.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.mu.relays {
		r.reset()
	}
}

// Close breaks all connections and listens no more.
func (p *Proxy) Close() error {
	p.cancel()
	err := p.socket.Close()
	p.running.Wait()
	return err
}

func (p *Proxy) acceptLoop() {
	for {
		c, err := p.socket.Accept()
		if err != nil {
			return // closed: a socket of 127.0.0.1 has no other end
		}
		p.running.Go(func() { p.relay(c.(*net.TCPConn)) })
	}
}

// relay carries one connection until it has ended in both directions.
func (p *Proxy) relay(from *net.TCPConn) {
	r := &relay{from: from}
	r.ctx, r.cancel = context.WithCancel(p.ctx)
	defer r.close()
	p.mu.Lock()
	p.mu.relays[r] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.mu.relays, r)
		p.mu.Unlock()
	}()
	stop := context.AfterFunc(p.ctx, r.reset)
	defer stop()

	if err := errors.Join(p.Forward.open(r.ctx), p.Backward.open(r.ctx)); err != nil {
		return
	}
	// Not r.ctx: a dial that is canceled late ends the connection without a reset.
	to, err := (&net.Dialer{}).DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		r.reset()
		return
	}
	if !r.connected(to.(*net.TCPConn)) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { r.pump(r.to, r.from, p.Forward) })
	both.Go(func() { r.pump(r.from, r.to, p.Backward) })
	both.Wait()
}

// relay is one connection through a proxy.
type relay struct {
	ctx    context.Context
	cancel context.CancelFunc
	from   *net.TCPConn

	mu    sync.Mutex
	to    *net.TCPConn // nil before the target is reached
	ended bool
}

// connected keeps the connection to the target. It returns false if the relay was
// reset before.
func (r *relay) connected(to *net.TCPConn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		_ = to.SetLinger(0)
		to.Close()
		return false
	}
	r.to = to
	return true
}

// reset breaks both connections.
func (r *relay) reset() { r.end(true) }

// close ends both connections after what was written has been delivered.
func (r *relay) close() { r.end(false) }

func (r *relay) end(broken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.cancel()
	for _, c := range []*net.TCPConn{r.from, r.to} {
		if c == nil {
			continue
		}
		if broken {
			_ = c.SetLinger(0)
		}
		c.Close()
	}
}

// piece is what was read at once.
type piece struct {
	b       []byte
	end     error // io.EOF or a reset, in place of bytes
	arrives time.Time
}

// pump carries the bytes of one direction, then its end.
func (r *relay) pump(to, from *net.TCPConn, l *Link) {
	flight := make(chan piece, flightSize)
	left := l.budget()
	go func() {
		defer close(flight)
		for {
			// While the link is cut nothing is read, so the sender's buffers fill up.
			if l.open(r.ctx) != nil {
				return
			}
			b := make([]byte, pieceSize)
			n, err := from.Read(b)
			if n > 0 {
				flight <- piece{b: b[:n], arrives: l.arrival()}
			}
			if err != nil {
				flight <- piece{end: err, arrives: l.arrival()}
				return
			}
		}
	}()
	// The reader ends by itself: the connection ends, or the relay is reset. Until then
	// what it reads is taken.
	defer func() {
		for range flight {
		}
	}()
	for p := range flight {
		if l.pass(r.ctx, p.arrives, len(p.b)) != nil {
			return
		}
		switch {
		case p.end == nil:
			if _, err := to.Write(p.b); err != nil {
				return // the other direction learns why
			}
			if left > 0 {
				if left -= int64(len(p.b)); left <= 0 {
					r.reset()
					return
				}
			}
		case errors.Is(p.end, io.EOF):
			_ = to.CloseWrite()
			return
		default:
			r.reset()
			return
		}
	}
}
