package transport

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// writeChunk is how much a write must get rid of within Options.WriteTimeout.
const writeChunk = 256 << 10

// Kind is what a connection carries.
type Kind byte

// The kinds of connections. The values are those of the byte that the dialer sends.
const (
	Raft Kind = 1
	HTTP Kind = 2
)

// Conn is a connection to a peer after its handshake.
type Conn struct {
	net.Conn          // encrypted, if it is
	raw      net.Conn // below the encryption
	t        *Transport
	kind     Kind
	peer     Hello

	closing sync.Once
	writing sync.Mutex // a write may be several chunks
	mu      struct {
		sync.Mutex
		deadline bool // the owner has set a deadline for writes
	}
}

// Peer returns what the peer said about itself.
func (c *Conn) Peer() Hello { return c.peer }

// Write fails if it makes no progress for Options.WriteTimeout, unless the owner of
// the connection has set a deadline.
func (c *Conn) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	written := 0
	for {
		chunk := b[written:min(len(b), written+writeChunk)]
		if err := c.extend(); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(chunk)
		written += n
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				c.timedOut()
			}
			return written, err
		}
		if written == len(b) {
			return written, nil
		}
	}
}

// extend sets the deadline of the next chunk.
func (c *Conn) extend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.deadline {
		return nil
	}
	return c.Conn.SetWriteDeadline(time.Now().Add(c.t.opt.WriteTimeout))
}

// timedOut ends a connection whose peer reads nothing, so that readers learn it too.
func (c *Conn) timedOut() {
	c.mu.Lock()
	owners := c.mu.deadline
	c.mu.Unlock()
	if !owners {
		c.t.failures.stuck.Add(1)
		c.abort()
	}
}

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(at time.Time) error {
	return errors.Join(c.SetReadDeadline(at), c.SetWriteDeadline(at))
}

// SetWriteDeadline sets a deadline in place of Options.WriteTimeout; the zero time
// returns to it.
func (c *Conn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.deadline = !at.IsZero()
	return c.Conn.SetWriteDeadline(at)
}

// Close ends the connection.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.forget()
	return err
}

// abort ends the connection without waiting for anything.
func (c *Conn) abort() {
	c.raw.Close()
	c.forget()
}

func (c *Conn) forget() { c.closing.Do(func() { c.t.forget(c) }) }

// started notes a connection before its owner gets it.
func (t *Transport) started(c *Conn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return net.ErrClosed
	}
	t.mu.conns[c] = struct{}{}
	return nil
}

func (t *Transport) forget(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.conns, c)
}

// abortAll ends the connections that which selects.
func (t *Transport) abortAll(which func(*Conn) bool) {
	t.mu.Lock()
	var conns []*Conn
	for c := range t.mu.conns {
		if which(c) {
			conns = append(conns, c)
		}
	}
	t.mu.Unlock()
	for _, c := range conns {
		c.abort()
	}
}

// firstByte is a connection whose first byte was looked at.
type firstByte struct {
	net.Conn
	b      byte
	peeked bool // b is to be read again
}

// peek reads the first byte.
func (c *firstByte) peek() error {
	var b [1]byte
	_, err := io.ReadFull(c.Conn, b[:])
	c.b, c.peeked = b[0], err == nil
	return err
}

func (c *firstByte) Read(b []byte) (int, error) {
	if !c.peeked || len(b) == 0 {
		return c.Conn.Read(b)
	}
	c.peeked = false
	b[0] = c.b
	return 1, nil
}
