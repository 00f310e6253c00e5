package vfs

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// OS is the operating system's file system. Files are made readable by their
// owner alone. What a system does otherwise than the others is in the files
// named after systems; docs/operations.md tells what follows from it.
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

func (osFS) OpenDir(dir string) (Dir, error) { return openDir(dir) }

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

func (osFS) Lock(name string) (io.Closer, error) {
	return openLocked(name, os.O_RDWR|os.O_CREATE, true)
}

// Hold takes a lock that keeps out FS.Lock of the same file and no other Hold,
// until Close or the process's end. The file must exist.
func Hold(name string) (io.Closer, error) { return openLocked(name, os.O_RDONLY, false) }

func openLocked(name string, flag int, exclusive bool) (io.Closer, error) {
	f, err := openFile(name, flag)
	if err != nil {
		return nil, err
	}
	if err := lock(f, exclusive); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return f, nil
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
	return b, func() error { forget(); return unmapFile(b) }, nil
}
