// Package vfs is the seam between the storage engine and the file system: the
// engine opens, writes, syncs, renames and removes files through FS only, so
// that tests can crash it, fail it and fill its disk at any operation.
//
// A file's bytes are durable after Sync or SyncData returned nil; a created,
// renamed or removed name is durable after SyncDir of its directory returned
// nil. After a failed sync nothing may be assumed of the file.
package vfs

import (
	"io"
	"os"
)

// FS is a file system. All paths are slash-separated and cleaned by the caller.
type FS interface {
	// Create makes or truncates a file for reading and writing.
	Create(name string) (File, error)
	// Open opens a file for reading.
	Open(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and WriteAt.
	OpenReadWrite(name string) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	RemoveAll(name string) error
	MkdirAll(dir string) error
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	Stat(name string) (os.FileInfo, error)
	SyncDir(dir string) error
	// Lock makes a file and takes an exclusive lock on it and its directory that
	// ends with Close or the process.
	Lock(name string) (Lock, error)
	// Free returns the bytes an unprivileged process may still write at dir.
	Free(dir string) (uint64, error)
}

// File is an open file.
type File interface {
	io.Closer
	io.ReaderAt
	io.Writer // at the end of what was written; do not mix with WriteAt
	io.WriterAt
	// Sync makes data and metadata durable, SyncData the data and the size.
	Sync() error
	SyncData() error
	Size() (int64, error)
	// Map returns the file's first size bytes read-only. The file must not
	// change while mapped. Unmap by calling the returned function.
	Map(size int64) (data []byte, unmap func() error, err error)
}

// Lock is a lock that is held.
type Lock interface {
	io.Closer
	// Held returns an ErrLockLost if the lock no longer keeps others out, because
	// the directory was moved, or the file where directories cannot be locked. Any
	// other error says that it could not find out.
	Held() error
}

// IsFull reports whether an error is of a disk that is full, or of a quota that
// is used up: it passes when there is space.
func IsFull(err error) bool { return isFull(err) }

// IsQuota reports whether an error is of a quota that is used up.
func IsQuota(err error) bool { return isQuota(err) }

// IsReadOnly reports whether an error is of a file system that takes no writes.
func IsReadOnly(err error) bool { return isReadOnly(err) }

// ReadFile returns the whole content of a file.
func ReadFile(fs FS, name string) ([]byte, error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}

// Link makes to a second name of the file from, which no one changes any more. Where
// the file system has no second names, to becomes a synced copy. The name is not
// durable yet.
func Link(fs FS, from, to string) error {
	if l, ok := fs.(interface{ Link(from, to string) error }); ok && l.Link(from, to) == nil {
		return nil
	}
	in, err := fs.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	size, err := in.Size()
	if err != nil {
		return err
	}
	out, err := fs.Create(to)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, io.NewSectionReader(in, 0, size)); err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

// Uncache says that what of a file is only in the system's cache will not be needed soon.
func Uncache(f File) {
	if u, ok := f.(interface{ uncache() }); ok {
		u.uncache()
	}
}

// zeroStep is how much Zero writes at a time. The kernel caches a file in pieces as large
// as the writes that filled it, and writes a piece as a whole (measured for package wal).
const zeroStep = 16 << 10

// Zero makes an empty file size bytes of zeros, which are not durable yet. Where the
// system can, they do not go through its cache: who writes to the file writes whole pages
// (PageBytes), or the system reads the page first.
func Zero(f File, size int64) error {
	off := int64(0)
	if d, ok := f.(interface {
		zeroDirect(size int64) (int64, error)
	}); ok {
		var err error
		if off, err = d.zeroDirect(size); err != nil {
			return err
		}
	}
	zeros := make([]byte, zeroStep)
	for off < size {
		n, err := f.WriteAt(zeros[:min(zeroStep, size-off)], off)
		if err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// PageBytes is the size of the pages in which systems cache files, most of them.
const PageBytes = 4 << 10

// WriteFileSynced makes a file that holds data, and syncs it. Its name is not
// durable yet.
func WriteFileSynced(fs FS, name string, data []byte) error {
	f, err := fs.Create(name)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// WriteFileAtomic makes name hold data, all or nothing, durably: temporary
// file, sync, rename, sync of the directory. dir is the directory of name.
func WriteFileAtomic(fs FS, dir, name string, data []byte) error {
	tmp := name + ".tmp"
	err := WriteFileSynced(fs, tmp, data)
	if err == nil {
		err = fs.Rename(tmp, name)
	}
	if err != nil {
		_ = fs.Remove(tmp)
		return err
	}
	return fs.SyncDir(dir)
}

// WriteTwice replaces two copies of a file in dir, durably. It writes and syncs
// both under temporary names before it renames the first: a full disk changes
// nothing.
func WriteTwice(fs FS, dir, first, second string, data []byte) (err error) {
	names := []string{first, second}
	defer func() {
		if err != nil {
			for _, name := range names {
				_ = fs.Remove(name + ".tmp") // may not be there
			}
		}
	}()
	for _, name := range names {
		if err := WriteFileSynced(fs, name+".tmp", data); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := fs.Rename(name+".tmp", name); err != nil {
			return err
		}
	}
	return fs.SyncDir(dir)
}
