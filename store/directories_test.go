package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"tsdbd/internal/identity"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/series"
	"tsdbd/shard/manifest"
	"tsdbd/store/layout"
	"tsdbd/store/ledger"
)

// stocked makes a store of databases a, b, ... with four points each in two
// shards, closes it and returns its files. flush says that all is in files.
func stocked(t *testing.T, databases int, flush bool) *vfstest.FS {
	t.Helper()
	fs := vfstest.New()
	opt := testOptions(fs)
	if !flush {
		opt.CloseFlush = -1
	}
	s := openTest(t, fs, opt)
	for i := range databases {
		name := string(rune('a' + i))
		s.create(name)
		s.must(s.write(name, fmt.Sprintf("m,h=%[1]s0 v=1 1\nm,h=%[1]s1 v=2 2\nm,h=%[1]s0 v=3 %[2]d\nm,h=%[1]s1 v=4 %[2]d", name, 2*week)))
	}
	s.must(s.Close())
	return fs
}

// contents returns the files under dir with what is in them.
func contents(fs *vfstest.FS, dir string) map[string]string {
	out := map[string]string{}
	for _, name := range fs.Files() {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			out[rest] = string(fs.Content(name))
		}
	}
	return out
}

// replace makes the files under one directory those of another.
func replace(t *testing.T, fs *vfstest.FS, dir string, files map[string]string) {
	t.Helper()
	if err := fs.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := fs.Put(path.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// refused checks that a database does not open and that all requests to it say
// why, and that /health does.
func (s *testStore) refusedFor(name string, why ...string) {
	s.t.Helper()
	_, rerr := readAll(s.Store, name, false)
	_, herr := s.Health()
	for what, err := range map[string]error{"write": s.write(name, "m v=1 1"), "read": rerr, "health": errors.New(herr)} {
		for _, w := range why {
			if err == nil || !strings.Contains(err.Error(), w) {
				s.t.Errorf("%s of %s: %v, want %q", what, name, err, w)
			}
		}
	}
	var temporary interface{ Temporary() bool }
	if !errors.As(rerr, &temporary) || !temporary.Temporary() {
		s.t.Errorf("%v is for good", rerr)
	}
}

// TestForeignCatalog puts the catalog of another server over a store's: the
// start refuses, and no file of a database changes.
func TestForeignCatalog(t *testing.T) {
	for _, flush := range []bool{true, false} {
		fs := stocked(t, 3, flush)
		other := vfstest.New()
		s := openTest(t, other, testOptions(other))
		for i := range 12 {
			s.create(fmt.Sprint(i))
			if i > 0 {
				s.must(s.Apply(context.Background(), meta.DropDatabase{Name: fmt.Sprint(i)}))
			}
		}
		s.must(s.Close())
		own := contents(fs, "/data/meta")
		replace(t, fs, "/data/meta", contents(other, "/data/meta"))
		before := contents(fs, "/data")
		if _, err := Open("/data", testOptions(fs)); !errors.Is(err, layout.ErrForeignCatalog) || !strings.Contains(err.Error(), "belongs to data directory") {
			t.Errorf("open: %v", err)
		}
		delete(before, "LOCK")
		after := contents(fs, "/data")
		delete(after, "LOCK")
		if !maps.Equal(before, after) {
			t.Errorf("files %v became %v", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
		}
		replace(t, fs, "/data/meta", own)
		s = openTest(t, fs, testOptions(fs))
		for _, name := range []string{"a", "b", "c"} {
			if n := len(s.read(name)); n != 4 {
				t.Errorf("%d points in %s with the right catalog", n, name)
			}
		}
		s.must(s.Close())
	}
}

// TestSwappedDatabases swaps the directories of two databases: both refuse with
// a reason, the third serves, no file changes, the log keeps what they need, and
// once the directories are right everything is there.
func TestSwappedDatabases(t *testing.T) {
	for _, flush := range []bool{true, false} {
		fs := stocked(t, 3, flush)
		first, second := contents(fs, "/data/db-1"), contents(fs, "/data/db-2")
		replace(t, fs, "/data/db-1", second)
		replace(t, fs, "/data/db-2", first)
		s := openTest(t, fs, testOptions(fs))
		s.refusedFor("a", "database a does not open", "/data/db-1/series/series.log", "database 2")
		_, err := readAll(s.Store, "b", false)
		if err == nil || !strings.Contains(err.Error(), "/data/db-2/series/series.log") {
			t.Errorf("b: %v", err)
		}
		s.must(s.write("c", "m v=5 5"))
		if n := len(s.read("c")); n != 5 {
			t.Errorf("%d points in c", n)
		}
		if _, err := s.Backup(context.Background(), nil); err == nil {
			t.Error("a backup without the databases that do not open")
		}
		s.flushAll(context.Background())
		s.must(s.log.(*ledger.Log).Rotate())
		s.trim()
		s.must(s.Close())
		if now := contents(fs, "/data/db-1"); !maps.Equal(now, second) {
			t.Errorf("flush %v: files of a refused database changed: %v, were %v", flush, slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(second)))
		}
		replace(t, fs, "/data/db-1", first)
		replace(t, fs, "/data/db-2", second)
		s = openTest(t, fs, testOptions(fs))
		for name, want := range map[string]int{"a": 4, "b": 4, "c": 5} {
			if n := len(s.read(name)); n != want {
				t.Errorf("flush %v: %d points in %s, want %d", flush, n, name, want)
			}
		}
		s.must(s.Close())
	}
}

// TestDropRefused drops a database that does not open: its directory has the
// files of another and is set aside.
func TestDropRefused(t *testing.T) {
	fs := stocked(t, 2, true)
	second := contents(fs, "/data/db-2")
	replace(t, fs, "/data/db-1", second)
	if err := fs.RemoveAll("/data/db-2"); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, fs, testOptions(fs))
	s.must(s.Apply(context.Background(), meta.DropDatabase{Name: "a"}))
	if have := contents(fs, "/data/quarantine/db-1"); !maps.Equal(have, second) {
		t.Errorf("in quarantine: %v", slices.Sorted(maps.Keys(have)))
	}
	if q := s.State().Quarantined; len(q) != 1 || q[0].Path != "/data/quarantine/db-1" {
		t.Errorf("quarantine %v", q)
	}
	s.create("a")
	s.must(s.write("a", "m v=1 1"))
	s.must(s.Close())
	s = openTest(t, fs, testOptions(fs))
	if n := len(s.read("a")); n != 1 {
		t.Errorf("%d points", n)
	}
	s.must(s.Close())
}

// TestUnnamedDirectories leaves directories that the catalog does not name and
// never dropped: they are set aside with all files, which /health tells.
func TestUnnamedDirectories(t *testing.T) {
	fs := stocked(t, 2, true)
	s := openTest(t, fs, testOptions(fs))
	s.must(s.Apply(context.Background(), meta.DropDatabase{Name: "a"}))
	s.must(s.Apply(context.Background(), meta.DropShard{ID: 4}))
	s.create("next") // the catalog forgets what is removed
	s.must(s.Close())
	if d := s.catalog.Data().Dropped; len(d.Databases)+len(d.Shards) != 0 {
		t.Fatalf("the catalog still has %+v", d)
	}
	database, shard := map[string]string{"x": "1", "shard-1/00000001.tsm": "2"}, map[string]string{"00000001.tsm": "3"}
	replace(t, fs, "/data/db-1", database)
	replace(t, fs, "/data/db-2/shard-4", shard)
	s = openTest(t, fs, testOptions(fs))
	if have := contents(fs, "/data/quarantine/db-1"); !maps.Equal(have, database) {
		t.Errorf("database in quarantine: %v", have)
	}
	if have := contents(fs, "/data/db-2/quarantine/shard-4"); !maps.Equal(have, shard) {
		t.Errorf("shard in quarantine: %v", have)
	}
	q := s.State().Quarantined
	if len(q) != 2 || !strings.Contains(q[0].Reason, "no record of a drop") {
		t.Errorf("quarantine %v", q)
	}
	if _, text := s.Health(); !strings.Contains(text, "2 files or directories are in quarantine") {
		t.Errorf("health %q", text)
	}
	if n := len(s.read("b")); n != 2 {
		t.Errorf("%d points in b", n)
	}
	for _, dir := range []string{"/data/quarantine", "/data/db-2/quarantine"} {
		if err := fs.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	s.checkQuarantine()
	if q := s.State().Quarantined; len(q) != 0 {
		t.Errorf("quarantine %v after it was cleared", q)
	}
	s.must(s.Close())
}

// TestStrayNames puts files and directories in the data directory whose numbers the catalog
// has not given: without data of this data directory they are set aside, and their numbers
// are not given. With such data the store does not open.
func TestStrayNames(t *testing.T) {
	foreign := contents(stocked(t, 1, true), "/data/db-1")
	for what, c := range map[string]struct {
		at    string
		files map[string]string // "": a file and no directory
		next  uint32            // number of the next database
	}{
		"a file":                            {"db-77", map[string]string{"": "junk"}, 78},
		"a directory of junk":               {"db-77", map[string]string{"series/series.log": "junk", "shard-1/MANIFEST": "junk", "x": "1"}, 78},
		"a database of another server":      {"db-77", foreign, 78},
		"a number that no server gives":     {"db-4294967295", map[string]string{"": "junk"}, 3},
		"a number beyond all":               {"db-99999999999", map[string]string{"": "junk"}, 3},
		"a file in a database":              {"db-1/shard-99", map[string]string{"": "junk"}, 3},
		"a shard of another data directory": {"db-1/shard-99", map[string]string{"MANIFEST": foreign["shard-1/MANIFEST"]}, 3},
	} {
		t.Run(what, func(t *testing.T) {
			fs := stocked(t, 2, true)
			put := map[string]string{}
			for name, text := range c.files {
				put[path.Join("/data", c.at, name)] = text
				if err := fs.Put(path.Join("/data", c.at, name), []byte(text)); err != nil {
					t.Fatal(err)
				}
			}
			opt := testOptions(fs)
			opt.CloseFlush = -1
			s := openTest(t, fs, opt)
			aside := path.Join("/data", path.Dir(c.at), "quarantine", path.Base(c.at))
			for name, text := range put {
				at := aside + strings.TrimPrefix(name, "/data/"+c.at)
				if got := fs.Content(at); string(got) != text || fs.Content(name) != nil {
					t.Errorf("%s is not in quarantine", name)
				}
			}
			if q := s.State().Quarantined; len(q) != 1 || q[0].Path != aside {
				t.Errorf("quarantine %v", q)
			}
			if _, text := s.Health(); !strings.Contains(text, aside) {
				t.Errorf("health %q", text)
			}
			s.create("next")
			s.must(s.write("next", "m v=1 1"))
			if got := s.Catalog().Database("next"); got.ID != c.next {
				t.Errorf("the next database has the number %d, want %d", got.ID, c.next)
			}
			for id := range s.Catalog().Database("next").Shards() {
				if strings.Contains(c.at, "shard-99") && id <= 99 {
					t.Errorf("the next shard has the number %d", id)
				}
			}
			for range 2 {
				for name, want := range map[string]int{"a": 4, "b": 4, "next": 1} {
					if n := len(s.read(name)); n != want {
						t.Errorf("%d points in %s, want %d", n, name, want)
					}
				}
				s.must(s.Close())
				s = openTest(t, fs, opt)
			}
			s.must(s.Close())
		})
	}
	for from, to := range map[string]string{"db-1": "db-77", "db-1/shard-1": "db-1/shard-99", "db-2/shard-3": "db-78/shard-3"} {
		fs := stocked(t, 2, true)
		replace(t, fs, "/data/"+to, contents(fs, "/data/"+from))
		before := contents(fs, "/data/"+to)
		if _, err := Open("/data", testOptions(fs)); !errors.Is(err, layout.ErrOlderCatalog) {
			t.Errorf("%s as %s: %v", from, to, err)
		}
		if after := contents(fs, "/data/"+to); !maps.Equal(before, after) {
			t.Errorf("%s as %s: files changed", from, to)
		}
	}
}

// TestDropIsFinished cuts the power at every operation of drops of all kinds. The
// next start finishes what the catalog has recorded: nothing is set aside, and
// no file is left of what was dropped.
func TestDropIsFinished(t *testing.T) {
	stock := stocked(t, 3, true)
	for n := 1; ; n++ {
		fs := stock.Clone()
		s := openTest(t, fs, testOptions(fs))
		start := fs.Ops()
		var cut *vfstest.FS
		r := newTestRand(t, uint64(n))
		fs.SetHook(func(op vfstest.Op) error {
			if op.N-start == n {
				cut = fs.Crash(r, 0.5)
			}
			return nil
		})
		s.must(s.Apply(context.Background(), meta.DropDatabase{Name: "a"}))
		s.must(s.Apply(context.Background(), meta.DropShard{ID: 3}))
		s.must(s.Apply(context.Background(), meta.DropShardGroup{Database: "b", RetentionPolicy: "autogen", ID: 4})) // retention's way
		s.must(s.Apply(context.Background(), meta.DropRetentionPolicy{Database: "c", Name: "autogen"}))
		fs.SetHook(nil)
		s.must(s.Close())
		if cut == nil {
			return
		}
		for range 2 {
			s = openTest(t, cut, testOptions(cut))
			data := s.Catalog()
			if q := s.State().Quarantined; len(q) != 0 {
				t.Fatalf("operation %d: quarantine %v", n, q)
			}
			for _, name := range cut.Files() {
				var id uint64
				if i := strings.Index(name, "/"+layout.ShardPrefix); i >= 0 {
					if _, err := fmt.Sscanf(name[i:], "/"+layout.ShardPrefix+"%d", &id); err != nil {
						t.Fatal(err)
					}
					if _, ok := data.Shard(id); !ok {
						t.Fatalf("operation %d: left of a dropped shard: %s", n, name)
					}
				}
			}
			s.create("next")
			if d := s.Catalog().Dropped; len(d.Databases)+len(d.Shards) != 0 {
				t.Fatalf("operation %d: the catalog still has %+v", n, d)
			}
			s.must(s.Close())
		}
	}
}

// TestDropIsDurable cuts the power after a start that has found a dropped shard's
// directory gone, though its removal was never synced: the catalog forgets the
// drop only when the directory cannot come back.
func TestDropIsDurable(t *testing.T) {
	fs := stocked(t, 1, true)
	s := openTest(t, fs, testOptions(fs))
	var failed atomic.Bool
	fs.SetHook(func(op vfstest.Op) error {
		if op.Kind == "syncdir" && op.Path == "/data/db-1" {
			failed.Store(true)
			return errors.New("input/output error")
		}
		return nil
	})
	// The loop that flushes may be the one that removes, and has the error then.
	if err := s.Apply(context.Background(), meta.DropShard{ID: 1}); err == nil && !failed.Load() {
		t.Fatal("the removal was synced")
	}
	s.must(s.Close())
	fs.SetHook(nil)
	s = openTest(t, fs, testOptions(fs))
	s.create("next")
	cut := fs.CrashLocked(newTestRand(t, 1), 0)
	s.must(s.Close())
	s = openTest(t, cut, testOptions(cut))
	if q := s.State().Quarantined; len(q) != 0 {
		t.Errorf("quarantine %v", q)
	}
	s.must(s.Close())
}

// TestDropOfAnother has a recorded drop meet a directory that somebody has
// replaced by another database's: it is not removed.
func TestDropOfAnother(t *testing.T) {
	fs := stocked(t, 2, true)
	s := openTest(t, fs, testOptions(fs))
	s.must(s.submit(meta.DropDatabase{Name: "a"})) // and no more: the files stay
	s.must(s.submit(meta.DropShard{ID: 4}))
	s.must(s.Close())
	database, shard := contents(fs, "/data/db-2"), contents(fs, "/data/db-2/shard-3")
	replace(t, fs, "/data/db-1", database)
	replace(t, fs, "/data/db-2/shard-4", shard)
	s = openTest(t, fs, testOptions(fs))
	if have := contents(fs, "/data/quarantine/db-1"); !maps.Equal(have, database) {
		t.Errorf("database in quarantine: %v", slices.Sorted(maps.Keys(have)))
	}
	if have := contents(fs, "/data/db-2/quarantine/shard-4"); !maps.Equal(have, shard) {
		t.Errorf("shard in quarantine: %v", slices.Sorted(maps.Keys(have)))
	}
	s.must(s.Close())
}

// TestForeignSeriesLog puts the series log of another database in place of
// one: that database is refused, also with entries left in the log, the other
// one serves, and with the right file everything is there.
func TestForeignSeriesLog(t *testing.T) {
	const name = "/data/db-1/series/" + series.LogName
	for _, flush := range []bool{true, false} {
		for _, conflict := range []bool{false, true} {
			fs := stocked(t, 2, flush)
			own, foreign := fs.Content(name), vfstest.New()
			put := func(to *vfstest.FS, b []byte) {
				if err := to.Put(name, b); err != nil {
					t.Fatal(err)
				}
			}
			put(foreign, fs.Content("/data/db-2/series/"+series.LogName))
			why := "database 2"
			if conflict {
				// One that says it is the database's, and is not.
				if flush {
					continue // its keys stand in TSM files; verify tells
				}
				made := stocked(t, 2, true)
				put(foreign, made.Content("/data/db-2/series/"+series.LogName))
				owner, err := series.ReadOwner(fs, "/data/db-1/series")
				if err != nil {
					t.Fatal(err)
				}
				if err := series.AdoptLog(foreign, "/data/db-1/series", owner); err != nil {
					t.Fatal(err)
				}
				why = "contradicts the log"
			}
			put(fs, foreign.Content(name))
			s := openTest(t, fs, testOptions(fs))
			s.refusedFor("a", "database a does not open", name, why)
			if n := len(s.read("b")); n != 4 {
				t.Errorf("%d points in b", n)
			}
			s.flushAll(context.Background())
			s.must(s.log.(*ledger.Log).Rotate())
			s.must(s.write("b", "m v=1 7"))
			s.flushAll(context.Background())
			s.trim()
			s.must(s.Close())
			if string(fs.Content(name)) != string(foreign.Content(name)) {
				t.Error("the foreign series log was changed")
			}
			put(fs, own)
			s = openTest(t, fs, testOptions(fs))
			if n := len(s.read("a")); n != 4 {
				t.Errorf("flush %v, conflict %v: %d points in a with the right file", flush, conflict, n)
			}
			s.must(s.Close())
		}
	}
}

// TestRefusedKeepsDelete refuses a database at a write of the log that comes
// after a delete: the log keeps the delete too, and with the right series log
// what was deleted stays so (W5).
func TestRefusedKeepsDelete(t *testing.T) {
	const name = "/data/db-1/series/" + series.LogName
	fs := stocked(t, 2, true)
	other := fs.Clone()
	s := openTest(t, other, testOptions(other))
	s.must(s.write("a", "m,h=other v=1 1"))
	s.must(s.Close())

	opt := testOptions(fs)
	opt.CloseFlush = -1
	s = openTest(t, fs, opt)
	s.must(s.write("b", "m v=1 7"))
	s.flushAll(context.Background()) // and the log has nothing else of a
	s.deleteAll("a")
	s.must(s.log.(*ledger.Log).Rotate())
	s.must(s.write("a", "m,h=new v=1 1"))
	s.must(s.Close())
	own := fs.Content(name)
	put := func(b []byte) {
		if err := fs.Put(name, b); err != nil {
			t.Fatal(err)
		}
	}
	put(other.Content(name))
	s = openTest(t, fs, testOptions(fs))
	s.refusedFor("a", "contradicts the log")
	for range 2 {
		s.must(s.write("b", "m v=1 7"))
		s.flushAll(context.Background())
		s.must(s.log.(*ledger.Log).Rotate())
	}
	s.trim()
	s.must(s.Close())
	put(own)
	s = openTest(t, fs, testOptions(fs))
	if n := len(s.read("a")); n != 1 {
		t.Errorf("%d points in a, want the one that was written after the delete", n)
	}
	s.must(s.Close())
}

// TestSwappedShards swaps the directories of two shards of a database: it is
// refused, and not a file changes.
func TestSwappedShards(t *testing.T) {
	fs := stocked(t, 2, true)
	first, second := contents(fs, "/data/db-1/shard-1"), contents(fs, "/data/db-1/shard-2")
	replace(t, fs, "/data/db-1/shard-1", second)
	replace(t, fs, "/data/db-1/shard-2", first)
	before := contents(fs, "/data/db-1")
	s := openTest(t, fs, testOptions(fs))
	s.refusedFor("a", "/data/db-1/shard-1/"+manifest.Name, "belongs to shard 2")
	if !errors.Is(s.mu.refused.Errors()[0], identity.ErrForeign) {
		t.Errorf("%v", s.mu.refused.Errors())
	}
	// Whoever asks for its shards must not take them for dropped ones.
	if _, _, err := s.OpenShard(1); !errors.Is(err, identity.ErrForeign) || errors.Is(err, meta.ErrShardNotFound) {
		t.Errorf("a shard of it: %v", err)
	}
	s.must(s.Close())
	if after := contents(fs, "/data/db-1"); !maps.Equal(before, after) {
		t.Errorf("files %v became %v", slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	}
}

func newTestRand(t *testing.T, n uint64) *rand.Rand {
	return rand.New(rand.NewPCG(testseed.Of(t), n))
}
