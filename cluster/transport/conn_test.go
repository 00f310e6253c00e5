package transport

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// streamBetween returns the two ends of a raft stream.
func streamBetween(t *testing.T, n1, n2 *Transport) (dialed, accepted net.Conn) {
	t.Helper()
	l := n2.Streams()
	conns := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		conns <- c
	}()
	dialed, err := n1.Streams().Dial(raft.ServerAddress(n2.Address()), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return dialed, <-conns
}

// TestSlowReader ends a connection whose peer reads nothing.
func TestSlowReader(t *testing.T) {
	for _, s := range []string{secret, ""} {
		t.Run("secret="+s, func(t *testing.T) {
			t.Parallel()
			change := func(o *Options, _ *Hello) { o.Secret, o.WriteTimeout = s, time.Second }
			n1, n2 := node(t, "n1", change), node(t, "n2", change)
			dialed, accepted := streamBetween(t, n1, n2)
			large := make([]byte, 64<<20)
			n, err := dialed.Write(large)
			if !errors.Is(err, os.ErrDeadlineExceeded) || n >= len(large) {
				t.Fatal(n, err)
			}
			if _, err := dialed.Read(large); err == nil {
				t.Fatal("the connection can still be read")
			}
			if s := n1.figures(); s.stuck != 1 || s.raft != 0 {
				t.Fatalf("%+v", s)
			}
			dialed.Close()
			accepted.Close()
		})
	}
}

// TestSlowButReading sends everything to a peer that reads a little at a time, and all
// of it in many times the timeout. The time is that of a bubble: on a busy machine a
// reader would be slower than it means to.
func TestSlowButReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n1 := &Transport{opt: Options{WriteTimeout: time.Second}}
		ours, theirs := net.Pipe()
		c := &Conn{Conn: ours, raw: ours, t: n1}
		const size = 8 << 20
		go func() {
			defer c.Close()
			if _, err := c.Write(make([]byte, size)); err != nil {
				t.Error(err)
			}
		}()
		got, begin := 0, time.Now()
		for b := make([]byte, writeChunk/4); ; {
			n, err := io.ReadFull(theirs, b)
			got += n
			if err != nil {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
		if took := time.Since(begin); got != size || n1.failures.stuck.Load() != 0 || took < 20*time.Second {
			t.Fatal(got, n1.failures.stuck.Load(), took)
		}
	})
}

// TestOwnDeadlines leaves a connection alone whose owner sets deadlines.
func TestOwnDeadlines(t *testing.T) {
	t.Parallel()
	change := func(o *Options, _ *Hello) { o.Secret = "" }
	n1, n2 := node(t, "n1", change), node(t, "n2", change)
	dialed, accepted := streamBetween(t, n1, n2)
	_ = dialed.SetDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := dialed.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if _, err := dialed.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if s := n1.figures(); s.stuck != 0 || s.raft != 1 {
		t.Fatalf("%+v", s)
	}
	_ = dialed.SetDeadline(time.Time{})
	go func() { _, _ = io.Copy(io.Discard, accepted) }()
	if _, err := dialed.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
}

// TestLargeBodies sends a large body, and reads a larger answer as a stream.
func TestLargeBodies(t *testing.T) {
	n1, n2 := node(t, "n1", nil), node(t, "n2", nil)
	const chunk, chunks = 1 << 20, 100
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := crc32.NewIEEE()
		n, err := io.Copy(sum, r.Body)
		if err != nil || n != 25<<20 {
			t.Errorf("%d bytes, %v", n, err)
		}
		b := bytes.Repeat([]byte{1}, chunk)
		_, _ = w.Write(sum.Sum(nil))
		for range chunks {
			_, _ = w.Write(b)
		}
	})}
	l := n2.HTTP()
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	body := bytes.Repeat([]byte("abcde"), 5<<20)
	sum := crc32.NewIEEE()
	_, _ = sum.Write(body)
	for range 2 { // the second request on the same connection, unless the machine is busy
		resp, err := n1.Client().Post("http://"+n2.Address()+"/", "", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		var got [4]byte
		if _, err := io.ReadFull(resp.Body, got[:]); err != nil || !bytes.Equal(got[:], sum.Sum(nil)) {
			t.Fatal(got, err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != chunk*chunks {
			t.Fatal(n, err)
		}
		resp.Body.Close()
	}
	if s := n1.figures(); s.http > 1 {
		t.Errorf("%+v", s)
	}
}

// TestManyConnects connects 1,000 times, many at a time.
func TestManyConnects(t *testing.T) {
	clients, each := 20, 50
	if testing.Short() {
		each = 10
	}
	n1, n2 := node(t, "n1", nil), node(t, "n2", nil)
	l := n2.Streams()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range each {
				c, err := n1.Streams().Dial(raft.ServerAddress(n2.Address()), 0)
				if err != nil {
					t.Error(err)
					return
				}
				b := []byte("ping")
				if _, err := c.Write(b); err != nil {
					t.Error(err)
				}
				if _, err := io.ReadFull(c, b); err != nil || string(b) != "ping" {
					t.Error(b, err)
				}
				c.Close()
			}
		})
	}
	all.Wait()
	waitFor(t, "all ends", func() bool { return n1.figures().raft == 0 && n2.figures().raft == 0 })
	if len(n1.mu.conns)+len(n2.mu.conns) != 0 {
		t.Error("ended connections are kept")
	}
	if s := n2.figures(); s.failed+s.refused+s.evicted != 0 {
		t.Errorf("%+v", s)
	}
}

