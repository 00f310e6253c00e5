package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/store/ledger"
)

const seriesPath = "/data/db-1/series/series.log"

// harms are what happens to a series log, by name.
var harms = map[string]func(f *vfstest.FS, b []byte) error{
	"its end is cut": func(f *vfstest.FS, b []byte) error { return f.Put(seriesPath, b[:len(b)-30]) },
	"zeros":          func(f *vfstest.FS, b []byte) error { return f.Put(seriesPath, make([]byte, len(b))) },
	"gone":           func(f *vfstest.FS, _ []byte) error { return f.Remove(seriesPath) },
}

// jobs writes ten series, and drops the shard that alone names them after a step between.
func (s *testStore) jobs(between func()) {
	s.t.Helper()
	var lines strings.Builder
	for i := range 10 {
		fmt.Fprintf(&lines, "job,id=z%d v=%d %d\n", i, i, 5*week)
	}
	s.must(s.write("db", lines.String()))
	between()
	for id, at := range s.Catalog().Shards() {
		if at.Group.Start > week {
			s.must(s.Apply(context.Background(), meta.DropShard{ID: id}))
		}
	}
}

// given returns the id of a new series.
func (s *testStore) given(key string) uint64 {
	s.t.Helper()
	s.must(s.write("db", key+" v=1 1"))
	id, ok := s.mu.databases[1].series.Lookup(key)
	if !ok {
		s.t.Fatalf("%s has no id", key)
	}
	return uint64(id)
}

// TestIDsAfterDamage takes the series log from a store, or its end. The highest ids were
// those of a shard that was dropped, so that nothing else names them: they are not given
// to other series all the same, and the loss is told until somebody has seen to it.
func TestIDsAfterDamage(t *testing.T) {
	for what, harm := range harms {
		t.Run(what, func(t *testing.T) {
			f := vfstest.New()
			s := openTest(t, f, testOptions(f))
			s.create("db")
			s.must(s.write("db", "m,h=a v=1 1\nm,h=b v=1 1"))
			s.flushAll(context.Background())
			s.jobs(func() { s.flushAll(context.Background()) })
			s.must(s.log.(*ledger.Log).Rotate())
			s.must(s.write("db", "m,h=a v=2 2"))
			s.must(s.Close()) // the log is trimmed
			if err := harm(f, f.Content(seriesPath)); err != nil {
				t.Fatal(err)
			}
			for start := range 2 {
				s = openTest(t, f, testOptions(f))
				if _, text := s.Health(); !strings.Contains(text, "db-1/quarantine") {
					t.Errorf("start %d: health %q", start, text)
				}
				if n := s.Figures().SkippedIDs; (n > 0) != (start == 0) || n > 12 {
					t.Errorf("start %d: %d ids were skipped", start, n)
				}
				if id := s.given(fmt.Sprintf("new,start=%d", start)); id < 13 || id > 14 {
					t.Errorf("start %d: id %d is given, 12 were", start, id)
				}
				if n := len(s.read("db")); n != 3+start+1 {
					t.Errorf("start %d: %d points", start, n)
				}
				s.must(s.Close())
			}
			if n := len(contents(f, "/data/db-1/quarantine")); n != 2 {
				t.Errorf("%d files in quarantine, want the log and its reason", n)
			}
			if err := f.RemoveAll("/data/db-1/quarantine"); err != nil {
				t.Fatal(err)
			}
			s = openTest(t, f, testOptions(f))
			if ok, text := s.Health(); !ok || strings.Contains(text, "quarantine") {
				t.Errorf("health %q after the loss was seen to", text)
			}
			s.must(s.Close())
		})
	}
}

// TestIDsOfDroppedShards kills a follower that has saved the drop of a shard and not yet
// the series that only this shard named, nor their new names. They come again with the log: the follower
// leads and gives their keys the ids that the others know.
func TestIDsOfDroppedShards(t *testing.T) {
	for _, again := range []string{"job,id=z3", "task,id=z3", "other,id=z3"} {
		c := newCluster(t, 2, nil)
		a, b := c.members[0], c.members[1]
		c.elect(a, 0)
		a.store.create("db")
		c.must(a.store.write("db", "m,h=a v=1 1"))
		a.store.jobs(func() { a.store.statement("ALTER MEASUREMENT job RENAME TO task") })
		c.must(b.follow(allEntries))
		c.must(b.store.catalog.Save())
		b.fs = b.fs.CrashLocked(newTestRand(t, 1), 0)
		_ = b.store.Close()
		b.open()
		c.elect(b, 0)
		b.store.given(again)
		if err := a.follow(allEntries); err != nil {
			t.Errorf("%s: %v", again, err)
		}
		c.must(errors.Join(a.store.Close(), b.store.Close()))
	}
}
