package proc

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestServer: a server is awaited and stopped; one that ends at its start is an
// error with what it printed.
func TestServer(t *testing.T) {
	switch os.Getenv("PROC_TEST_SERVER") { // the server
	case "serves":
		os.Stdout.WriteString("ready\n")
		time.Sleep(time.Minute)
		return
	case "fails":
		os.Stderr.WriteString("no room\n")
		os.Exit(3)
	}
	start := func(how string) (*Server, error) {
		cmd := exec.Command(os.Args[0], "-test.run=^TestServer$")
		cmd.Env = append(os.Environ(), "PROC_TEST_SERVER="+how)
		s, err := Launch(cmd, filepath.Join(t.TempDir(), "output"))
		if err != nil {
			t.Fatal(err)
		}
		return s, s.Await(t.Context(), func(context.Context) error {
			if !strings.Contains(s.Output(), "ready") {
				return errors.New("not ready")
			}
			return nil
		})
	}
	s, err := start("serves")
	if err != nil || s.Pid() == 0 {
		t.Fatal(err)
	}
	if err := s.Stop(time.Minute); err == nil {
		t.Error("ended by a signal, but Stop has no error")
	}
	s.Kill() // has no effect
	if _, err = start("fails"); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no room") {
		t.Errorf("a server that fails: %v", err)
	}
}
