//go:build linux

package clustertest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"tsdbd/internal/testkit/faulty"
)

// network is between the nodes. All nodes reach a node by one address, its front. The
// front finds out which process has connected and sends the connection through the
// proxy of this pair of nodes.
type network struct {
	*faulty.Network
	t       testing.TB
	pid     func(name string) int
	running sync.WaitGroup
	mu      struct {
		sync.Mutex
		names  []string
		conns  map[net.Conn]bool
		closed bool
	}
}

func newNetwork(t testing.TB, seed uint64, pid func(string) int) *network {
	n := &network{Network: faulty.New(seed), t: t, pid: pid}
	n.mu.conns = map[net.Conn]bool{}
	t.Cleanup(n.running.Wait)
	t.Cleanup(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.mu.closed = true
		for c := range n.mu.conns {
			c.Close()
		}
	})
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// front returns the address at which other nodes reach the node that listens on an
// address.
func (n *network) front(name, address string) string {
	n.t.Helper()
	n.Add(name, address)
	n.mu.Lock()
	n.mu.names = append(n.mu.names, name)
	n.mu.Unlock()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { l.Close() })
	n.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.running.Go(func() { n.relay(c.(*net.TCPConn), name) })
		}
	})
	return l.Addr().String()
}

// relay carries a connection to a node.
func (n *network) relay(from *net.TCPConn, name string) {
	defer n.forget(from)
	if !n.keep(from) {
		return
	}
	sender := n.sender(from)
	if sender == "" {
		return // its process has ended
	}
	address, err := n.AddressFor(sender, name)
	if err != nil {
		return
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		_ = from.SetLinger(0)
		return
	}
	to := c.(*net.TCPConn)
	defer n.forget(to)
	if !n.keep(to) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pump(to, from) })
	both.Go(func() { pump(from, to) })
	both.Wait()
}

func pump(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil { // a reset goes on as a reset
		_ = to.SetLinger(0)
		_ = from.SetLinger(0)
		to.Close()
		from.Close()
		return
	}
	_ = to.CloseWrite()
}

func (n *network) keep(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.closed {
		return false
	}
	n.mu.conns[c] = true
	return true
}

func (n *network) forget(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.mu.conns, c)
	c.Close()
}

// sender returns the node whose process has made a connection, "" if none has.
func (n *network) sender(c *net.TCPConn) string {
	inode := inodeOf(c.RemoteAddr().(*net.TCPAddr).Port, c.LocalAddr().(*net.TCPAddr).Port)
	if inode == "" {
		return ""
	}
	n.mu.Lock()
	names := n.mu.names
	n.mu.Unlock()
	for _, name := range names {
		dir := fmt.Sprintf("/proc/%d/fd", n.pid(name))
		files, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, f := range files {
			if to, err := os.Readlink(dir + "/" + f.Name()); err == nil && to == "socket:["+inode+"]" {
				return name
			}
		}
	}
	return ""
}

// inodeOf returns the inode of a socket of 127.0.0.1 with two ports.
func inodeOf(local, remote int) string {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		defer f.Close()
		rows := bufio.NewScanner(f)
		for rows.Scan() {
			fields := strings.Fields(rows.Text())
			if len(fields) > 9 && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", local)) && strings.HasSuffix(fields[2], fmt.Sprintf(":%04X", remote)) && fields[9] != "0" {
				return fields[9]
			}
		}
	}
	return ""
}
