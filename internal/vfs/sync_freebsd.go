package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

func syncData(f *os.File) error {
	if _, _, errno := unix.Syscall(unix.SYS_FDATASYNC, f.Fd(), 0, 0); errno != 0 {
		return os.NewSyscallError("fdatasync", errno)
	}
	return nil
}
