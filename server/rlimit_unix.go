//go:build unix

package server

import "syscall"

// openFileLimit returns how many files this process may open, 0 if that is not
// known. The runtime has raised the soft limit to the hard one.
func openFileLimit() uint64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		return 0
	}
	return uint64(r.Cur)
}