// TestClose closes a node with everything under way: the ends that others hold fail,
// and nothing is left.
func TestClose(t *testing.T) {
	t.Parallel()
	n1, n2 := node(t, "n1", nil), node(t, "n2", nil)
	serve(t, n2, "n2")
	if _, err := get(n1, n2.Address()); err != nil { // leaves an idle connection
		t.Fatal(err)
	}
	dialed, accepted := streamBetween(t, n1, n2)
	stuck, _ := streamBetween(t, n1, n2)
	written := make(chan error, 1)
	go func() {
		_, err := stuck.Write(make([]byte, 64<<20))
		written <- err
	}()
	dialRaw(t, n1) // says nothing
	waitFor(t, "the silent peer", func() bool { return n1.figures().handshakes == 1 })
	accepting := make(chan error, 1)
	l := n1.Streams()
	go func() {
		_, err := l.Accept()
		accepting <- err
	}()
	began := time.Now()
	if err := n1.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 4*time.Second { // TLS itself waits 5 s for a peer that does not read
		t.Errorf("closing took %s", took)
	}
	if err := <-accepting; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := <-written; err == nil {
		t.Error("a write went on")
	}
	if _, err := dialed.Write([]byte("x")); err == nil {
		t.Error("wrote to a closed connection")
	}
	if _, err := accepted.Read(make([]byte, 1)); err == nil {
		t.Error("read from a connection that the peer has closed")
	}
	if err := n1.Close(); err != nil {
		t.Error(err)
	}
	if _, err := n1.HTTP().Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := n1.Client().Get("http://" + n2.Address()); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if s := n1.figures(); s.raft != 0 || s.http != 0 || s.handshakes != 0 {
		t.Errorf("%+v", s)
	}
}

// TestStreamsAreOpenedAgain closes the streams of raft: connections end, dials fail,
// and peers find nobody, until Streams is called again. HTTP goes on.
func TestStreamsAreOpenedAgain(t *testing.T) {
	t.Parallel()
	n1, n2 := node(t, "n1", nil), node(t, "n2", nil)
	serve(t, n2, "n2")
	old := n2.Streams()
	dialed, accepted := streamBetween(t, n1, n2)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{dialed, accepted} {
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the connection goes on")
		}
	}
	if _, err := old.Dial(raft.ServerAddress(n1.Address()), time.Second); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	c, err := n1.Streams().Dial(raft.ServerAddress(n2.Address()), 30*time.Second)
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if err == nil {
		t.Error("somebody answers")
	}
	if _, err := get(n1, n2.Address()); err != nil {
		t.Error(err)
	}
	dialed, accepted = streamBetween(t, n1, n2)
	go func() { _, _ = dialed.Write([]byte("x")) }()
	if _, err := io.ReadFull(accepted, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// TestNobodyAccepts bounds the connections that wait for a server.
func TestNobodyAccepts(t *testing.T) {
	t.Parallel()
	n1, n2 := node(t, "n1", nil), node(t, "n2", nil)
	l := n2.Streams()
	for range maxWaiting + 5 {
		c, err := n1.dial(context.Background(), n2.Address(), Raft)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	waitFor(t, "the bound", func() bool { s := n2.figures(); return s.raft == maxWaiting })
	l.Close()
	waitFor(t, "the end", func() bool { return n2.figures().raft == 0 })
}

// TestNamesOfCertificates: a certificate must name the address that a node advertises, wherever
// its connections go.
func TestNamesOfCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n2 := node(t, "n2", func(o *Options, _ *Hello) { o.Secret, o.TLS = "", a.tls(t) })
	serve(t, n2, "n2")
	n1 := node(t, "n1", func(o *Options, _ *Hello) {
		o.Secret, o.TLS = "", a.tls(t)
		o.Dial = func(ctx context.Context, _ string) (net.Conn, error) { return dialTCP(ctx, n2.Address()) }
	})
	if got, err := get(n1, "127.0.0.1:1"); err != nil || got != "n2 answers /x" {
		t.Fatal(got, err)
	}
	if _, err := get(n1, "localhost:1"); err == nil || !strings.Contains(err.Error(), "the certificate of localhost:1 is not valid here") {
		t.Fatal(err)
	}
}

// TestPlainStaysOnThisMachine refuses to dial other machines without encryption.
func TestPlainStaysOnThisMachine(t *testing.T) {
	n := node(t, "n1", func(o *Options, _ *Hello) { o.Secret = "" })
	_, err := n.dial(context.Background(), "192.0.2.1:1", Raft)
	if err == nil || err.Error() != "connect to 192.0.2.1:1: nodes without a secret and without certificates must be on one machine" {
		t.Fatal(err)
	}
}
