package vfs

import (
	"runtime"
	"runtime/debug"
	"sync"
	"unsafe"

	"tsdbd/internal/binio"
)

// mappings are the mapped files of the process, by address: a fault in one is
// told by the file's name.
var mappings struct {
	sync.Mutex
	byAddress map[uintptr]mapping
}

type mapping struct {
	name     string
	size     uintptr
	replaced bool // another file has its name: it is to be removed with the mapping
}

// addMapping returns a function that takes the mapping out again, and returns
// the name of the file if that is to be removed now.
func addMapping(b []byte, name string) (forget func() string) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	mappings.Lock()
	defer mappings.Unlock()
	if mappings.byAddress == nil {
		mappings.byAddress = map[uintptr]mapping{}
	}
	mappings.byAddress[at] = mapping{name: name, size: uintptr(len(b))}
	return func() string {
		mappings.Lock()
		defer mappings.Unlock()
		m := mappings.byAddress[at]
		delete(mappings.byAddress, at)
		if m.replaced {
			return m.name
		}
		return ""
	}
}

// Fault returns the error that a recovered panic is, if it is a fault in a
// mapped file: the disk could not read it, or somebody has made it shorter. The
// goroutine must have set debug.SetPanicOnFault. Any other panic gives nil.
func Fault(p any) error {
	fault, ok := p.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok {
		return nil
	}
	mappings.Lock()
	defer mappings.Unlock()
	for at, m := range mappings.byAddress {
		if a := fault.Addr(); a >= at && a-at < m.size {
			return binio.Corruptf(m.name, int64(a-at), "mapped file cannot be read: input/output error, or it was cut")
		}
	}
	return nil
}

// CatchFault makes a fault in a mapped file the function's error, a
// *binio.CorruptError. Use: defer vfs.CatchFault(&err)(). No lock may be held
// then but by a defer.
func CatchFault(err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		p := recover()
		if p == nil {
			return
		}
		fault := Fault(p)
		if fault == nil {
			panic(p)
		}
		*err = fault
	}
}
