package transport

import (
	"net"
	"strings"
	"testing"
)

// TestDialOther: a connection to a port where nobody listens may be one to itself, which is
// no node.
func TestDialOther(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d := net.Dialer{LocalAddr: at}
	switch _, err := dialOther(t.Context(), &d, at.String()); {
	case err == nil:
		t.Error("a connection to itself is made")
	case !strings.Contains(err.Error(), "nobody listens there"):
		t.Skipf("this system makes no connection of a port to itself: %v", err)
	}
}
