package meta

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
)

// The power fails before every change of the disk, with none, half or all of
// what was not synced kept: the catalog opens with everything acknowledged and
// at most the one change under way on top, also after a second crash during
// the repair.
func TestCrashAtEveryOperation(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 3))
	type crash struct {
		left         *vfstest.FS
		acknowledged int
		keep         float64
	}
	var crashes []crash
	disk := vfstest.New()
	acknowledged := 0
	cut := func(vfstest.Op) error {
		for _, keep := range []float64{0, 0.5, 1} {
			crashes = append(crashes, crash{disk.Crash(rnd, keep), acknowledged, keep})
		}
		return nil
	}
	// The server's own directory is the operator's.
	if err := errors.Join(disk.MkdirAll("/data"), disk.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	disk.SetHook(cut)
	c, err := Open(disk, "/data/meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		c.whole = c.whole || i == 4 // as if there were too many records
		if _, err := change(c, CreateDatabase{Name: fmt.Sprint("db", i)}); err != nil {
			t.Fatal(err)
		}
		acknowledged++
		_ = cut(vfstest.Op{})
	}
	check := func(left *vfstest.FS, want int, keep float64) int {
		c, err := Open(left, "/data/meta", Options{})
		if err != nil {
			t.Fatalf("%d acknowledged, %v kept: %v", want, keep, err)
		}
		n := len(c.Data().Databases)
		if n != want && n != want+1 {
			t.Fatalf("%d acknowledged, %v kept: %d databases", want, keep, n)
		}
		return n
	}
	second := 0
	for _, cr := range crashes {
		var again []*vfstest.FS
		cr.left.SetHook(func(vfstest.Op) error {
			again = append(again, cr.left.Crash(rnd, 0.5))
			return nil
		})
		n := check(cr.left, cr.acknowledged, cr.keep)
		cr.left.SetHook(nil)
		for _, left := range again {
			second++
			if m := check(left, cr.acknowledged, 0.5); m != n {
				t.Fatalf("%d databases after the first crash, %d after the second", n, m)
			}
		}
		check(cr.left, n, cr.keep) // opening twice gives the same
	}
	t.Logf("%d crashes, %d more during the repair", len(crashes), second)
	if len(crashes) < 100 || second < 50 {
		t.Errorf("only %d and %d crashes: the script misses the disk", len(crashes), second)
	}
}

// unsynced is a disk that says it synced names and did not.
type unsynced struct{ *vfstest.FS }

func (unsynced) SyncDir(string) error { return nil }

// TestCrashControl shows that the test above can fail: without the syncs of
// the directory a power failure must lose acknowledged changes.
func TestCrashControl(t *testing.T) {
	disk := vfstest.New()
	if err := errors.Join(disk.MkdirAll("/data/meta"), disk.SyncDir("/"), disk.SyncDir("/data")); err != nil {
		t.Fatal(err)
	}
	c, err := Open(unsynced{disk}, "/data/meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := change(c, CreateDatabase{Name: "db"}); err != nil {
		t.Fatal(err)
	}
	c, err = Open(disk.Crash(nil, 1), "/data/meta", Options{})
	if err != nil || len(c.Data().Databases) != 1 {
		t.Fatalf("%v, want one database without a power failure", err)
	}
	c, err = Open(disk.Crash(rand.New(rand.NewPCG(1, 1)), 0), "/data/meta", Options{})
	if err == nil && len(c.Data().Databases) > 0 {
		t.Error("nothing was lost")
	}
}

// A server is killed before each operation of a Save, another one starts, and the power fails
// while that saves its next change. What the start found stays: the log may have given it up.
func TestKillThenPowerCut(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 9))
	killed, cuts := 0, 0
	for done := false; !done; killed++ {
		disk := vfstest.New()
		c, err := Open(disk, "/meta", Options{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 { // the second is a record
			if _, err := change(c, CreateDatabase{Name: fmt.Sprint("db", i)}); err != nil {
				t.Fatal(err)
			}
		}
		left := killed
		disk.SetHook(func(vfstest.Op) error {
			if left--; left < 0 {
				panic("killed")
			}
			return nil
		})
		func() {
			defer func() { done = recover() == nil }()
			_, _ = change(c, CreateDatabase{Name: "db2"})
		}()
		disk.SetHook(nil)
		if c, err = Open(disk, "/meta", Options{}); err != nil || c.Unsaved() {
			t.Fatal(err)
		}
		found := len(c.Data().Databases)
		disk.SetHook(func(op vfstest.Op) error {
			for range 150 {
				cuts++
				again, err := Open(disk.Crash(rnd, 0.5), "/meta", Options{})
				if err != nil {
					t.Fatalf("killed at %d, power cut at %s of %s: %v", killed, op.Kind, op.Path, err)
				}
				if n := len(again.Data().Databases); n < found {
					t.Fatalf("killed at %d, power cut at %s of %s: %d databases of %d", killed, op.Kind, op.Path, n, found)
				}
			}
			return nil
		})
		if _, err := change(c, CreateUser{Name: "next", Hash: strings.Repeat("x", 3000)}); err != nil {
			t.Fatal(err)
		}
	}
	if killed < 5 || cuts < 3000 {
		t.Errorf("killed %d times, %d power cuts", killed, cuts)
	}
}
