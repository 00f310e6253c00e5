// Package proc does with processes what each system has its own call for:
// the CPU time of this one, and servers that tests and benchmarks start and
// stop. The server itself does not use it.
package proc

import (
	"os/exec"
	"time"
)

// CPUTime returns the time of all cores that this process has used.
func CPUTime() time.Duration { return cpuTime() }

// Prepare makes a command that is not started yet stoppable by Stop. On Linux
// the command also ends when this process does, however that ends.
func Prepare(c *exec.Cmd) { prepare(c) }

// Stop asks a running command, which Prepare has seen, to end.
func Stop(c *exec.Cmd) error { return stop(c) }
