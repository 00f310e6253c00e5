package vfstest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"syscall"
)

// file is an open file of FS.
type file struct {
	fs       *FS
	node     *inode
	writable bool
	closed   bool
}

func (f *file) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	return nil
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return 0, fs.ErrClosed
	}
	if err := f.fs.readLocked("read", f.node.name); err != nil {
		return 0, err
	}
	if off >= int64(len(f.node.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.writeLocked(p, int64(len(f.node.data)))
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return f.writeLocked(p, off)
}

func (f *file) writeLocked(p []byte, off int64) (int, error) {
	if f.closed {
		return 0, fs.ErrClosed
	}
	if !f.writable {
		return 0, &fs.PathError{Op: "write", Path: f.node.name, Err: syscall.EBADF}
	}
	failure := f.fs.beginLocked("write", f.node.name, len(p))
	if failure != nil {
		var short *ShortWrite
		if !errors.As(failure, &short) {
			return 0, failure
		}
		p = p[:min(max(short.Bytes, 0), len(p))]
	}
	n := f.node
	grow := off + int64(len(p)) - int64(len(n.data))
	if free := max(f.fs.limit-f.fs.used, 0); f.fs.limit > 0 && grow > free {
		// What fits is written, as by an operating system. A hole counts.
		p = p[:max(int64(len(p))-(grow-free), 0)]
		grow = free
		failure = &fs.PathError{Op: "write", Path: f.node.name, Err: syscall.ENOSPC}
	}
	if len(p) == 0 {
		return 0, failure
	}
	old := int64(len(n.data))
	before := slices.Clone(n.data[min(off, old):min(off+int64(len(p)), old)])
	n.pending = append(n.pending, patch{off: off, data: slices.Clone(p), before: before, size: old})
	if grow > 0 {
		f.fs.used += grow
		n.data = append(n.data, make([]byte, grow)...)
	}
	copy(n.data[off:], p)
	return len(p), failure
}

func (f *file) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return fs.ErrClosed
	}
	n := f.node
	if err := f.fs.beginLocked("sync", n.name, 0); err != nil {
		n.doomed = len(n.pending)
		return err
	}
	if n.doomed == 0 {
		n.pending = nil
	}
	for i := n.doomed; i < len(n.pending); i++ {
		n.pending[i].durable = true
	}
	return nil
}

func (f *file) SyncData() error { return f.Sync() }

func (f *file) Size() (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return int64(len(f.node.data)), nil
}

func (f *file) Map(size int64) ([]byte, func() error, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.fs.readLocked("map", f.node.name); err != nil {
		return nil, nil, err
	}
	if size > int64(len(f.node.data)) {
		return nil, nil, fmt.Errorf("map %s: %d bytes of %d", f.node.name, size, len(f.node.data))
	}
	return slices.Clone(f.node.data[:size]), func() error { return nil }, nil
}
