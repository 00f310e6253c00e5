package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/shard/manifest"
	"tsdbd/store/layout"
	"tsdbd/store/ledger"
	"tsdbd/wal"
)

// killedAtSync opens a store and runs f while no manifest's names are synced
// after it was renamed, then closes it without a flush: what a server leaves that
// is killed between the two.
func killedAtSync(t *testing.T, fs *vfstest.FS, f func(s *testStore)) {
	t.Helper()
	opt := testOptions(fs)
	opt.CloseFlush = -1
	s := openTest(t, fs, opt)
	renamed := false
	fs.SetHook(func(op vfstest.Op) error {
		renamed = renamed || op.Kind == "rename" && strings.Contains(op.Path, manifest.Name)
		if renamed && op.Kind == "syncdir" && strings.Contains(op.Path, "/"+layout.ShardPrefix) {
			return errors.New("killed")
		}
		return nil
	})
	f(s)
	s.must(s.Close())
	fs.SetHook(nil)
}

// TestNamesBeforeTrim kills a server in a flush, starts another one, which
// reads the manifest and trims the log, and then cuts the power: the start must
// have made the names durable that it relies on.
func TestNamesBeforeTrim(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("a")
	s.must(s.write("a", "m v=0 0"))
	s.must(s.Close())
	killedAtSync(t, fs, func(s *testStore) {
		s.must(s.write("a", "m v=1 1"))
		s.flushAll(context.Background())
	})
	s = openTest(t, fs, testOptions(fs))
	for i := range 2 {
		s.must(s.write("a", fmt.Sprintf("m v=2 %d", 2*week+int64(i))))
		s.flushAll(context.Background())
		s.must(s.log.(*ledger.Log).Rotate())
	}
	s.trim()
	cut := fs.CrashLocked(newTestRand(t, 1), 0)
	s.must(s.Close())
	s = openTest(t, cut, testOptions(cut))
	if n := len(s.read("a")); n != 4 {
		t.Errorf("%d points, want 4", n)
	}
	s.must(s.Close())
}

// TestNamesBeforeRemoval kills a server at the end of a merge, starts another
// one, which removes the files that were merged, and then cuts the power.
func TestNamesBeforeRemoval(t *testing.T) {
	for n := range uint64(40) {
		fs := vfstest.New()
		s := openTest(t, fs, testOptions(fs))
		s.create("a")
		for i := range 3 { // too few for a merge in the background
			s.must(s.write("a", fmt.Sprintf("m v=1 %d", i)))
			s.flushAll(context.Background())
		}
		s.must(s.Close())
		killedAtSync(t, fs, func(s *testStore) {
			if _, err := s.entries()[0].Compact(context.Background(), true); err == nil {
				t.Fatal("the merge was published")
			}
		})
		s = openTest(t, fs, testOptions(fs))
		cut := fs.CrashLocked(newTestRand(t, n), 0.5)
		s.must(s.Close())
		s = openTest(t, cut, testOptions(cut))
		if got, q := len(s.read("a")), s.State().Quarantined; got != 3 || len(q) != 0 {
			t.Fatalf("crash %d: %d points, want 3, quarantine %v", n, got, q)
		}
		s.must(s.Close())
	}
}

// TestNamesOfCatalog kills a server while it saves the catalog, starts another one,
// which finds the new catalog and trims the log, and then cuts the power.
func TestNamesOfCatalog(t *testing.T) {
	t.Run("record", func(t *testing.T) { testKilledSave(t, "sync", "/data/meta/catalog.0") })
	t.Run("whole", func(t *testing.T) { testKilledSave(t, "syncdir", "/data/meta") })
}

func testKilledSave(t *testing.T, kind, at string) {
	fs := stocked(t, 1, true)
	s := openTest(t, fs, testOptions(fs))
	killed := 0
	fs.SetHook(func(op vfstest.Op) error {
		if killed > 0 && strings.HasPrefix(op.Path, "/data/meta") || op.Kind == kind && op.Path == at {
			killed++
			return errors.New("killed")
		}
		return nil
	})
	if kind == "syncdir" {
		_ = s.catalog.Skip(0, 0) // writes whole copies
		killed = 0
	}
	s.create("new")
	_ = s.Close()
	if killed == 0 {
		t.Fatal("nothing was killed")
	}
	fs.SetHook(nil)
	s = openTest(t, fs, testOptions(fs))
	if s.Catalog().Database("new") == nil {
		t.Fatal("the start did not find the database")
	}
	s.must(s.write("new", "m v=1 1"))
	s.must(s.log.(*ledger.Log).Rotate())
	s.flushAll(context.Background())
	s.must(s.write("new", "m v=2 2"))
	if h, err := wal.ReadHead(fs, "/data/wal"); err != nil || h.After < s.Catalog().Applied {
		t.Fatalf("not trimmed: %+v, %v", h, err)
	}
	before := s.Catalog().Index
	cut := fs.CrashLocked(newTestRand(t, 1), 0)
	s.must(s.Close())
	s = openTest(t, cut, testOptions(cut))
	if after := s.Catalog().Index; after != before {
		t.Errorf("the catalog went back from %d to %d", before, after)
	}
	s.must(s.Close())
}
