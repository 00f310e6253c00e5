package opentsdb

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
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
	// TLS makes connections encrypted. nil: they are plain.
	TLS *tls.Config
	// BodyMemory bounds the bodies of POSTs held at a time, in bytes (W9); those
	// beyond it are answered 503. 0: DefaultBodyMemory.
	BodyMemory int64
	// LogPointErrors logs lines that are no points.
	LogPointErrors bool
}

// What a connection may hold or take.
const (
	maxPoints       = 500 // before they are added
	requestTimeout  = time.Minute
	maxHeaderBytes  = 16 << 10
	telnetVersion   = "tsdbd OpenTSDB input\n"
	answerTimeout   = 10 * time.Second
	shutdownTimeout = 10 * time.Second
)

// Service is an open input. It is safe for concurrent use.
type Service struct {
	batcher     *input.Batcher
	connections *input.Connections
	http        *http.Server
	handoff     *handoff
	bodies      body.Budget
	log         *slog.Logger // of bad lines, nil: none

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
	s := &Service{batcher: input.NewBatcher(opt.Options)}
	s.bodies.SetLimit(opt.BodyMemory)
	if opt.LogPointErrors {
		s.log = opt.Logger
	}
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: input.LineTimeout, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout,
		IdleTimeout: input.IdleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
	if opt.Logger != nil {
		s.http.ErrorLog = slog.NewLogLogger(opt.Logger.Handler(), slog.LevelDebug)
	}
	s.handoff = &handoff{conns: make(chan net.Conn), closed: make(chan struct{})}
	var err error
	s.connections, err = input.ListenConnections(opt.Address, opt.TLS, s.Counts(), s.connection)
	if err != nil {
		s.batcher.Close(context.Background())
		return nil, err
	}
	s.handoff.address = s.connections.Addr()
	go func() { _ = s.http.Serve(s.handoff) }() // ends with ErrServerClosed
	return s, nil
}

// connection finds out which protocol a client speaks.
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
	var points []input.Point
	for {
		line, err := lines.Next()
		switch {
		case err != nil || len(line) == 0:
		case string(line) == "version":
			_ = conn.SetWriteDeadline(time.Now().Add(answerTimeout))
			if _, err := io.WriteString(conn, telnetVersion); err != nil {
				return
			}
		default:
			p, f := parseLine(string(line))
			if f == noFault {
				s.lines.Add(1)
				points = append(points, p)
				break
			}
			s.faults[f].Add(1)
			s.Counts().BadPoints.Add(1)
			if s.log != nil {
				s.log.Info("bad line", "remote", conn.RemoteAddr().String(), "line", string(line[:min(len(line), 200)]))
			}
		}
		if len(points) > 0 && (err != nil || len(points) >= maxPoints || !lines.More()) {
			if !s.batcher.Add(points) {
				return
			}
			points = points[:0]
		}
		if err != nil {
			var network net.Error
			if errors.As(err, &network) && !network.Timeout() {
				s.Counts().ReadFailures.Add(1)
			}
			return
		}
	}
}

// Addr returns the address that is listened on.
func (s *Service) Addr() net.Addr { return s.connections.Addr() }

// Counts returns what the input counts.
func (s *Service) Counts() *input.Counts { return s.batcher.Counts() }

// Figures are the input's own counts, by InfluxDB's names.
func (s *Service) Figures() map[string]int64 {
	return map[string]int64{
		"httpConnsHandled": s.requests.Load(),
		"tlConnsActive":    s.open.Load(), "tlConnsHandled": s.telnet.Load(), "tlPointsRx": s.lines.Load(),
		"tlBadLine": s.faults[badLine].Load(), "tlBadTime": s.faults[badTime].Load(),
		"tlBadTag": s.faults[badTag].Load(), "tlBadFloat": s.faults[badValue].Load(),
	}
}

// Close stops receiving and writes what was received, while ctx lasts.
func (s *Service) Close(ctx context.Context) error { return s.batcher.CloseAfter(ctx, closer{s, ctx}) }

// closer ends the requests under way and then the connections.
type closer struct {
	s   *Service
	ctx context.Context
}

func (c closer) Close() error {
	ctx, cancel := context.WithTimeout(c.ctx, shutdownTimeout)
	defer cancel()
	err := c.s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, c.s.http.Close())
	}
	return errors.Join(err, c.s.connections.Close())
}

// handoff is a listener of the connections that speak HTTP.
type handoff struct {
	conns   chan net.Conn
	closed  chan struct{}
	once    sync.Once
	address net.Addr
}

// give hands a connection over, or returns false when nobody takes it any more.
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

// peeked is a connection of which some was read to see what it is.
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
