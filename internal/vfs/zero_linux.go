package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// directStep is how much zeroDirect writes at a time.
const directStep = 1 << 20

// zeroDirect writes zeros past the cache, and returns how far. Not every file system
// takes such writes.
func (f osFile) zeroDirect(size int64) (off int64, err error) {
	d, err := os.OpenFile(f.Name(), os.O_WRONLY|unix.O_DIRECT, 0)
	if err != nil {
		return 0, nil
	}
	defer d.Close()
	// Memory that nothing was written to takes no room.
	zeros, err := unix.Mmap(-1, 0, directStep, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0, nil
	}
	defer func() { err = errors.Join(err, unix.Munmap(zeros)) }()
	for whole := size / PageBytes * PageBytes; off < whole; {
		n, err := d.WriteAt(zeros[:min(directStep, whole-off)], off)
		off += int64(n)
		if errors.Is(err, unix.EINVAL) {
			return off / PageBytes * PageBytes, nil
		}
		if err != nil {
			return off, err
		}
	}
	return off, nil
}
