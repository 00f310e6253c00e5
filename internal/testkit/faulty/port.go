package faulty

import (
	"errors"
	"net"
	"sync"
)

// port is the port of a node in this process. It outlives the listeners of the node,
// so that nobody else gets the port while the node is stopped.
type port struct {
	net.Listener
	running sync.WaitGroup
	mu      struct {
		sync.Mutex
		current *portListener // nil while the node is stopped
	}
}

func newPort() (*port, error) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &port{Listener: socket}
	p.running.Go(p.acceptLoop)
	return p, nil
}

func (p *port) acceptLoop() {
	for {
		c, err := p.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		l := p.mu.current
		p.mu.Unlock()
		if l != nil {
			select {
			case l.conns <- c:
				continue
			case <-l.done:
			}
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

// listen starts the node.
func (p *port) listen() (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.current != nil {
		return nil, errors.New("the node listens already")
	}
	p.mu.current = &portListener{port: p, conns: make(chan net.Conn), done: make(chan struct{})}
	return p.mu.current, nil
}

func (p *port) close() error {
	p.mu.Lock()
	l := p.mu.current
	p.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	err := p.Close()
	p.running.Wait()
	return err
}

// portListener is the listener of a node from start to stop.
type portListener struct {
	port    *port
	conns   chan net.Conn
	closing sync.Once
	done    chan struct{}
}

func (l *portListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *portListener) Close() error {
	l.closing.Do(func() {
		close(l.done)
		l.port.mu.Lock()
		l.port.mu.current = nil
		l.port.mu.Unlock()
	})
	return nil
}

func (l *portListener) Addr() net.Addr { return l.port.Addr() }
