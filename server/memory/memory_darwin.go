package memory

import "golang.org/x/sys/unix"

// systemMemory returns the machine's memory in bytes, 0 if it is not known.
func systemMemory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}
