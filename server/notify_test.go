package server

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsdbd/config"
)

func TestNotifyWithoutASupervisor(t *testing.T) {
	if err := notify(filepath.Join(t.TempDir(), "none"), "READY=1"); err == nil {
		t.Error("no error")
	}
}

// TestKeepWaiting: the supervisor of a node of a cluster waits while the node does. That
// of a single node hears nothing.
func TestKeepWaiting(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	c := config.Default()
	keepWaiting(c)()
	c.Cluster.Node = "n1"
	stop := keepWaiting(c)
	defer stop()
	if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := l.Read(b)
	if got := string(b[:n]); err != nil || !strings.HasPrefix(got, "EXTEND_TIMEOUT_USEC=60000000") {
		t.Errorf("%q %v", got, err)
	}
}
