package vfs

import "golang.org/x/sys/unix"

// uncache takes the clean pages of a file out of the cache that nobody has mapped.
func (f osFile) uncache() { _ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }
