// Package space remembers what the operating system refused a store: a full disk,
// until there is space again, and other errors of writes, until one passes.
package space

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"tsdbd/internal/vfs"
)

const (
	// resumeBytes is the free space above which a disk that was full no longer
	// counts as such: a small segment of the log and a flush fit.
	resumeBytes = 4 << 20
	// quotaTells is how long a used up quota counts as a full disk: the free space
	// of the file system does not tell when it ends.
	quotaTells = 10 * time.Second
	// troubleTells is how long a trouble counts if no write comes that shows whether
	// it has passed.
	troubleTells = time.Minute
)

// FullError is a change refused by a full disk; it is accepted when there is space
// again.
type FullError struct{ Err error }

func (e FullError) Error() string { return "disk full: " + e.Err.Error() }

// Unwrap returns the file system's error.
func (e FullError) Unwrap() error { return e.Err }

// Temporary reports that the same request may succeed later.
func (e FullError) Temporary() bool { return true }

// Space may be used by any number of goroutines.
type Space struct {
	fs      vfs.FS
	dir     string
	now     func() time.Time
	full    atomic.Bool
	quotaAt atomic.Int64 // when a quota last refused something, Unix nanoseconds
	trouble atomic.Pointer[trouble]
}

// trouble is an error of the operating system that kept the latest write or
// change out, as that a directory is not writable.
type trouble struct {
	err error
	at  time.Time
}

// New returns the space of a directory.
func New(fsys vfs.FS, dir string, now func() time.Time) *Space {
	return &Space{fs: fsys, dir: dir, now: now}
}

// Refusal returns a FullError for an error of a full disk, and remembers it and
// other errors of the operating system.
func (d *Space) Refusal(err error) error {
	if vfs.IsFull(err) {
		d.Note(err)
		return FullError{err}
	}
	var system syscall.Errno
	if errors.As(err, &system) {
		d.trouble.Store(&trouble{err, d.now()})
	}
	return err
}

// Note remembers an error if it is one of a full disk.
func (d *Space) Note(err error) {
	if !vfs.IsFull(err) {
		return
	}
	d.full.Store(true)
	if vfs.IsQuota(err) {
		d.quotaAt.Store(d.now().UnixNano())
	}
}

// Passed notes that a write was stored.
func (d *Space) Passed() {
	if d.trouble.Load() != nil {
		d.trouble.Store(nil)
	}
}

// Trouble returns why the latest write or change was refused, or nil.
func (d *Space) Trouble() error {
	if t := d.trouble.Load(); t != nil && d.now().Sub(t.at) < troubleTells {
		return t.err
	}
	return nil
}

// Full reports whether something was refused for lack of space and there is still
// none.
func (d *Space) Full() bool {
	if !d.full.Load() {
		return false
	}
	if d.now().Sub(time.Unix(0, d.quotaAt.Load())) < quotaTells {
		return true
	}
	if free, err := d.fs.Free(d.dir); err == nil && free >= resumeBytes {
		d.full.Store(false)
		return false
	}
	return true
}

// Needs returns an error of a full disk if fewer than so many bytes are free.
func (d *Space) Needs(bytes uint64) error {
	if free, err := d.fs.Free(d.dir); err == nil && free < bytes {
		return fmt.Errorf("%d bytes are free: %w", free, syscall.ENOSPC)
	}
	return nil
}
