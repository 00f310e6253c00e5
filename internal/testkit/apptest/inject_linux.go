package apptest

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/proc"
)

// output is what a process prints; it may be read meanwhile.
type output struct {
	sync.Mutex
	bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.Lock()
	defer o.Unlock()
	return o.Buffer.Write(p)
}

func (o *output) String() string {
	o.Lock()
	defer o.Unlock()
	return o.Buffer.String()
}

// Inject makes a system call of the running server fail from now on, or skips.
// The returned function ends that.
func Inject(t testing.TB, s *Server, call, fault string) (end func()) {
	t.Helper()
	bin, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	out := &output{}
	cmd := exec.Command(bin, "-f", "-p", fmt.Sprint(s.Pid()), "-e", "trace="+call, "-e", "inject="+call+":"+fault)
	cmd.Stdout, cmd.Stderr = out, out
	proc.Prepare(cmd)
	if err := cmd.Start(); err != nil {
		t.Skipf("strace does not start: %v", err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	end = func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	t.Cleanup(end)
	for deadline := time.Now().Add(5 * time.Second); !strings.Contains(out.String(), "attached"); time.Sleep(5 * time.Millisecond) {
		select {
		case <-ended:
			t.Skipf("strace cannot attach: %.300s", out)
		default:
		}
		if time.Now().After(deadline) {
			t.Skipf("strace does not attach: %.300s", out)
		}
	}
	time.Sleep(100 * time.Millisecond) // all threads
	return end
}
