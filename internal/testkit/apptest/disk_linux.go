package apptest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// Disk is a small ext4 on a loop device, whose power a test can cut.
type Disk struct {
	Dir string // where it is mounted

	t     testing.TB
	image string
}

// NewDisk makes a disk and mounts it until the test ends. An error says why there can
// be none on this machine.
func NewDisk(t testing.TB, mib int) (*Disk, error) {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("a disk of its own needs root")
	}
	for _, tool := range []string{"mkfs.ext4", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is not installed", tool)
		}
	}
	d := &Disk{Dir: t.TempDir(), t: t, image: filepath.Join(t.TempDir(), "image")}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		return nil, err
	}
	if err := os.Truncate(d.image, int64(mib)<<20); err != nil {
		return nil, err
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", d.image).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	if err := d.mount(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = d.Release() // where a test has ended before it
		unmount(t, d.Dir)
	})
	return d, nil
}

func (d *Disk) mount() error {
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.Dir).CombinedOutput(); err != nil {
		return fmt.Errorf("no loop device can be mounted: %w: %s", err, out)
	}
	return nil
}

// Hang freezes the file system: everything that changes it waits until Release.
func (d *Disk) Hang() error { return d.control("freeze", 0xc0045877, 0) } // FIFREEZE

// Release ends Hang.
func (d *Disk) Release() error { return d.control("thaw", 0xc0045878, 0) } // FITHAW

// CutPower shuts the file system down at once: what was not synced is lost, and every
// later operation fails.
func (d *Disk) CutPower() error {
	const (
		shutdown   = 0x8004587d // EXT4_IOC_SHUTDOWN
		noLogFlush = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH
	)
	return d.control("shut down", shutdown, noLogFlush)
}

// control tells the file system to do something.
func (d *Disk) control(what string, request uintptr, flags uint32) error {
	f, err := os.Open(d.Dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(&flags))); e != 0 {
		return fmt.Errorf("%s the file system %s: %w", what, d.Dir, e)
	}
	return nil
}

// Restore mounts the disk again after CutPower, as after a start of the machine. No
// process may have a file of it open.
func (d *Disk) Restore() {
	d.t.Helper()
	unmount(d.t, d.Dir)
	if err := d.mount(); err != nil {
		d.t.Fatal(err)
	}
}

func unmount(t testing.TB, dir string) {
	err := syscall.Unmount(dir, 0)
	for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); err = syscall.Unmount(dir, 0) {
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		t.Errorf("unmount %s: %v", dir, err)
	}
}

// FillDisk writes a file until the disk is full.
func FillDisk(t testing.TB, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size >= 512; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if err := f.Sync(); err != nil {
		t.Logf("sync of the ballast: %v", err)
	}
}
