package codec

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// atPageEnd copies b to the end of a page before one that cannot be read.
func atPageEnd(t *testing.T, b []byte) []byte {
	page := os.Getpagesize()
	size := (len(b)+page-1)/page*page + page
	at, err := windows.VirtualAlloc(0, uintptr(size+page), windows.MEM_COMMIT|windows.MEM_RESERVE, windows.PAGE_READWRITE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = windows.VirtualFree(at, 0, windows.MEM_RELEASE) })
	var before uint32
	if err := windows.VirtualProtect(at+uintptr(size), uintptr(page), windows.PAGE_NOACCESS, &before); err != nil {
		t.Fatal(err)
	}
	m := unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), size)
	end := m[size-len(b) : size : size]
	copy(end, b)
	return end
}
