//go:build unix

package vfs

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func openFile(name string, flag int) (*os.File, error) { return os.OpenFile(name, flag, 0o600) }

func rename(from, to string) error { return os.Rename(from, to) }
func remove(name string) error     { return os.Remove(name) }
func removeAll(name string) error  { return os.RemoveAll(name) }

func openDir(dir string) (openedDir, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func lock(f *os.File, exclusive bool) error {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// lockDir locks a directory, or returns nothing where that is not possible, as
// on NFS or without the right to read it.
func lockDir(dir string, exclusive bool) (*os.File, error) {
	d, err := os.Open(dir)
	if errors.Is(err, os.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	switch err := lock(d, exclusive); {
	case err == nil:
		return d, nil
	case errors.Is(err, ErrLocked):
		return nil, errors.Join(err, d.Close())
	}
	return nil, d.Close()
}

func free(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("statfs %s: %w", dir, err)
	}
	// FreeBSD counts below zero what is left to root alone.
	return uint64(max(int64(st.Bavail), 0)) * uint64(st.Bsize), nil
}

func mapFile(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(b []byte) error { return unix.Munmap(b) }

func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || isQuota(err) }

func isQuota(err error) bool { return errors.Is(err, unix.EDQUOT) }

func isReadOnly(err error) bool { return errors.Is(err, unix.EROFS) }
