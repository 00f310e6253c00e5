//go:build !unix

package server

// openFileLimit returns 0: this system has no limit of open files.
func openFileLimit() uint64 { return 0 }
