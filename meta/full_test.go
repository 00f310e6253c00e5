package meta

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"tsdbd/internal/testkit/testseed"
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
		for save, operations := range map[string]int{"record": 4, "whole": 8} {
			t.Run(save+": "+fault.Error(), func(t *testing.T) { testFaultAtEveryOperation(t, fault, save == "whole", operations) })
		}
	}
}

func testFaultAtEveryOperation(t *testing.T, fault error, whole bool, operations int) {
	for n := 1; ; n++ {
		disk := vfstest.New()
		c, err := Open(disk, "/meta", Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := change(c, CreateDatabase{Name: "a"}); err != nil {
			t.Fatal(err)
		}
		c.whole = whole
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
			if n <= operations {
				t.Fatalf("only %d operations seen", n)
			}
			return
		}
		if err == nil {
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

// reserve returns the length of the shorter file of the reserve.
func reserve(disk *vfstest.FS) int {
	return min(len(disk.Content("/meta/reserve.0")), len(disk.Content("/meta/reserve.1")))
}

// A drop is saved on a disk that takes nothing, in the reserve, though others take every
// byte that becomes free. A change that is no drop leaves the reserve alone.
func TestDropOnFullDisk(t *testing.T) {
	for name, inPlace := range map[string]bool{"in place": true, "never in place": false} {
		t.Run(name, func(t *testing.T) { testDropOnFullDisk(t, inPlace) })
	}
}

func testDropOnFullDisk(t *testing.T, inPlace bool) {
	disk := vfstest.New()
	c, err := Open(disk, "/meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if _, err := change(c, CreateDatabase{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if reserve(disk) < reserveBytes {
		t.Fatal("no reserve")
	}
	full := true // except for what is there
	disk.SetHook(func(op vfstest.Op) error {
		switch {
		case !inPlace && op.Kind == "remove" && strings.HasPrefix(op.Path, "/meta/reserve."):
			full = false
		case op.Kind != "write", !full, inPlace && strings.HasPrefix(op.Path, "/meta/reserve."):
		default:
			return &vfstest.ShortWrite{Err: syscall.ENOSPC}
		}
		return nil
	})
	if _, err := change(c, CreateDatabase{Name: "more"}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("create: %v", err)
	}
	if reserve(disk) < reserveBytes {
		t.Fatal("the reserve is gone, and nothing was dropped")
	}
	for _, name := range []string{"a", "b", "c"} {
		full = true
		if err := c.Apply(c.Data().Applied+1, &Change{DropDatabase{Name: name}, c.Data().counters()}); err != nil {
			t.Fatal(err)
		}
		if err := c.SaveDrop(); err != nil {
			t.Fatalf("drop of %s: %v", name, err)
		}
		again, err := Open(disk.Clone(), "/meta", Options{})
		if err != nil || again.Data().Database(name) != nil {
			t.Fatalf("after a restart: %v", err)
		}
		if !inPlace { // the files are gone
			break
		}
	}
	disk.SetHook(nil)
	if _, err := change(c, CreateDatabase{Name: "d"}); err != nil {
		t.Fatal(err)
	}
	if n := reserve(disk); n < reserveBytes || n > 2*reserveBytes {
		t.Errorf("a reserve of %d bytes was made again", n)
	}
}

// The power fails before every operation of two drops on a full disk, with none, half or
// all of what was not synced kept: the catalog opens and has what was acknowledged.
func TestCrashOfDropOnFullDisk(t *testing.T) {
	disk := vfstest.New()
	c, err := Open(disk, "/meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if _, err := change(c, CreateDatabase{Name: fmt.Sprint("db", i)}); err != nil {
			t.Fatal(err)
		}
	}
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 5))
	crashes := 0
	want := 4
	disk.SetHook(func(op vfstest.Op) error {
		for _, keep := range []float64{0, 0.5, 1} {
			again, err := Open(disk.Crash(rnd, keep), "/meta", Options{})
			if err != nil {
				t.Fatalf("%d databases, before %s of %s, %v kept: %v", want, op.Kind, op.Path, keep, err)
			}
			if n := len(again.Data().Databases); n != want && n != want-1 {
				t.Fatalf("%d databases, before %s of %s, %v kept: %d databases", want, op.Kind, op.Path, keep, n)
			}
			crashes++
		}
		if op.Kind == "write" && !strings.HasPrefix(op.Path, "/meta/reserve.") {
			return &vfstest.ShortWrite{Err: syscall.ENOSPC}
		}
		return nil
	})
	for want > 2 {
		if err := c.Apply(c.Data().Applied+1, &Change{DropDatabase{Name: fmt.Sprint("db", want-1)}, c.Data().counters()}); err != nil {
			t.Fatal(err)
		}
		if err := c.SaveDrop(); err != nil {
			t.Fatal(err)
		}
		want--
	}
	if crashes < 60 {
		t.Errorf("only %d crashes: the test misses the disk", crashes)
	}
}
