package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"tsdbd/internal/proc"
)

// node is one process, which starts again when it ends.
type node struct {
	name, bin, dir string
	address        string // of the API
	bind, join     string // of the cluster
	events         *events

	mu  sync.Mutex
	pid int // 0: it does not run
}

func (n *node) url() string { return "http://" + n.address }

func (n *node) state() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pid == 0 {
		return "not running"
	}
	return fmt.Sprintf("pid %d", n.pid)
}

func (n *node) setPid(pid int) {
	n.mu.Lock()
	n.pid = pid
	n.mu.Unlock()
}

// run keeps the node running until ctx ends, and stops it then.
func (n *node) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := n.runOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		n.events.add("%s ended: %v, see %s.log", n.name, err, n.dir)
		select {
		case <-time.After(restartAfter):
		case <-ctx.Done():
		}
	}
}

// runOnce returns why the process ended.
func (n *node) runOnce(ctx context.Context) error {
	log, err := os.OpenFile(n.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, n.bin, "-data", n.dir, "-http", n.address,
		"-cluster-node", n.name, "-cluster-bind", n.bind, "-cluster-join", n.join)
	cmd.Stdout, cmd.Stderr = log, log
	// What the shell has for another server is not for these.
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "TSDBD_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	proc.Prepare(cmd)
	cmd.Cancel = func() error { return proc.Stop(cmd) }
	cmd.WaitDelay = time.Minute // it is killed then
	if err := cmd.Start(); err != nil {
		return err
	}
	n.setPid(cmd.Process.Pid)
	n.events.add("%s started", n.name)
	err = cmd.Wait()
	n.setPid(0)
	if err == nil {
		return fmt.Errorf("it was stopped")
	}
	return err
}

// maxEvents is how many events the page has room for.
const maxEvents = 10

// events are the latest things that happened.
type events struct {
	mu    sync.Mutex
	lines []string
}

func (e *events) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lines = append(e.lines, time.Now().Format(time.TimeOnly)+"  "+fmt.Sprintf(format, args...))
	e.lines = e.lines[max(0, len(e.lines)-maxEvents):]
}

// String returns the events, one a line.
func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.lines, "\n")
}
