package faulty

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// leakCheck fails the test if it leaves goroutines behind.
func leakCheck(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		until := time.Now().Add(20 * time.Second)
		for runtime.NumGoroutine() > before {
			if time.Now().After(until) {
				buf := make([]byte, 1<<20)
				t.Fatalf("%d goroutines left, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// pair is a connection between two nodes of a network.
type pair struct {
	*Network
	listener net.Listener
	address  string
	a, b     net.Conn
}

func newPair(t *testing.T) *pair {
	t.Helper()
	leakCheck(t)
	p := &pair{Network: New(1)}
	t.Cleanup(func() {
		if err := p.Network.Close(); err != nil {
			t.Error(err)
		}
	})
	var err error
	if p.address, err = p.Address("b"); err != nil {
		t.Fatal(err)
	}
	if p.listener, err = p.Listen("b")(p.address); err != nil {
		t.Fatal(err)
	}
	p.connect(t)
	return p
}

func (p *pair) connect(t *testing.T) {
	t.Helper()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := p.listener.Accept()
		accepted <- c
	}()
	var err error
	if p.a, err = p.Dial("a")(t.Context(), p.address); err != nil {
		t.Fatal(err)
	}
	p.b = <-accepted
	t.Cleanup(func() { p.a.Close(); p.b.Close() })
}

func send(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := c.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("%q, %v; want %q", b, err, want)
	}
}

// silent checks that nothing arrives for a moment.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes, %v", n, err)
	}
}

func TestCutKeepsBytesBack(t *testing.T) {
	p := newPair(t)
	send(t, p.a, "1")
	receive(t, p.b, "1")
	p.Cut("a", "b")
	send(t, p.a, "2")
	silent(t, p.b)
	send(t, p.b, "back") // the other direction is open
	receive(t, p.a, "back")
	p.a.Close() // the end of the connection waits too
	silent(t, p.b)
	p.Heal("a", "b")
	receive(t, p.b, "2")
	if n, err := p.b.Read(make([]byte, 1)); err != io.EOF {
		t.Fatal(n, err)
	}
}

func TestNoConnectionAcrossACut(t *testing.T) {
	for _, cut := range [][2]string{{"a", "b"}, {"b", "a"}} {
		t.Run(cut[0], func(t *testing.T) {
			p := newPair(t)
			p.Cut(cut[0], cut[1])
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := p.Dial("a")(ctx, p.address); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			dialed := make(chan error, 1)
			go func() {
				c, err := p.Dial("a")(t.Context(), p.address)
				if err == nil {
					c.Close()
				}
				dialed <- err
			}()
			p.HealAll()
			if err := <-dialed; err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestPartition(t *testing.T) {
	p := newPair(t)
	p.Partition("a")
	send(t, p.a, "1")
	send(t, p.b, "2")
	silent(t, p.b)
	silent(t, p.a)
	p.HealAll()
	receive(t, p.b, "1")
	receive(t, p.a, "2")
}

func TestReset(t *testing.T) {
	p := newPair(t)
	for range 20 { // also connections that are as new as can be
		p.Reset("b", "a")
		for _, c := range []net.Conn{p.a, p.b} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Fatal(err)
			}
		}
		p.connect(t)
	}
	send(t, p.a, "again")
	receive(t, p.b, "again")
}

// TestFaultsKeepBytes sends a random stream through all faults that lose nothing.
func TestFaultsKeepBytes(t *testing.T) {
	p := newPair(t)
	p.Link("a", "b").Set(Faults{Delay: time.Millisecond, Jitter: 5 * time.Millisecond, BytesPerSecond: 8 << 20})
	random := rand.NewChaCha8([32]byte{1})
	sent := make([]byte, 1<<20)
	_, _ = random.Read(sent)
	began := time.Now()
	go func() {
		_, _ = p.a.Write(sent)
		p.a.Close()
	}()
	got, err := io.ReadAll(p.b)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d of %d bytes, %v", len(got), len(sent), err)
	}
	if took := time.Since(began); took < 100*time.Millisecond { // 1 MiB at 8 MiB/s takes 125 ms
		t.Errorf("took %s", took)
	}
	if n := p.Link("a", "b").Bytes(); n != int64(len(sent)) {
		t.Errorf("%d bytes", n)
	}
}

func TestResetAfter(t *testing.T) {
	p := newPair(t)
	p.Link("a", "b").Set(Faults{ResetAfter: 100 << 10})
	p.connect(t)
	go func() { _, _ = io.Copy(p.a, zeros{}) }()
	n, err := io.Copy(io.Discard, p.b)
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(n, err)
	}
	draws := func() (out []int64) {
		for l := range 3 {
			link := NewLink(uint64(l))
			link.Set(Faults{ResetAfter: 1000})
			out = append(out, link.budget(), link.budget())
		}
		return out
	}
	first := draws()
	for i, n := range draws() {
		if n != first[i] {
			t.Fatalf("one seed, two draws: %v", first)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// TestCutStallsTheSender fills the buffers before a cut: writes wait, as in life.
func TestCutStallsTheSender(t *testing.T) {
	p := newPair(t)
	p.Cut("a", "b")
	_ = p.a.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	n, err := io.Copy(p.a, zeros{})
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(n, err)
	}
	_ = p.a.SetWriteDeadline(time.Time{})
	p.a.Close()
	p.HealAll()
	if got, err := io.Copy(io.Discard, p.b); err != nil || got < n {
		t.Fatalf("%d bytes of %d, %v", got, n, err)
	}
}

func TestNodeThatStopped(t *testing.T) {
	p := newPair(t)
	p.listener.Close()
	c, err := p.Dial("a")(t.Context(), p.address)
	if err == nil {
		_, err = c.Read(make([]byte, 1))
		c.Close()
	}
	if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if p.listener, err = p.Listen("b")(p.address); err != nil {
		t.Fatal(err)
	}
	p.connect(t)
	send(t, p.a, "back")
	receive(t, p.b, "back")
	if _, err := p.Listen("b")(p.address); err == nil {
		t.Fatal("two listeners of one node")
	}
	if _, err := p.Dial("a")(t.Context(), "127.0.0.1:1"); err == nil {
		t.Fatal("dialed an address that no node has")
	}
}

// TestProcesses connects a node that has its own port through the addresses of the
// network.
func TestProcesses(t *testing.T) {
	leakCheck(t)
	n := New(1)
	defer n.Close()
	process, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer process.Close()
	n.Add("p", process.Addr().String())
	address, err := n.AddressFor("q", "p")
	if err != nil || address == process.Addr().String() {
		t.Fatal(address, err)
	}
	q, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	c, err := process.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n.Cut("p", "q")
	send(t, c, "1")
	silent(t, q)
	send(t, q, "2")
	receive(t, c, "2")
	n.Heal("p", "q")
	receive(t, q, "1")
}
