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

// Every operation of a change fails in turn, on a full disk, without a free file
// descriptor, by a disk that is broken. What failed before the first rename
// leaves no trace; from there on the catalog is read-only.
func TestFaultAtEveryOperation(t *testing.T) {
	for _, fault := range []error{syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE, syscall.EIO, syscall.EACCES} {
		t.Run(fault.Error(), func(t *testing.T) { testFaultAtEveryOperation(t, fault) })
	}
}

func testFaultAtEveryOperation(t *testing.T, fault error) {
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
				return &vfstest.ShortWrite{Bytes: op.Size / 2, Err: fault}
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
			t.Fatalf("operation %d: the next change: %v", n, err)
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

// TestNoFreeDescriptor: once the copies are replaced, a change needs no more file
// descriptors. A client that opens many connections takes the last ones.
func TestNoFreeDescriptor(t *testing.T) {
	disk := &exhausted{FS: vfstest.New(), left: 1 << 30}
	c, err := Open(disk, "/meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	refused := 0
	for n := 0; ; n++ {
		disk.left = n
		_, err := c.Apply(CreateDatabase{Name: "a"})
		disk.left = 1 << 30
		if c.Err() != nil {
			t.Fatalf("%d descriptors: read-only: %v", n, c.Err())
		}
		if err == nil {
			break
		}
		if refused++; !errors.Is(err, syscall.EMFILE) {
			t.Fatal(err)
		}
	}
	if refused != 2 {
		t.Errorf("%d changes lacked a descriptor, want 2: one for each copy", refused)
	}
	if _, err := c.Apply(CreateDatabase{Name: "b"}); err != nil {
		t.Error(err)
	}
}

// exhausted is a file system that opens left files more.
type exhausted struct {
	vfs.FS
	left int
}

func (e *exhausted) take() error {
	if e.left--; e.left < 0 {
		return syscall.EMFILE
	}
	return nil
}

func (e *exhausted) Create(name string) (vfs.File, error) {
	if err := e.take(); err != nil {
		return nil, err
	}
	return e.FS.Create(name)
}

func (e *exhausted) SyncDir(name string) error {
	if err := e.take(); err != nil {
		return err
	}
	return e.FS.SyncDir(name)
}

func (e *exhausted) OpenDir(name string) (vfs.Dir, error) {
	if err := e.take(); err != nil {
		return nil, err
	}
	return e.FS.OpenDir(name)
}
