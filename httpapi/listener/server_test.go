package listener_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"tsdbd/httpapi/listener"
)

// answers answers every request.
type answers struct{}

func (answers) ServeHTTP(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
func (answers) Drain()                                           {}

// TestConnectionLimitQueues opens one connection more than may be open: it waits.
func TestConnectionLimitQueues(t *testing.T) {
	srv, err := listener.Listen(answers{}, listener.Options{MaxConnections: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close(t.Context())
	first, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	second, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	ask := func(c net.Conn) { fmt.Fprint(c, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n") }
	answer := func(c net.Conn, limit time.Duration) error {
		_ = c.SetReadDeadline(time.Now().Add(limit))
		_, err := c.Read(make([]byte, 1))
		return err
	}
	ask(first)
	if err := answer(first, time.Minute); err != nil {
		t.Errorf("first connection: %v", err)
	}
	ask(second)
	if err := answer(second, 200*time.Millisecond); err == nil {
		t.Error("the second connection is served at the same time as the first")
	}
	_ = first.Close()
	if err := answer(second, time.Minute); err != nil {
		t.Errorf("second connection after the first: %v", err)
	}
}
