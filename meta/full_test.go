package meta

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
)

// A Save on a full disk leaves the files as they are, and the next one passes.
func TestFullDiskPasses(t *testing.T) {
	disk := vfstest.New()
	c, err := Open(disk, "/meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := change(c, CreateDatabase{Name: fmt.Sprint("db", i)}); err != nil {
			t.Fatal(err)
		}
	}
	disk.SetLimit(1) // nothing more fits
	if _, err := change(c, CreateDatabase{Name: "more"}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("on a full disk: %v", err)
	}
	for range 3 {
		if err := c.Save(); !errors.Is(err, syscall.ENOSPC) || !errors.Is(c.Err(), syscall.ENOSPC) {
			t.Fatalf("on a full disk: %v, %v", err, c.Err())
		}
	}
	again, err := Open(disk.Clone(), "/meta", Options{})
	if err != nil || len(again.Data().Databases) != 5 {
		t.Fatalf("opened on a full disk: %v", err)
	}
	disk.SetLimit(0)
	if err := c.Save(); err != nil || c.Err() != nil {
		t.Fatalf("with space again: %v, %v", err, c.Err())
	}
	for _, name := range disk.Files() {
		if strings.HasSuffix(name, ".tmp") {
			t.Errorf("%s is left", name)
		}
	}
}

// Every operation of a Save fails in turn, on a full disk, without a free file
// descriptor, by a disk that is broken. A start behind it has the old catalog or
// the new one, and the next Save passes.
func TestFaultAtEveryOperation(t *testing.T) {
	for _, fault := range []error{syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE, syscall.EIO, syscall.EACCES} {
		t.Run(fault.Error(), func(t *testing.T) { testFaultAtEveryOperation(t, fault) })
	}
}

func testFaultAtEveryOperation(t *testing.T, fault error) {
	for n := 1; ; n++ {
		disk := vfstest.New()
		c, err := Open(disk, "/meta", Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := change(c, CreateDatabase{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		start, hit := disk.Ops(), false
		disk.SetHook(func(op vfstest.Op) error {
			if op.N-start == n {
				hit = true
				return &vfstest.ShortWrite{Bytes: op.Size / 2, Err: fault}
			}
			return nil
		})
		_, err = change(c, CreateDatabase{Name: "b"})
		disk.SetHook(nil)
		if !hit {
			if n < 9 {
				t.Fatalf("only %d operations seen", n)
			}
			return
		}
		if err == nil && !vfs.IsFull(fault) { // the reserve was given up
			t.Fatalf("operation %d: no error", n)
		}
		if again, err := Open(disk.Clone(), "/meta", Options{}); err != nil || again.Data().Database("a") == nil {
			t.Fatalf("operation %d: %v", n, err)
		}
		if err := c.Save(); err != nil {
			t.Fatalf("operation %d: the next save: %v", n, err)
		}
		if again, err := Open(disk.Clone(), "/meta", Options{}); err != nil || len(again.Data().Databases) != 2 {
			t.Fatalf("operation %d: %v", n, err)
		}
	}
}

// A Save finds room on a disk that takes nothing, by giving up the reserve.
func TestDropOnFullDisk(t *testing.T) {
	disk := vfstest.New()
	c, err := Open(disk, "/meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := change(c, CreateDatabase{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if len(disk.Content("/meta/reserve")) < reserveBytes {
		t.Fatal("no reserve")
	}
	// Full as long as the reserve is there.
	full := true
	disk.SetHook(func(op vfstest.Op) error {
		if op.Kind == "remove" && op.Path == "/meta/reserve" {
			full = false
		}
		if full && op.Kind == "write" {
			return &vfstest.ShortWrite{Err: syscall.ENOSPC}
		}
		return nil
	})
	if _, err := change(c, DropDatabase{Name: "a"}); err != nil {
		t.Fatalf("drop: %v", err)
	}
	disk.SetHook(nil)
	again, err := Open(disk.Clone(), "/meta", Options{})
	if err != nil || len(again.Data().Databases) != 1 {
		t.Fatalf("after a restart: %v", err)
	}
	if len(disk.Content("/meta/reserve")) < reserveBytes {
		t.Error("the reserve was not made again")
	}
}
