package transport

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// dialRaw connects to a node without a handshake.
func dialRaw(t *testing.T, n *Transport) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", n.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c
}

// waitFor waits for a condition.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	until := time.Now().Add(30 * time.Second)
	for !ok() {
		if time.Now().After(until) {
			t.Fatalf("waited for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// lines collects the lines of a log.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestStrangers sends what no node sends: the connection ends, nobody is told
// anything, and the log has one line.
func TestStrangers(t *testing.T) {
	strangers := map[string]string{
		"http":           "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"zeros":          strings.Repeat("\x00", 100),
		"tls":            "\x16\x03\x01\xff\xff" + strings.Repeat("x", 100),
		"magic":          "tsdbtsdbtsdbtsdb",
		"large frame":    "tsdb\x01\x02\xff\xff" + strings.Repeat("x", 70000),
		"bad hello":      "tsdb\x01\x02\x01\x00\x00",
		"later version":  "tsdb\x09\x02\x01\x00\x00",
		"ends in frame":  "tsdb\x01\x02\x09",
		"proof at first": string(appendFrame(nil, proofFrame, make([]byte, 32))),
	}
	for _, s := range []string{secret, ""} {
		t.Run("secret="+s, func(t *testing.T) {
			t.Parallel()
			var log lines
			n := node(t, "n1", func(o *Options, _ *Hello) {
				o.Secret, o.Logger = s, slog.New(slog.NewTextHandler(&log, nil))
			})
			var all sync.WaitGroup
			for name, sent := range strangers {
				for range 3 {
					c := dialRaw(t, n)
					all.Go(func() {
						_, _ = c.Write([]byte(sent))
						_ = c.(*net.TCPConn).CloseWrite()
						if answer, _ := io.ReadAll(c); len(answer) > 1000 {
							t.Errorf("%s: %d bytes came back", name, len(answer))
						}
					})
				}
			}
			all.Wait()
			waitFor(t, "the end of the handshakes", func() bool {
				s := n.figures()
				return s.handshakes == 0 && s.failed+s.refused == int64(3*len(strangers))
			})
			if n := strings.Count(log.String(), "\n"); n != 1 {
				t.Errorf("%d lines in the log:\n%s", n, log.String())
			}
			if r := n.Refusals(); len(r) > 1 { // all come from one host
				t.Errorf("kept %+v", r)
			}
			other := node(t, "n2", func(o *Options, _ *Hello) { o.Secret = s })
			serve(t, n, "n1")
			if got, err := get(other, n.Address()); err != nil || !strings.HasPrefix(got, "n1 answers") {
				t.Errorf("%q, %v", got, err)
			}
			if r := n.Refusals(); len(r) != 0 { // a node from this host is connected
				t.Errorf("still kept: %+v", r)
			}
		})
	}
}

// TestLaterFrames checks that a node of a later version learns why it is refused, even
// if it says more and reads the reason late.
func TestLaterFrames(t *testing.T) {
	t.Parallel()
	n := node(t, "n1", func(o *Options, _ *Hello) { o.Secret = "" })
	c := dialRaw(t, n)
	frame := appendFrame(nil, helloFrame, appendHello(nil, exampleHello))
	frame[4] = 2
	_, _ = c.Write(append(frame, make([]byte, 10000)...))
	waitFor(t, "the end of the handshake", func() bool { return len(n.Refusals()) == 1 && n.figures().handshakes == 0 })
	if h, err := readHello(c); err != nil || h.Name != "n1" {
		t.Fatal(h, err)
	}
	_, err := expectFrame(c, acceptFrame)
	var r *Refusal
	if !errors.As(err, &r) || r.Reason != "frames of version 2 instead of 1: one of the nodes runs a newer tsdbd; use that version or newer on the other" {
		t.Fatal(err)
	}
}

// TestSilence ends handshakes of peers that say nothing.
func TestSilence(t *testing.T) {
	t.Parallel()
	n := node(t, "n1", func(o *Options, _ *Hello) { o.HandshakeTimeout = 50 * time.Millisecond })
	c := dialRaw(t, n)
	if b, err := io.ReadAll(c); err != nil || len(b) != 0 {
		t.Fatal(b, err)
	}
	if s := n.figures(); s.failed != 1 {
		t.Fatalf("%+v", s)
	}
}

// TestSilentNode ends the dial of a node that does not answer.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := node(t, "n1", func(o *Options, _ *Hello) { o.HandshakeTimeout = 50 * time.Millisecond })
	if _, err := n.dial(context.Background(), l.Addr().String(), HTTP); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	slow := node(t, "n2", nil)
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := slow.dial(ctx, l.Addr().String(), HTTP); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, func() { slow.Close() })
	if _, err := slow.dial(context.Background(), l.Addr().String(), HTTP); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	if _, err := slow.dial(context.Background(), n.Address(), HTTP); !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
}

// TestManyStrangers opens more connections than handshakes may be under way. Nodes
// still connect, because the oldest ones of strangers are ended.
func TestManyStrangers(t *testing.T) {
	n := node(t, "n1", func(o *Options, _ *Hello) { o.HandshakeTimeout = 10 * time.Minute })
	serve(t, n, "n1")
	oldest := dialRaw(t, n)
	for range maxHalfOpen + 20 {
		dialRaw(t, n)
	}
	waitFor(t, "handshakes", func() bool { return n.figures().handshakes == maxHalfOpen })
	if got, err := get(node(t, "n2", func(o *Options, _ *Hello) { o.HandshakeTimeout = time.Minute }), n.Address()); err != nil || !strings.HasPrefix(got, "n1 answers") {
		t.Fatalf("%q, %v", got, err)
	}
	if s := n.figures(); s.evicted == 0 || s.handshakes > maxHalfOpen {
		t.Fatalf("%+v", s)
	}
	if _, err := oldest.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("the oldest connection is open")
	}
}

