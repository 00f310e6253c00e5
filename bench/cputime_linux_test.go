package main

import (
	"os"
	"testing"
	"time"

	"tsdbd/internal/proc"
)

// TestCPUTime: the clock of this process, asked for as that of another one, lies between
// two readings of its own.
func TestCPUTime(t *testing.T) {
	before := proc.CPUTime()
	got := cpuTime(os.Getpid())
	after := proc.CPUTime()
	if slack := 20 * time.Millisecond; got < before-slack || got > after+slack {
		t.Errorf("%v, want %v to %v", got, before, after)
	}
	if got := cpuTime(1 << 25); got != 0 {
		t.Errorf("%v for a process that is not there", got)
	}
}
