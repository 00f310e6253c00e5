package apptest

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestNotify starts and stops a server under a supervisor.
func TestNotify(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := New(t)
	s.Env = []string{"NOTIFY_SOCKET=" + path}
	s.Restart()
	s.Stop()
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, err := l.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Errorf("told %q %v, want %s", b[:n], err, want)
		}
	}
}
