package input

import (
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// listener has one connection.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}
func (l *listener) Close() error   { close(l.closed); return nil }
func (l *listener) Addr() net.Addr { return nil }

// serveLines reads lines from one connection until it ends; got is what came of
// them when done is closed.
func serveLines(counts *Counts) (client net.Conn, c *Connections, got *[]string, done chan struct{}) {
	client, server := net.Pipe()
	l := &listener{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conns <- server
	got, done = new([]string), make(chan struct{})
	c = newConnections(l, counts, func(_ net.Conn, r *Lines) {
		defer close(done)
		for {
			line, err := r.Next()
			if err == nil {
				*got = append(*got, string(line))
				continue
			}
			if err != io.EOF {
				*got = append(*got, "cut")
			}
			return
		}
	})
	return client, c, got, done
}

func TestLines(t *testing.T) {
	f := func(want string, badPoints int64, texts ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var counts Counts
			client, c, got, done := serveLines(&counts)
			for _, text := range texts {
				if d, err := time.ParseDuration(text); err == nil {
					time.Sleep(d)
				} else if _, err := io.WriteString(client, text); err != nil {
					break // it was cut off
				}
			}
			_ = client.Close() // of memory
			<-done
			if err := c.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if s := strings.Join(*got, "|"); s != want {
				t.Errorf("%.100q: %.200s, want %s", texts, s, want)
			}
			if counts.Connections.Load() != 0 || counts.Connected.Load() != 1 || counts.BadPoints.Load() != badPoints {
				t.Errorf("%.100q: %d open, %d accepted, %d bad points", texts, counts.Connections.Load(), counts.Connected.Load(), counts.BadPoints.Load())
			}
		})
	}
	f("a|b||c", 0, "a\nb\r\n\nc")
	f("ab|c", 0, "a", "29s", "b\n", "9m", "c\n")
	f("a|c", 1, "a\n"+strings.Repeat("x", 3*MaxLineBytes)+"\nc\n")
	f("a", 1, "a\n"+strings.Repeat("x", MaxLineBytes+1))
	f("a|cut", 0, "a\n", "b", "31s", "c\n")              // a line that does not end
	f("cut", 0, "a", "20s", "b", "20s", "c", "1m", "\n") // nor does it by trickling
	f("a|cut", 0, "a\n", "11m", "c\n")                   // silence
}

func TestCloseEndsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counts Counts
		client, c, got, done := serveLines(&counts)
		defer client.Close()
		if _, err := io.WriteString(client, "a\nb"); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		<-done
		if d := time.Since(begin); d != 0 || strings.Join(*got, "|") != "a|cut" {
			t.Errorf("%q after %v", *got, d)
		}
	})
}