// middle is a man in the middle: it ends the TLS of both sides and passes on what is
// inside.
func middle(t *testing.T, target string) string {
	t.Helper()
	certificate, err := ephemeralCertificate()
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, InsecureSkipVerify: true, NextProtos: []string{alpnSecret}}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				to, err := tls.Dial("tcp", target, config)
				if err != nil {
					return
				}
				defer to.Close()
				go func() {
					defer from.Close()
					_, _ = io.Copy(from, to)
				}()
				_, _ = io.Copy(to, from)
			}()
		}
	}()
	return l.Addr().String()
}

func TestManInTheMiddle(t *testing.T) {
	t.Parallel()
	n1, n2 := node(t, "n1", nil), node(t, "n2", nil)
	serve(t, n2, "n2")
	if _, err := get(n1, middle(t, n2.Address())); err == nil || !strings.Contains(err.Error(), "the secret of 127.0.0.1 is not that of n2") {
		t.Fatal(err)
	}
	if s := n2.figures(); s.http != 0 {
		t.Fatalf("%+v", s)
	}
}

// TestReflectedProof answers a dialer with its own proof, and with a random one.
func TestReflectedProof(t *testing.T) {
	t.Parallel()
	certificate, err := ephemeralCertificate()
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{alpnSecret}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := node(t, "n1", nil)
	for _, reflect := range []bool{true, false} {
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			mac, err := expectFrame(c, proofFrame)
			if err != nil {
				return
			}
			if !reflect {
				_, _ = rand.Read(mac)
			}
			_, _ = c.Write(appendFrame(nil, proofFrame, mac))
			_, _ = io.Copy(io.Discard, c)
		}()
		_, err := n.dial(context.Background(), l.Addr().String(), Raft)
		var r *Refusal
		if !errors.As(err, &r) || !strings.Contains(r.Reason, "does not know the secret of this node") {
			t.Fatal(err)
		}
	}
}

// TestLogIsLimited logs one line for a host in ten seconds, and says how many it left
// out.
func TestLogIsLimited(t *testing.T) {
	var log lines
	now := time.Unix(1000, 0)
	m := newMemory(slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	m.failure("a", io.EOF)
	m.failure("a", io.EOF)
	m.failure("b", io.EOF)
	now = now.Add(logInterval)
	m.failure("a", io.EOF)
	want := []string{"peer=a err=EOF unlogged=0", "peer=b err=EOF unlogged=0", "peer=a err=EOF unlogged=1"}
	got := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(got) != len(want) {
		t.Fatal(got)
	}
	for i := range want {
		if !strings.HasSuffix(got[i], want[i]) {
			t.Errorf("%s, want %s", got[i], want[i])
		}
	}
}

// TestMemoryIsBounded refuses more peers than are kept: the oldest go.
func TestMemoryIsBounded(t *testing.T) {
	m := newMemory(slog.New(slog.DiscardHandler), time.Now)
	for i := range maxRemembered + 10 {
		name := string(rune('a'+i%26)) + string(rune('a'+i/26))
		at := time.Unix(int64(i), 0)
		m.refused(Refusal{Peer: name, Address: name, Time: at})
		m.connected(Hello{Name: "peer " + name}, "", true)
		m.failure(name, io.EOF)
	}
	if len(m.mu.refusals) != maxRemembered || len(m.mu.logged) > maxRemembered {
		t.Fatal(len(m.mu.refusals), len(m.mu.logged))
	}
	if _, ok := m.mu.refusals["aa"]; ok {
		t.Error("the oldest is there")
	}
	m.connected(Hello{Name: "za"}, "elsewhere", false)
	if len(m.mu.refusals) != maxRemembered-1 {
		t.Error("a refusal outlives the connection")
	}
}
