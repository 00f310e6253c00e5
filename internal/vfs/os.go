package vfs

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
)

// OS is the operating system's file system. Files are made readable by their
// owner alone. What a system does otherwise than the others is in the files
// named after systems; docs/systems.md tells what follows from it.
var OS FS = osFS{}

type osFS struct{}

type osFile struct{ *os.File }

// ErrLocked is returned for a lock that another process holds.
var ErrLocked = errors.New("in use by another process")

func (osFS) Create(name string) (File, error) {
	return wrap(openFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC))
}

func (osFS) Open(name string) (File, error) { return wrap(openFile(name, os.O_RDONLY)) }

func (osFS) OpenReadWrite(name string) (File, error) { return wrap(openFile(name, os.O_RDWR)) }

func wrap(f *os.File, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Rename(from, to string) error          { return rename(from, to) }
func (osFS) Link(from, to string) error            { return os.Link(from, to) }
func (osFS) Remove(name string) error              { return remove(name) }
func (osFS) RemoveAll(name string) error           { return removeAll(name) }
func (osFS) MkdirAll(dir string) error             { return os.MkdirAll(dir, 0o700) }
func (osFS) Stat(name string) (os.FileInfo, error) { return os.Stat(name) }

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// openedDir is an open directory.
type openedDir interface {
	io.Closer
	Sync() error
}

func (osFS) SyncDir(dir string) error {
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

func (osFS) Lock(name string) (Lock, error) {
	l, err := openLocked(name, os.O_RDWR|os.O_CREATE, true)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// ErrLockLost is returned for a lock that no longer keeps others out.
var ErrLockLost = errors.New("the lock is lost")

// Hold takes a lock that keeps out FS.Lock of the same file and no other Hold,
// until Close or the process's end. The file must exist.
func Hold(name string) (io.Closer, error) {
	l, err := openLocked(name, os.O_RDONLY, false)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// heldLock is a lock on a file and on its directory: anybody may remove the
// file, so the directory is what counts.
type heldLock struct {
	name string
	file *os.File
	dir  *os.File // nil: the file system does not lock directories
}

func openLocked(name string, flag int, exclusive bool) (_ *heldLock, err error) {
	l := &heldLock{name: name}
	defer func() {
		if err != nil {
			_ = l.Close()
		}
	}()
	if l.dir, err = lockDir(filepath.Dir(name), exclusive); err != nil {
		return nil, fmt.Errorf("lock %s: %w", filepath.Dir(name), err)
	}
	if l.file, err = openFile(name, flag); err != nil {
		return nil, err
	}
	if err := lock(l.file, exclusive); err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return l, nil
}

// Held looks whether what is locked is still what has its name.
func (l *heldLock) Held() error {
	f, name := l.dir, filepath.Dir(l.name)
	if f == nil {
		f, name = l.file, l.name
	}
	now, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrLockLost, err)
	}
	if err != nil {
		return err
	}
	locked, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(now, locked) {
		return fmt.Errorf("%w: %s is not the one that was locked", ErrLockLost, name)
	}
	return nil
}

// Close gives the lock up.
func (l *heldLock) Close() error {
	var errs []error
	for _, f := range []*os.File{l.file, l.dir} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

func (osFS) Free(dir string) (uint64, error) { return free(dir) }

func (f osFile) SyncData() error { return syncData(f.File) }

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (f osFile) Map(size int64) ([]byte, func() error, error) {
	switch {
	case size == 0:
		return nil, func() error { return nil }, nil
	case size > math.MaxInt:
		return nil, nil, fmt.Errorf("mmap %s: %d bytes are more than a program of this kind of processor can map", f.Name(), size)
	}
	b, err := mapFile(f.File, int(size))
	if err != nil {
		return nil, nil, fmt.Errorf("mmap %s: %w", f.Name(), err)
	}
	forget := addMapping(b, f.Name())
	return b, func() error {
		replaced := forget()
		err := unmapFile(b)
		if replaced != "" {
			err = errors.Join(err, remove(replaced))
		}
		return err
	}, nil
}
