//go:build !linux

package tsm1

// running finds no server: only Linux says which files other processes have open.
func running(...string) error { return nil }
