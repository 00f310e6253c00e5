//go:build unix

package proc

import (
	"os/exec"
	"syscall"
	"time"
)

func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func stop(c *exec.Cmd) error { return c.Process.Signal(syscall.SIGTERM) }
