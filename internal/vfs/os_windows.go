package vfs

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// openFile lets others rename and remove the file while it is open, as on the
// other systems; os.OpenFile does not.
func openFile(name string, flag int) (*os.File, error) {
	access, create := uint32(windows.GENERIC_READ), uint32(windows.OPEN_EXISTING)
	if flag&os.O_RDWR != 0 {
		access |= windows.GENERIC_WRITE
	}
	switch {
	case flag&os.O_TRUNC != 0:
		create = windows.CREATE_ALWAYS
	case flag&os.O_CREATE != 0:
		create = windows.OPEN_ALWAYS
	}
	h, err := open(name, access, create, windows.FILE_ATTRIBUTE_NORMAL)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}

func open(name string, access, create, attributes uint32) (windows.Handle, error) {
	p, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return 0, err
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	var h windows.Handle
	err = retry(func() error {
		h, err = windows.CreateFile(p, access, share, nil, create, attributes, 0)
		return err
	})
	return h, err
}

// retry calls f again while another program, such as a virus scanner, has the
// file open, for about half a second.
func retry(f func() error) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := f()
		if err == nil || wait > 256*time.Millisecond ||
			!errors.Is(err, windows.ERROR_SHARING_VIOLATION) && !errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
			return err
		}
		time.Sleep(wait)
	}
}

// rename returns when the new name is on the disk. A file that this process has
// mapped cannot be replaced, so it is moved out of the way first, and removed
// once it is not mapped. A power cut between the two moves leaves the name to
// nobody: what is mapped and replaced must be something that can be made again,
// as the index of a series file is.
func rename(from, to string) error {
	f, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	t, err := windows.UTF16PtrFromString(to)
	if err == nil {
		err = move(f, t)
	}
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_USER_MAPPED_FILE) {
		moved, merr := moveMapped(to, func(aside string) error {
			a, err := windows.UTF16PtrFromString(aside)
			if err != nil {
				return err
			}
			return move(t, a)
		})
		if err = errors.Join(err, merr); moved {
			err = move(f, t)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func move(from, to *uint16) error {
	return retry(func() error {
		return windows.MoveFileEx(from, to, windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH)
	})
}

func remove(name string) error { return retry(func() error { return os.Remove(name) }) }

func removeAll(name string) error { return retry(func() error { return os.RemoveAll(name) }) }

// directory is an open directory. Its Sync flushes it where the file system can
// do that. Where it cannot, the order of its journal is what there is: a created
// name is durable with the first sync of the file, a renamed one when rename
// returns, a removed one with whatever the disk is told next.
type directory struct {
	handle windows.Handle
	name   string
}

func openDir(dir string) (openedDir, error) {
	h, err := open(dir, windows.GENERIC_READ|windows.GENERIC_WRITE, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS)
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) { // not for every user: it cannot be flushed then
		h, err = open(dir, windows.GENERIC_READ, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return directory{h, dir}, nil
}

// Sync flushes the directory, or does nothing if that cannot be.
func (d directory) Sync() error {
	err := windows.FlushFileBuffers(d.handle)
	for _, cannot := range []error{windows.ERROR_ACCESS_DENIED, windows.ERROR_INVALID_FUNCTION, windows.ERROR_NOT_SUPPORTED, windows.ERROR_INVALID_HANDLE} {
		if errors.Is(err, cannot) {
			return nil
		}
	}
	if err != nil {
		return &os.PathError{Op: "sync", Path: d.name, Err: err}
	}
	return nil
}

// Close closes the directory.
func (d directory) Close() error { return windows.CloseHandle(d.handle) }

// lock locks a byte that no file has: locks keep others from reading here.
func lock(f *os.File, exclusive bool) error {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

// lockDir locks nothing: an open file cannot be removed.
func lockDir(string, bool) (*os.File, error) { return nil, nil }

func free(dir string) (uint64, error) {
	p, err := windows.UTF16PtrFromString(dir)
	var n uint64
	if err == nil {
		err = windows.GetDiskFreeSpaceEx(p, &n, nil, nil)
	}
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return n, nil
}

func mapFile(f *os.File, size int) ([]byte, error) {
	length := uint64(size)
	h, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY, uint32(length>>32), uint32(length), nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(h) // the view holds the mapping
	at, err := windows.MapViewOfFile(h, windows.FILE_MAP_READ, 0, 0, uintptr(size))
	if err != nil {
		return nil, err
	}
	// The address is none of the garbage collector's memory.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), size), nil
}

func unmapFile(b []byte) error {
	return windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, syscall.ENOSPC) || isQuota(err)
}

func isQuota(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED) || errors.Is(err, syscall.EDQUOT)
}

func isReadOnly(err error) bool {
	return errors.Is(err, windows.ERROR_WRITE_PROTECT) || errors.Is(err, syscall.EROFS)
}

// moveMapped calls move with another name for a mapped file, if there is a
// mapping of it, and notes that name. The file is removed once it is not mapped.
func moveMapped(name string, move func(to string) error) (moved bool, err error) {
	mappings.Lock()
	defer mappings.Unlock()
	for at, m := range mappings.byAddress {
		if m.name != name || m.replaced {
			continue
		}
		m.name, m.replaced = name+".replaced", true
		if !moved {
			if err := move(m.name); err != nil {
				return false, err
			}
		}
		moved = true
		mappings.byAddress[at] = m
	}
	return moved, nil
}
