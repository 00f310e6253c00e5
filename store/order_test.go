package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/shard"
	"tsdbd/store/layout"
)

func (s *testStore) freeze(e *shardEntry) *shard.Snapshot {
	s.applying.Lock()
	defer s.applying.Unlock()
	return e.Freeze(s.applying.sequence)
}

func (s *testStore) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *testStore) deleteAll(db string) {
	s.t.Helper()
	s.must(s.Delete(context.Background(), scan.DeleteRequest{Database: db, Range: model.AllTime}))
}

// crashed opens what a power cut now leaves.
func crashed(t *testing.T, fs *vfstest.FS, s *testStore, keep float64) (*vfstest.FS, *testStore) {
	t.Helper()
	left := fs.CrashLocked(rand.New(rand.NewPCG(1, 2)), keep)
	_ = s.Close()
	return left, openTest(t, left, testOptions(left))
}

// TestFreedTypeSurvivesCrash frees a field's type by a delete, writes the
// field with another type while a manifest is written that covers the delete
// and not the write, and cuts the power: replay must find the type free.
func TestFreedTypeSurvivesCrash(t *testing.T) {
	steps := map[string]func(s *testStore, e *shardEntry){
		"flush": func(s *testStore, e *shardEntry) {
			s.deleteAll("db")
			snap := s.freeze(e)
			s.must(s.write("db", "m,h=a v=1i 1"))
			s.must(e.Flush(context.Background(), snap))
		},
		"merge": func(s *testStore, e *shardEntry) {
			s.must(s.write("db", "n,h=a v=1 1"))
			s.flush(context.Background(), e)
			s.must(s.Delete(context.Background(), scan.DeleteRequest{Database: "db", Range: model.AllTime, Measurement: func(m string) bool { return m == "m" }}))
			s.flush(context.Background(), e)
			s.must(s.write("db", "m,h=a v=1i 1"))
			for range 3 {
				_, err := e.Compact(context.Background(), true)
				s.must(err)
			}
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			fs := vfstest.New()
			s := openTest(t, fs, testOptions(fs))
			s.create("db")
			s.must(s.write("db", "m,h=a v=1 1"))
			e := s.entries()[0]
			s.flush(context.Background(), e)
			step(s, e)
			_, again := crashed(t, fs, s, 0)
			defer again.Close()
			if got := again.read("db")[pointKey("m,h=a", 1, "v")]; got != "1i" {
				t.Errorf("value %q, want 1i", got)
			}
		})
	}
}

// TestLostLogTail loses the log's end, as a crash in SyncInterval mode may,
// after a manifest was written that knows of a delete in it. Numbers given out
// after that must be above the delete's.
func TestLostLogTail(t *testing.T) {
	for _, merge := range []bool{false, true} {
		fs := vfstest.New()
		opt := testOptions(fs)
		opt.SyncInterval = time.Hour
		s := openTest(t, fs, opt)
		s.create("db")
		s.must(s.write("db", "m,h=a v=1 1\nm,h=b v=1 1"))
		e := s.entries()[0]
		snap := s.freeze(e)
		for range 5 {
			s.must(s.write("db", "m,h=b v=1 1"))
		}
		s.must(s.Delete(context.Background(), scan.DeleteRequest{Database: "db", Range: model.AllTime, Measurement: func(m string) bool { return m == "m" }}))
		s.must(e.Flush(context.Background(), snap))
		if merge {
			_, err := e.Compact(context.Background(), true)
			s.must(err)
		}
		left, again := crashed(t, fs, s, 0)
		if merge {
			// The delete must reach rows of a file that had a later one applied.
			again.must(again.write("db", "m,h=a v=2 2"))
			again.deleteAll("db")
		}
		again.must(again.write("db", "m,h=a v=3 3"))
		again.flush(context.Background(), again.entries()[0])
		if got := again.read("db"); got[pointKey("m,h=a", 3, "v")] != "3" {
			t.Errorf("merge %v: a write after the crash is gone: %v", merge, got)
		} else if merge && len(got) != 1 {
			t.Errorf("deleted rows are back: %v", got)
		}
		again.must(again.Close())
		_ = left
	}
}

// TestFailedFlushLeaksNothing fails a flush and a merge at every operation:
// the next success must leave no file behind that the manifest does not name.
func TestFailedFlushLeaksNothing(t *testing.T) {
	for n := 1; ; n++ {
		fs := vfstest.New()
		s := openTest(t, fs, testOptions(fs))
		s.create("db")
		s.must(s.write("db", "m,h=a v=1 1"))
		e := s.entries()[0]
		s.flush(context.Background(), e)
		s.must(s.write("db", "m,h=b v=1 1"))
		count, hit := 0, false
		fs.SetHook(func(op vfstest.Op) error {
			if !inShard(op.Path) && op.Kind != "write" || op.Kind == "remove" {
				// A failed sync of the series file is for good; a failed
				// removal waits for the next start.
				return nil
			}
			if count++; count == n {
				hit = true
				return errors.New("no space left on device")
			}
			return nil
		})
		s.flush(context.Background(), e)
		for range 3 {
			_, _ = e.Compact(context.Background(), true)
		}
		fs.SetHook(nil)
		s.flush(context.Background(), e)
		for range 3 {
			_, err := e.Compact(context.Background(), true)
			s.must(err)
		}
		files := 0
		for _, name := range fs.Files() {
			if inShard(name) {
				files++
			}
		}
		if files != 4 { // two copies of the manifest, one TSM, one TSI
			t.Errorf("fault at operation %d: files %v", n, fs.Files())
		}
		if got := s.read("db"); len(got) != 2 {
			t.Errorf("fault at operation %d: %v", n, got)
		}
		s.must(s.Close())
		if !hit {
			t.Logf("%d faults", n-1)
			return
		}
	}
}

func inShard(name string) bool { return strings.Contains(name, "/"+layout.ShardPrefix) }
