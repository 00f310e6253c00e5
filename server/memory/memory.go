package memory

import (
	"math"
	"math/bits"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// heapShare is the part of the memory there is that the Go heap may take. The
// rest is for what the runtime does not count: mapped files in use, the
// kernel's buffers and page tables.
const heapShare = 0.8

// addressable is what of a 32-bit program's addresses the heap may take: there
// are 2 to 4 GiB, and mapped files want theirs.
const addressable = 768 << 20

// Limit returns how large the heap may get in bytes, and what says so:
// GOMEMLIMIT if it is set, else a share of the cgroup's or the machine's memory.
func Limit() (bytes int64, source string) {
	if n := debug.SetMemoryLimit(-1); n != math.MaxInt64 {
		return n, "GOMEMLIMIT"
	}
	return shareOf(systemMemory(), cgroupMemory(os.ReadFile), bits.UintSize)
}

// shareOf returns Limit for a machine's and a cgroup's memory, 0 where it is
// not known, and addresses of so many bits.
func shareOf(machine, group int64, addressBits int) (bytes int64, source string) {
	bytes, source = 2<<30, "guess"
	switch {
	case group > 0 && (machine == 0 || group < machine):
		bytes, source = int64(float64(group)*heapShare), "cgroup"
	case machine > 0:
		bytes, source = int64(float64(machine)*heapShare), "machine"
	}
	if addressBits == 32 && bytes > addressable {
		return addressable, "32-bit addresses"
	}
	return bytes, source
}

// machineMemory returns Linux's memory in bytes, 0 if it is not known.
func machineMemory(read func(string) ([]byte, error)) int64 {
	text, err := read("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err == nil && n > 0 && n < math.MaxInt64>>10 {
				return n << 10
			}
		}
	}
	return 0
}

// cgroupMemory returns the smallest memory limit of the process's control
// groups (version 1 or 2) and those above it in bytes, 0 if there is none.
func cgroupMemory(read func(string) ([]byte, error)) int64 {
	text, err := read("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	limit := int64(0)
	for line := range strings.Lines(string(text)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		root, file := "", ""
		switch {
		case part[0] == "0" && part[1] == "":
			root, file = "/sys/fs/cgroup", "memory.max"
		case strings.Contains(","+part[1]+",", ",memory,"):
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container the path may be the host's: then the root is ours.
		for dir := path.Clean("/" + part[2]); ; dir = path.Dir(dir) {
			if text, err := read(path.Join(root, dir, file)); err == nil {
				n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
				// Version 1 spells no limit as a number next to the largest.
				if err == nil && n > 0 && n < 1<<60 && (limit == 0 || n < limit) {
					limit = n
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	return limit
}
