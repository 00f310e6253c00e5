package opentsdb

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/internal/body"
	"tsdbd/services/input"
)

// Options configure a Service. Those of input.Options that it needs are
// required.
type Options struct {
	input.Options
	Address string // host:port
	// TLS encrypts the connections. nil: they are plain.
	TLS *tls.Config
	// BodyMemory bounds the bytes of all bodies at a time (W9). Requests that exceed
	// it are answered with 503. 0: DefaultBodyMemory.
	BodyMemory int64
	// LogPointErrors logs bad lines.
	LogPointErrors bool
}

// What a connection may hold or take.
const (
	requestTimeout  = time.Minute
	maxHeaderBytes  = 16 << 10
	telnetVersion   = "tsdbd OpenTSDB input\n"
	answerTimeout   = 10 * time.Second
	shutdownTimeout = 10 * time.Second
)

// Service is an open input. It is safe for concurrent use.
type Service struct {
	*input.Service
	batcher *input.Batcher
	http    *http.Server
	handoff *handoff
	bodies  body.Budget
	log     *slog.Logger // of bad lines, nil: none

	requests atomic.Int64
	telnet   atomic.Int64 // connections of lines, ever
	open     atomic.Int64 // connections of lines
	lines    atomic.Int64 // points of lines
	faults   [faults]atomic.Int64
}

// Listen opens the input. Close closes it.
func Listen(opt Options) (*Service, error) {
	if opt.BodyMemory <= 0 {
		opt.BodyMemory = DefaultBodyMemory
	}
	s := &Service{handoff: &handoff{conns: make(chan net.Conn), closed: make(chan struct{})}}
	s.bodies.SetLimit(opt.BodyMemory)
	if opt.LogPointErrors {
		s.log = opt.Logger
	}
	s.http = &http.Server{
		// No web page of another origin may write.
		Handler: new(http.CrossOriginProtection).Handler(s), ReadHeaderTimeout: input.LineTimeout, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout,
		IdleTimeout: input.IdleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
	if opt.Logger != nil {
		s.http.ErrorLog = slog.NewLogLogger(opt.Logger.Handler(), slog.LevelDebug)
	}
	opt.Figures = s.figures
	var err error
	s.Service, err = input.Open(opt.Options, func(b *input.Batcher) (input.Listener, error) {
		s.batcher = b
		c, err := input.ListenConnections(opt.Address, opt.TLS, b.Counts(), s.connection)
		if err != nil {
			return nil, err
		}
		s.handoff.address = c.Addr()
		go func() { _ = s.http.Serve(s.handoff) }() // ends with ErrServerClosed
		return listener{c, s.http}, nil
	})
	return s, err
}

// connection serves a connection by the protocol of its first byte.
func (s *Service) connection(conn net.Conn, lines *input.Lines) {
	if err := lines.Wait(); err != nil {
		return
	}
	first, err := lines.Reader.Peek(1)
	if err != nil {
		return
	}
	if first[0] < 'A' || first[0] > 'Z' {
		s.telnetLines(conn, lines)
		return
	}
	_ = conn.SetReadDeadline(time.Time{}) // the HTTP server sets its own
	served := &peeked{Conn: conn, reader: lines.Reader, closed: make(chan struct{})}
	if s.handoff.give(served) {
		<-served.closed
	}
}

// telnetLines reads lines until the client goes.
func (s *Service) telnetLines(conn net.Conn, lines *input.Lines) {
	s.telnet.Add(1)
	s.open.Add(1)
	defer s.open.Add(-1)
	lines.Serve(s.batcher, func(points []input.Point, line []byte) ([]input.Point, error) {
		switch string(line) {
		case "":
			return points, nil
		case "version":
			_ = conn.SetWriteDeadline(time.Now().Add(answerTimeout))
			_, err := io.WriteString(conn, telnetVersion)
			return points, err
		}
		p, f := parseLine(string(line))
		if f == noFault {
			s.lines.Add(1)
			return append(points, p), nil
		}
		s.faults[f].Add(1)
		s.batcher.Counts().BadPoints.Add(1)
		if s.log != nil {
			s.log.Info("bad line", "remote", conn.RemoteAddr().String(), "line", string(line[:min(len(line), 200)]))
		}
		return points, nil
	})
}

// figures is input.Options.Figures.
func (s *Service) figures(c *input.Counts, figures map[string]any) {
	maps.Copy(figures, map[string]any{
		"httpConnsHandled": s.requests.Load(),
		"tlConnsActive":    s.open.Load(), "tlConnsHandled": s.telnet.Load(), "tlPointsRx": s.lines.Load(),
		"tlBadLine": s.faults[badLine].Load(), "tlBadTime": s.faults[badTime].Load(),
		"tlBadTag": s.faults[badTag].Load(), "tlBadFloat": s.faults[badValue].Load(),
		"tlBytesRx": c.Bytes.Load(), "tlReadErr": c.ReadFailures.Load(),
		"connsActive": c.Connections.Load(), "connsHandled": c.Connected.Load(),
		"droppedPointsInvalid": c.BadPoints.Load() + c.Refused.Load(),
	})
}

// listener closes the HTTP server and then the connections.
type listener struct {
	*input.Connections
	http *http.Server
}

// Close implements input.Listener.
func (l listener) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	err := l.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, l.http.Close())
	}
	return errors.Join(err, l.Connections.Close(ctx))
}

// handoff is the listener of the HTTP server. It accepts connections that speak HTTP.
type handoff struct {
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
	address net.Addr
}

// give gives a connection to the HTTP server, or returns false if the server is
// closed.
func (h *handoff) give(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.closed:
		return false
	}
}

// Accept implements net.Listener.
func (h *handoff) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handoff) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (h *handoff) Addr() net.Addr { return h.address }

// peeked is a connection with a reader that has buffered its first bytes.
type peeked struct {
	net.Conn
	reader *bufio.Reader
	once   sync.Once
	closed chan struct{}
}

// Read implements net.Conn.
func (p *peeked) Read(b []byte) (int, error) { return p.reader.Read(b) }

// Close implements net.Conn.
func (p *peeked) Close() error {
	err := p.Conn.Close()
	p.once.Do(func() { close(p.closed) })
	return err
}
