// Package mapped shares a mapped file among its readers: the file stays mapped
// until the last reference is released, and is removed then if it is obsolete
// (W6).
//
// The disk may fail to read a page of a mapping at any time, and somebody may
// cut the file: the access is a fault then. Whoever reads the bytes catches it
// with vfs.CatchFault.
//
// A File may be used by any number of goroutines.
package mapped

import (
	"errors"
	"fmt"
	"sync/atomic"

	"tsdbd/internal/vfs"
)

// File is a mapped file and its references.
type File struct {
	fs       vfs.FS
	path     string
	data     []byte
	unmap    func() error
	refs     atomic.Int64
	obsolete atomic.Bool
}

// Open maps the whole file at path and returns it with one reference.
func Open(fs vfs.FS, path string) (_ *File, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	m := &File{fs: fs, path: path}
	size, err := f.Size()
	if err == nil {
		m.data, m.unmap, err = f.Map(size)
	}
	// The mapping outlives the descriptor: open files are not bounded by it.
	if cerr := f.Close(); cerr != nil && err == nil {
		err = errors.Join(cerr, m.unmap())
	}
	if err != nil {
		return nil, err
	}
	m.refs.Store(1)
	return m, nil
}

// Data returns the bytes of the file. They are valid while a reference is held.
func (m *File) Data() []byte { return m.data }

// Path returns the path of the file.
func (m *File) Path() string { return m.path }

// Acquire adds a reference. The caller must hold one, or know that somebody
// else holds one meanwhile.
func (m *File) Acquire() {
	for {
		n := m.refs.Load()
		if n <= 0 {
			panic("mapped: W6: Acquire after the last Release")
		}
		if m.refs.CompareAndSwap(n, n+1) {
			return
		}
	}
}

// Release gives a reference back. The last one unmaps the file, and removes it
// if it is obsolete.
func (m *File) Release() error {
	switch n := m.refs.Add(-1); {
	case n > 0:
		return nil
	case n < 0:
		panic("mapped: W6: Release without a reference")
	}
	err := m.unmap()
	if m.obsolete.Load() {
		err = errors.Join(err, m.fs.Remove(m.path))
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", m.path, err)
	}
	return nil
}

// Obsolete says whether the last Release removes the file.
func (m *File) Obsolete(remove bool) { m.obsolete.Store(remove) }
