//go:build unix && amd64

package codec

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// atPageEnd copies b to the end of a page before one that cannot be read.
func atPageEnd(t *testing.T, b []byte) []byte {
	page := os.Getpagesize()
	size := (len(b)+page-1)/page*page + page
	m, err := unix.Mmap(-1, 0, size+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(m) })
	if err := unix.Mprotect(m[size:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	at := m[size-len(b) : size : size]
	copy(at, b)
	return at
}
