package admission

import (
	"fmt"
	"runtime/debug"

	"tsdbd/internal/vfs"
)

// Panic is the error of a panic in a query.
type Panic struct {
	Value any
	Stack []byte
}

// Error has InfluxDB's form.
func (p *Panic) Error() string { return fmt.Sprintf("[panic:%v]", p.Value) }

// Guard runs f, and returns a panic in it as a *Panic. A fault in a mapped file,
// which shrank or cannot be read, becomes an error that names the file. Every
// goroutine of a query runs under Guard, so that a panic ends the query and not the
// server.
func Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if err = vfs.Fault(p); err == nil {
				err = &Panic{p, debug.Stack()}
			}
		}
	}()
	return f()
}
