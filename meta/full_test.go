package meta

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"tsdbd/internal/vfs/vfstest"
)

// A full disk refuses changes, changes nothing, and does not stick.
func TestFullDiskPasses(t *testing.T) {
	disk := vfstest.New()
	c, err := Open(disk, "/meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := c.Apply(CreateDatabase{Name: fmt.Sprint("db", i)}); err != nil {
			t.Fatal(err)
		}
	}
	disk.SetLimit(1) // nothing more fits
	for range 3 {
		if _, err := c.Apply(CreateDatabase{Name: "more"}); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("on a full disk: %v", err)
		}
	}
	if c.Err() != nil || c.Data().Database("more") != nil {
		t.Fatalf("afterwards: %v", c.Err())
	}
	again, err := Open(disk.Clone(), "/meta", Options{})
	if err != nil || len(again.Data().Databases) != 5 {
		t.Fatalf("opened on a full disk: %v", err)
	}
	disk.SetLimit(0)
	if _, err := c.Apply(CreateDatabase{Name: "more"}); err != nil {
		t.Fatalf("with space again: %v", err)
	}
	for _, name := range disk.Files() {
		if strings.HasSuffix(name, ".tmp") {
			t.Errorf("%s is left", name)
		}
	}
}

// The disk is full at every operation of a change in turn. What failed before
// the first rename leaves no trace; from there on the catalog is read-only.
func TestFullDiskAtEveryOperation(t *testing.T) {
	passed, stuck := 0, 0
	for n := 1; ; n++ {
		disk := vfstest.New()
		c, err := Open(disk, "/meta", Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Apply(CreateDatabase{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		start := disk.Ops()
		disk.SetHook(func(op vfstest.Op) error {
			if op.N-start == n {
				return &vfstest.ShortWrite{Bytes: op.Size / 2, Err: syscall.ENOSPC}
			}
			return nil
		})
		_, err = c.Apply(CreateDatabase{Name: "b"})
		disk.SetHook(nil)
		if err == nil {
			break
		}
		if c.Err() != nil {
			stuck++
			continue
		}
		passed++
		if again, err := Open(disk.Clone(), "/meta", Options{}); err != nil || len(again.Data().Databases) != 1 {
			t.Fatalf("operation %d: a refused change is there after a restart, %v", n, err)
		}
		if _, err := c.Apply(CreateDatabase{Name: "b"}); err != nil {
			t.Fatalf("operation %d: with space again: %v", n, err)
		}
		if again, err := Open(disk.Clone(), "/meta", Options{}); err != nil || len(again.Data().Databases) != 2 {
			t.Fatalf("operation %d: %v", n, err)
		}
	}
	if passed < 6 || stuck != 3 {
		t.Errorf("%d operations pass, %d stick", passed, stuck)
	}
}

// A drop finds room on a disk that takes nothing, by giving up the reserve.
func TestDropOnFullDisk(t *testing.T) {
	disk := vfstest.New()
	c, err := Open(disk, "/meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, err := c.Apply(CreateDatabase{Name: name}); err != nil {
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
	if _, err := c.Apply(CreateDatabase{Name: "c"}); !errors.Is(err, syscall.ENOSPC) || !full {
		t.Fatalf("a change that takes space: %v, the reserve is gone: %v", err, !full)
	}
	if _, err := c.Apply(DropDatabase{Name: "a"}); err != nil {
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
