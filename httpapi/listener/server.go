package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Handler answers the requests of a Server.
type Handler interface {
	http.Handler
	// Drain answers new requests with 503.
	Drain()
}

// Options configure a Server. The zero value serves on a free local port.
type Options struct {
	Address string // host:port; "": 127.0.0.1:0
	// Socket is the path of a unix socket with the permissions SocketMode. It
	// replaces Address. Listen replaces a socket on which no process listens.
	Socket     string
	SocketMode fs.FileMode
	// TLS encrypts the connections. nil: they are plain.
	TLS *tls.Config
	// MaxConnections bounds the open connections. Others wait in the kernel's
	// queue. 0: no bound.
	MaxConnections int
	Logger         *slog.Logger // nil: slog.Default()
}

// Limits of a connection. No normal client reaches them: the query of a dashboard
// in the URL, which is part of the header, may name thousands of hosts.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 120 * time.Second
	maxHeaderBytes    = 256 << 10
)

// Server is a listener and its connections.
type Server struct {
	handler  Handler
	http     *http.Server
	listener net.Listener
	done     chan struct{} // closed when Serve has returned
	err      error         // why, set before done is closed
}

// Listen binds the address and starts to answer with h. The caller must call Close.
func Listen(h Handler, opt Options) (*Server, error) {
	if opt.Address == "" {
		opt.Address = "127.0.0.1:0"
	}
	if opt.Logger == nil {
		opt.Logger = slog.Default()
	}
	l, err := opt.listen()
	if err != nil {
		return nil, err // names the operation and the address
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	s := &Server{
		handler: h,
		http: &http.Server{
			Handler:           h,
			ReadHeaderTimeout: readHeaderTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			// Only HTTP/1.1: MaxConnections would not bound the streams of HTTP/2, and
			// no client of the 1.x API uses it.
			Protocols: protocols,
			ErrorLog:  slog.NewLogLogger(opt.Logger.Handler(), slog.LevelWarn),
		},
		listener: l,
		done:     make(chan struct{}),
	}
	if opt.MaxConnections > 0 {
		limit := &limitListener{Listener: l, tokens: make(chan struct{}, opt.MaxConnections), closed: make(chan struct{})}
		l, s.http.ConnState = limit, limit.follow
	}
	if opt.TLS != nil {
		l = tls.NewListener(l, opt.TLS)
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
		}
	}()
	return s, nil
}

// listen opens the listener.
func (o *Options) listen() (net.Listener, error) {
	if o.Socket == "" {
		return net.Listen("tcp", o.Address)
	}
	if info, err := os.Lstat(o.Socket); err == nil && info.Mode().Type() == fs.ModeSocket {
		if c, err := net.DialTimeout("unix", o.Socket, time.Second); err == nil {
			_ = c.Close() // the connection was only a probe
			return nil, fmt.Errorf("listen unix %s: another process listens there", o.Socket)
		}
		if err := os.Remove(o.Socket); err != nil {
			return nil, fmt.Errorf("listen unix: %w", err)
		}
	}
	l, err := net.Listen("unix", o.Socket)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(o.Socket, o.SocketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("listen unix: %w", err), l.Close())
	}
	return l, nil
}

// Addr returns the address of the listener.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Done is closed when the server has stopped, by Close or by a failure that Close
// returns.
func (s *Server) Done() <-chan struct{} { return s.done }

// Close stops accepting and waits for the requests in flight. New requests on open
// connections get 503. When ctx ends, Close closes the remaining connections.
func (s *Server) Close(ctx context.Context) error {
	s.handler.Drain()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	<-s.done
	return errors.Join(err, s.err)
}

// limitListener bounds the open connections. It returns connections without a
// wrapper: net/http uses CloseWrite of a *net.TCPConn to let the client read the last
// answer. The limit listener of golang.org/x/net hides that method.
type limitListener struct {
	net.Listener
	tokens chan struct{} // one per open connection
	once   sync.Once
	closed chan struct{}
}

func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.tokens <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.tokens
		return nil, err
	}
	return c, nil
}

// follow is the ConnState hook of the server that accepts from l.
func (l *limitListener) follow(_ net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		<-l.tokens
	}
}

func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}
