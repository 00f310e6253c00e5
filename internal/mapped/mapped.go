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
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"tsdbd/internal/binio"
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
	damage   atomic.Pointer[binio.CorruptError]
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

// InMemory returns a file of bytes that are in memory, with one reference.
func InMemory(path string, data []byte) *File {
	m := &File{path: path, data: data, unmap: func() error { return nil }}
	m.refs.Store(1)
	return m
}

// Data returns the bytes of the file. They are valid while a reference is held.
func (m *File) Data() []byte { return m.data }

// Path returns the path of the file.
func (m *File) Path() string { return m.path }

// Section returns size bytes at an offset. They are valid while a reference is
// held. Bytes that the file does not have are a *binio.CorruptError.
func (m *File) Section(offset, size int64) ([]byte, error) {
	if n := int64(len(m.data)); offset < 0 || size < 0 || offset > n || size > n-offset {
		return nil, binio.Corruptf(m.path, offset, "section of %d bytes out of bounds", size)
	}
	return m.data[offset : offset+size : offset+size], nil
}

// Checked returns a section without the binio.PlacedChecksum that its last four
// bytes are, if that is right. A fault is an error. The file remembers damage.
func (m *File) Checked(offset, size int64) ([]byte, error) {
	b, err := m.checked(offset, size)
	if err != nil {
		var c *binio.CorruptError // takes memory
		if errors.As(err, &c) {
			m.Blame(c)
		}
	}
	return b, err
}

func (m *File) checked(offset, size int64) (_ []byte, err error) {
	defer vfs.CatchFault(&err)()
	b, err := m.Section(offset, size)
	if err != nil || size < 4 {
		return nil, cmp.Or(err, binio.Corruptf(m.path, offset, "section of %d bytes", size))
	}
	b, crc := b[:size-4], b[size-4:]
	if binio.PlacedChecksum(offset, b) != binary.LittleEndian.Uint32(crc) {
		return nil, binio.Corruptf(m.path, offset, "checksum mismatch")
	}
	return b, nil
}

// Blame has the file remember damage, if it is of this file.
func (m *File) Blame(c *binio.CorruptError) {
	if c.Path == m.path {
		m.damage.CompareAndSwap(nil, c)
	}
}

// Damage returns the first damage that Checked or another reader has found, or nil.
func (m *File) Damage() *binio.CorruptError { return m.damage.Load() }

// Verified remembers which pieces of a file were found sound since it was opened.
type Verified []atomic.Uint64

// NewVerified returns n pieces that were not looked at.
func NewVerified(n int) Verified { return make(Verified, (n+63)/64) }

// Has reports whether piece i is sound.
func (v Verified) Has(i int) bool { return v[i>>6].Load()>>(uint(i)&63)&1 != 0 }

// Add says that piece i is sound.
func (v Verified) Add(i int) { v[i>>6].Or(1 << (uint(i) & 63)) }

// Acquire adds a reference. The caller must hold one, or know that somebody else does
// until Acquire returns.
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
