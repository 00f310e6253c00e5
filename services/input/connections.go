package input

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// Limits of connections.
const (
	// MaxConnections bounds the open connections. Others wait in the kernel's queue.
	MaxConnections = 1000
	// MaxLineBytes bounds a line. Longer lines are skipped and counted.
	MaxLineBytes = 16 << 10
	// IdleTimeout is the longest time without a byte.
	IdleTimeout = 10 * time.Minute
	// LineTimeout is the longest time from the begin to the end of a line.
	LineTimeout = 30 * time.Second
)

// Connections is a Listener of connections.
type Connections struct {
	listener net.Listener
	serve    func(net.Conn, *Lines)
	counts   *Counts
	tokens   chan struct{}
	closing  chan struct{}
	done     sync.WaitGroup
	once     sync.Once
	mu       struct {
		sync.Mutex
		open map[net.Conn]struct{}
	}
}

// ListenConnections accepts connections on a TCP address, with TLS if encrypted is not
// nil. It calls serve for every connection, with a reader of its lines, in a new
// goroutine, and closes the connection when serve returns.
func ListenConnections(address string, encrypted *tls.Config, counts *Counts, serve func(net.Conn, *Lines)) (*Connections, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err // names the operation and the address
	}
	if encrypted != nil {
		l = tls.NewListener(l, encrypted)
	}
	return newConnections(l, counts, serve), nil
}

func newConnections(l net.Listener, counts *Counts, serve func(net.Conn, *Lines)) *Connections {
	c := &Connections{listener: l, serve: serve, counts: counts, tokens: make(chan struct{}, MaxConnections), closing: make(chan struct{})}
	c.mu.open = map[net.Conn]struct{}{}
	c.done.Go(c.accept)
	return c
}

func (c *Connections) accept() {
	for {
		select {
		case c.tokens <- struct{}{}:
		case <-c.closing:
			return
		}
		conn, err := c.listener.Accept()
		if err != nil {
			<-c.tokens
			if errors.Is(err, net.ErrClosed) {
				return
			}
			c.counts.ReadFailures.Add(1)
			time.Sleep(10 * time.Millisecond) // out of files, perhaps
			continue
		}
		if !c.add(conn) {
			_ = conn.Close() // nothing was read from it
			return
		}
		c.done.Go(func() {
			defer func() {
				c.mu.Lock()
				delete(c.mu.open, conn)
				c.mu.Unlock()
				_ = conn.Close() // there is no answer to its client
				c.counts.Connections.Add(-1)
				<-c.tokens
			}()
			c.serve(conn, &Lines{
				Reader: bufio.NewReaderSize(conn, MaxLineBytes), conn: conn, closing: c.closing, counts: c.counts,
			})
		})
	}
}

func (c *Connections) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closing:
		return false
	default:
	}
	c.mu.open[conn] = struct{}{}
	c.counts.Connections.Add(1)
	c.counts.Connected.Add(1)
	return true
}

// Addr returns the address of the listener.
func (c *Connections) Addr() net.Addr { return c.listener.Addr() }

// Close stops accepting, ends the reads of all connections, and waits until serve has
// returned for all of them.
func (c *Connections) Close(context.Context) error {
	var err error
	c.once.Do(func() {
		c.mu.Lock()
		close(c.closing)
		for conn := range c.mu.open {
			_ = conn.SetReadDeadline(time.Unix(1, 0)) // a closed one is as good
		}
		c.mu.Unlock()
		err = c.listener.Close()
		c.done.Wait()
	})
	return err
}

// Lines reads lines from a connection. It bounds how long a client may send nothing
// (IdleTimeout) and how long it may take for a line (LineTimeout).
type Lines struct {
	Reader  *bufio.Reader // of the connection, MaxLineBytes large
	conn    net.Conn
	closing <-chan struct{}
	counts  *Counts
}

// Wait waits for the first byte of the next line.
func (l *Lines) Wait() error {
	if l.Reader.Buffered() > 0 {
		return nil
	}
	l.deadline(IdleTimeout)
	_, err := l.Reader.Peek(1)
	return err
}

// deadline bounds the reads from now on, unless the input is closing.
func (l *Lines) deadline(d time.Duration) {
	_ = l.conn.SetReadDeadline(time.Now().Add(d)) // a broken connection fails at the read
	select {
	case <-l.closing:
		_ = l.conn.SetReadDeadline(time.Unix(1, 0))
	default:
	}
}

// More reports whether a whole line can be read without waiting.
func (l *Lines) More() bool {
	b, _ := l.Reader.Peek(l.Reader.Buffered()) // no more than there is
	return bytes.IndexByte(b, '\n') >= 0
}

// Next returns the next line without its end. The line is valid until the next call.
// The last line may lack its end. Next skips lines that are too long.
func (l *Lines) Next() ([]byte, error) {
	for {
		if err := l.Wait(); err != nil {
			return nil, err
		}
		if !l.More() {
			l.deadline(LineTimeout)
		}
		line, err := l.Reader.ReadSlice('\n')
		l.counts.Bytes.Add(int64(len(line)))
		if err == nil || errors.Is(err, io.EOF) && len(line) > 0 {
			return bytes.TrimRight(line, "\r\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		l.counts.BadPoints.Add(1)
		for errors.Is(err, bufio.ErrBufferFull) {
			line, err = l.Reader.ReadSlice('\n')
			l.counts.Bytes.Add(int64(len(line)))
		}
		if err != nil {
			return nil, err
		}
	}
}

// maxPoints bounds the points that a connection holds before it adds them.
const maxPoints = 500

// Serve reads lines until the client goes, and adds the points that add appends
// for each. What has come together is added at once; what a client sends while all
// batches wait is not read. An error of add ends the connection.
func (l *Lines) Serve(b *Batcher, add func(points []Point, line []byte) ([]Point, error)) {
	var points []Point
	for {
		line, err := l.Next()
		var network net.Error
		if errors.As(err, &network) && !network.Timeout() {
			l.counts.ReadFailures.Add(1)
		}
		if err == nil {
			points, err = add(points, line)
		}
		if len(points) > 0 && (err != nil || len(points) >= maxPoints || !l.More()) {
			if !b.Add(points) {
				return
			}
			points = points[:0]
		}
		if err != nil {
			return
		}
	}
}
