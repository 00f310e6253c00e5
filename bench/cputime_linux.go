package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time of a process, with that of its threads that have ended, 0 if
// there is no such process. /proc/PID/stat rounds it to 10 ms, which is too coarse for
// hundreds of queries of 0.1 ms. The number of the clock is what clock_getcpuclockid of
// the C library makes of a process: CPUCLOCK_SCHED in the lowest bits.
func cpuTime(pid int) time.Duration {
	const clockSched = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|clockSched), &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
