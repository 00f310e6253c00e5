package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/syntax"
	"tsdbd/store/ledger"
	"tsdbd/wal"
)

const ledgerPath = "/data/meta/" + ledger.Name

// losses returns what a SELECT of a database would be warned of.
func (s *testStore) losses(db string) (out []scan.Loss) {
	s.t.Helper()
	v, err := s.Partial().View(db, "", model.AllTime)
	if err != nil {
		s.t.Fatal(err)
	}
	defer v.Release()
	whole, err := s.View(db, "", model.AllTime)
	if lost := len(v.Losses()) > 0; errors.As(err, new(*scan.DamageError)) != lost || !lost && err != nil {
		s.t.Fatalf("losses %v, and a view of all: %v", v.Losses(), err)
	}
	if err == nil {
		whole.Release()
	}
	return v.Losses()
}

// trimmed makes a store of databases whose points are all in files and no longer
// in the log.
func trimmed(t *testing.T, databases int) *vfstest.FS {
	t.Helper()
	f := stocked(t, databases, true)
	s := openTest(t, f, testOptions(f))
	s.must(s.write("a", "m,h=late v=1 1"))
	s.flushAll(context.Background())
	s.must(s.log.(*ledger.Log).Rotate())
	s.must(s.write("a", "m,h=later v=1 1"))
	s.must(s.Close())
	return f
}

// TestMissingShard takes the directory of a flushed shard away, or its files:
// answers, /health and the log tell it, also after the next start and with new
// points beside, until the reason is taken away.
func TestMissingShard(t *testing.T) {
	for what, harm := range map[string]func(f *vfstest.FS) error{
		"removed": func(f *vfstest.FS) error { return f.RemoveAll("/data/db-2/shard-3") },
		"emptied": func(f *vfstest.FS) error {
			return errors.Join(f.RemoveAll("/data/db-2/shard-3"), f.MkdirAll("/data/db-2/shard-3"))
		},
	} {
		f := trimmed(t, 2)
		if err := harm(f); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			s := openTest(t, f, testOptions(f))
			l := s.losses("b")
			if len(l) != 1 || l[0].Shard != 3 || l[0].Deletes || !l[0].Gone {
				t.Errorf("%s: losses %+v", what, l)
			}
			if l := s.losses("a"); len(l) != 0 {
				t.Errorf("%s: losses of the other database %+v", what, l)
			}
			if _, text := s.Health(); !strings.Contains(text, "/data/db-2/shard-3/quarantine/MANIFEST") {
				t.Errorf("%s: health %q", what, text)
			}
			s.must(s.write("b", "m,h=b0 v=7 3"))
			s.must(s.Close())
		}
		if err := f.RemoveAll("/data/db-2/shard-3/quarantine"); err != nil {
			t.Fatal(err)
		}
		s := openTest(t, f, testOptions(f))
		if l := s.losses("b"); len(l) != 0 {
			t.Errorf("%s: losses %+v after the reason was taken away", what, l)
		}
		s.must(s.Close())
	}
}

// TestMissingDatabase takes a database's directory away, or all that is in it:
// the database does not open, the other one serves, nothing is made in its place,
// and when it is back everything is there.
func TestMissingDatabase(t *testing.T) {
	for what, dir := range map[string]bool{"removed": false, "emptied": true} {
		f := trimmed(t, 2)
		files := contents(f, "/data/db-2")
		if err := f.RemoveAll("/data/db-2"); err != nil {
			t.Fatal(err)
		}
		if dir {
			if err := f.MkdirAll("/data/db-2"); err != nil {
				t.Fatal(err)
			}
		}
		s := openTest(t, f, testOptions(f))
		s.refusedFor("b", "database b does not open", "/data/db-2 is missing or empty")
		if n := len(s.read("a")); n != 6 {
			t.Errorf("%s: %d points in a", what, n)
		}
		s.must(s.Close())
		if made := contents(f, "/data/db-2"); len(made) != 0 {
			t.Errorf("%s: made %v", what, slices.Sorted(maps.Keys(made)))
		}
		replace(t, f, "/data/db-2", files)
		s = openTest(t, f, testOptions(f))
		if n := len(s.read("b")); n != 4 || len(s.losses("b")) != 0 {
			t.Errorf("%s: %d points, losses %v", what, n, s.losses("b"))
		}
		s.must(s.Close())
	}
}

// TestNoFalseLoss cuts the power at every operation of first flushes, of a trim
// of the log, of new shards and of a drop: no start tells a loss, and nothing is
// lost.
func TestNoFalseLoss(t *testing.T) {
	for n := 1; ; n += 3 {
		f := vfstest.New()
		opt := testOptions(f)
		opt.SegmentBytes = 4 << 10
		s := openTest(t, f, opt)
		s.create("a")
		start := f.Ops()
		var cut *vfstest.FS
		var acked atomic.Int64
		atCut := 0
		r := newTestRand(t, uint64(n))
		f.SetHook(func(op vfstest.Op) error {
			if op.N-start == n {
				cut, atCut = f.Crash(r, 0.5), int(acked.Load())
			}
			return nil
		})
		for i := range 6 {
			s.must(s.write("a", fmt.Sprintf("m,h=%d s=\"%s\" %d", i, strings.Repeat("x", 1500), int64(i%3)*week)))
			acked.Add(1)
			if i%2 == 1 {
				s.flushAll(context.Background())
			}
		}
		s.must(s.Close())
		f.SetHook(nil)
		if cut == nil {
			return
		}
		for range 2 {
			opt := testOptions(cut)
			s := openTest(t, cut, opt)
			if l := s.losses("a"); len(l) != 0 {
				t.Fatalf("operation %d: losses %+v", n, l)
			}
			if d := s.State(); d.FirstDamage() != "" {
				t.Fatalf("operation %d: damage %+v", n, d)
			}
			if have := len(s.read("a")); have < atCut {
				t.Fatalf("operation %d: %d points of %d", n, have, atCut)
			}
			s.must(s.Close())
		}
	}
}

// logFiles returns the segments of the log.
func logFiles(f *vfstest.FS) (out []string) {
	for _, name := range f.Files() {
		if strings.HasPrefix(name, "/data/wal/") && strings.HasSuffix(name, ".wal") {
			out = append(out, name)
		}
	}
	return out
}

// flipWrite damages the log's first write.
func flipWrite(t *testing.T, f *vfstest.FS) {
	t.Helper()
	name := logFiles(f)[0]
	at := bytes.Index(f.Content(name), []byte("\x01m\x01\x01\x01v")) // its layout
	if err := f.Flip(name, int64(at), 1); err != nil {
		t.Fatal(err)
	}
}

// TestLostLogEnd removes, cuts and empties the newest segment while entries are
// in no file: answers and /health tell it, also after the next start. The same
// with everything in files is no loss.
func TestLostLogEnd(t *testing.T) {
	harms := map[string]func(f *vfstest.FS, name string) error{
		"removed": func(f *vfstest.FS, name string) error { return f.Remove(name) },
		"the whole log": func(f *vfstest.FS, _ string) error {
			return f.RemoveAll("/data/wal")
		},
		"cut": func(f *vfstest.FS, name string) error { return f.Truncate(name, 300) },
		"zeros": func(f *vfstest.FS, name string) error {
			b := f.Content(name)
			clear(b[100:])
			return f.Put(name, b)
		},
		"another segment": func(f *vfstest.FS, name string) error {
			other := stocked(t, 1, false)
			return f.Put(name, other.Content(logFiles(other)[0]))
		},
	}
	for what, harm := range harms {
		for _, flushed := range []bool{false, true} {
			f := trimmed(t, 1)
			opt := testOptions(f)
			if !flushed {
				opt.CloseFlush = -1
			}
			s := openTest(t, f, opt)
			for i := range 5 {
				s.must(s.write("a", fmt.Sprintf("m,h=new%d v=1 1", i)))
			}
			s.must(s.Close())
			names := logFiles(f)
			if err := harm(f, names[len(names)-1]); err != nil {
				t.Fatal(err)
			}
			for start := range 2 {
				s := openTest(t, f, testOptions(f))
				l := s.losses("a")
				_, health := s.Health()
				// A segment that is cut may have been sealed behind its entries.
				if told := len(l) != 0 && l[0].Shard == 0; told == flushed && !(flushed && what == "cut") {
					t.Errorf("%s, flushed %v, start %d: losses %+v, health %q", what, flushed, start, l, health)
				}
				if start == 0 && !strings.Contains(health, "the log was found damaged at start") {
					t.Errorf("%s, flushed %v: health %q", what, flushed, health)
				}
				if flushed && len(s.read("a")) != 11 {
					t.Errorf("%s: %d points", what, len(s.read("a")))
				}
				s.must(s.Close())
			}
			if err := f.RemoveAll("/data/wal/quarantine"); err != nil {
				t.Fatal(err)
			}
			s = openTest(t, f, testOptions(f))
			s.must(s.write("a", "m,h=next v=1 1"))
			s.must(s.Close())
			s = openTest(t, f, testOptions(f))
			if l := s.losses("a"); len(l) != 0 {
				t.Errorf("%s, flushed %v: losses %+v after they were cleared", what, flushed, l)
			}
			s.must(s.Close())
		}
	}
}

// TestCoveredLogDamage flips a bit in an entry that every shard has in files:
// no answer tells it, /health does. The same in an entry that none has is told.
func TestCoveredLogDamage(t *testing.T) {
	for _, flush := range []bool{true, false} {
		f := stocked(t, 2, flush)
		name := logFiles(f)[0]
		flipWrite(t, f)
		s := openTest(t, f, testOptions(f))
		l := s.losses("b")
		_, health := s.Health()
		if (len(l) == 0) != flush || !strings.Contains(health, path.Base(name)) || strings.Contains(health, "nothing is lost") != flush {
			t.Errorf("flush %v: losses %+v, health %q", flush, l, health)
		}
		s.must(s.Close())
	}
}

// TestLedgerWrittenAgain damages the ledger, starts, cuts the power, and takes the directory of
// a shard away: the start in between has noted what there was.
func TestLedgerWrittenAgain(t *testing.T) {
	for what, harm := range map[string]func(f *vfstest.FS) error{
		"lost":            func(f *vfstest.FS) error { return f.Remove(ledgerPath) },
		"header":          func(f *vfstest.FS) error { return f.Flip(ledgerPath, 3, 1) },
		"a flipped shard": func(f *vfstest.FS) error { return f.Flip(ledgerPath, 32+2*40+20, 1) },
		"without its end": func(f *vfstest.FS) error { return f.Put(ledgerPath, f.Content(ledgerPath)[:32+40+7]) },
		"zeros":           func(f *vfstest.FS) error { return f.Put(ledgerPath, make([]byte, len(f.Content(ledgerPath)))) },
		"of another": func(f *vfstest.FS) error {
			return f.Put(ledgerPath, stocked(t, 1, true).Content(ledgerPath))
		},
	} {
		f := trimmed(t, 2)
		if err := harm(f); err != nil {
			t.Fatal(err)
		}
		s := openTest(t, f, testOptions(f))
		cut := f.CrashLocked(newTestRand(t, 1), 0)
		s.must(s.Close())
		l, whole, err := ledger.Read(cut, "/data")
		if err != nil || !whole || len(l.Shards) != 4 || l.IDs[2].Next == 0 {
			t.Errorf("%s: the ledger is %+v, %t, %v", what, l, whole, err)
		}
		if err := cut.RemoveAll("/data/db-2/shard-3"); err != nil {
			t.Fatal(err)
		}
		s = openTest(t, cut, testOptions(cut))
		if l := s.losses("b"); len(l) != 1 || l[0].Shard != 3 || !l[0].Gone {
			t.Errorf("%s: losses %+v", what, l)
		}
		s.must(s.Close())
	}
}

// TestForeignLedger begins a new ledger when the old one is another directory's,
// and does not believe it.
func TestForeignLedger(t *testing.T) {
	f, other := stocked(t, 1, true), stocked(t, 3, true)
	if err := f.Put(ledgerPath, other.Content(ledgerPath)); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, f, testOptions(f))
	if l := s.losses("a"); len(l) != 0 {
		t.Errorf("losses %+v", l)
	}
	s.create("b")
	s.must(s.Apply(context.Background(), meta.DropDatabase{Name: "b"}))
	s.must(s.write("a", "m v=1 1"))
	s.must(s.Close())
	if f.Content(ledgerPath+".foreign") == nil {
		t.Errorf("files %v", f.Files())
	}
	l, whole, err := ledger.Read(f, "/data")
	if err != nil || !whole || l.Lineage != s.Catalog().Lineage || l.Log.Sequence == 0 {
		t.Errorf("%+v, %v, %v", l, whole, err)
	}
}

// TestLedgerBeforeTrim cuts the power after the log was trimmed: from then on
// only the files of a shard have its points, and their loss must be told.
func TestLedgerBeforeTrim(t *testing.T) {
	f := vfstest.New()
	s := openTest(t, f, testOptions(f))
	s.create("a")
	s.must(s.write("a", fmt.Sprintf("m v=1 1\nm v=2 %d", 2*week)))
	s.must(s.log.(*ledger.Log).Rotate())
	s.must(s.write("a", fmt.Sprintf("m v=3 %d", 2*week+1)))
	s.flushAll(context.Background()) // which trims
	if h, err := wal.ReadHead(f, "/data/wal"); err != nil || h.After == 0 {
		t.Fatalf("not trimmed: %+v, %v", h, err)
	}
	cut := f.CrashLocked(newTestRand(t, 1), 0)
	s.must(s.Close())
	if err := cut.RemoveAll("/data/db-1/shard-1"); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, cut, testOptions(cut))
	if l := s.losses("a"); len(l) != 1 || l[0].Shard != 1 {
		t.Errorf("losses %+v", l)
	}
	if n := len(s.read("a")); n != 2 {
		t.Errorf("%d points of the other shard, want 2", n)
	}
	s.must(s.Close())
}

// TestFailedStartKeepsLedger fails every read of the log at a start once. Such a
// start has not seen the whole log: what the ledger says of it must stay, or the
// next start takes a damaged entry for one that is in files.
func TestFailedStartKeepsLedger(t *testing.T) {
	f := vfstest.New()
	opt := testOptions(f)
	opt.CloseFlush = -1
	s := openTest(t, f, opt)
	s.create("a")
	s.must(s.write("a", "m v=1 1"))
	s.must(s.write("a", fmt.Sprintf("m v=2 %d", 2*week)))
	for _, e := range s.entries() {
		if e.ID() == 2 { // the later entry is in files, the earlier one is not
			s.flush(context.Background(), e)
		}
	}
	s.must(s.Close())
	before, _, err := ledger.Read(f, "/data")
	if err != nil || before.Log.Covered != 2 || before.Log.Sequence != 5 {
		t.Fatalf("%+v, %v", before, err)
	}
	for n := 1; ; n++ {
		if n == 100 {
			t.Fatal("no start succeeds")
		}
		left := n
		f.SetReadHook(func(_, name string) error {
			if strings.HasSuffix(name, ".wal") {
				if left--; left == 0 {
					return errors.New("input/output error")
				}
			}
			return nil
		})
		s, err := Open("/data", opt)
		f.SetReadHook(nil)
		if err == nil {
			if n < 3 {
				t.Errorf("only %d reads of the log failed", n-1)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			break
		}
		if after, _, err := ledger.Read(f, "/data"); err != nil || after.Log != before.Log {
			t.Fatalf("read %d: the ledger says %+v of the log, %v, before %+v", n, after.Log, err, before.Log)
		}
	}
	flipWrite(t, f)
	s = openTest(t, f, opt)
	if l := s.losses("a"); len(l) == 0 {
		t.Error("a damaged entry that is in no file is no loss")
	}
	s.must(s.Close())
}

// older returns a directory of the databases a and b, a copy of it, and what it became
// later: points were written to and deleted from shard 1 of a, and series moved.
func older(t *testing.T) (then, now *vfstest.FS) {
	f := stocked(t, 2, true)
	then = f.Clone()
	s := openTest(t, f, testOptions(f))
	s.must(s.write("a", "m,h=new v=7 3"))
	s.flushAll(t.Context())
	q, err := syntax.Parse("ALTER MEASUREMENT m RENAME TO n", nil)
	s.must(err)
	_, err = s.Move(t.Context(), scan.MoveRequest{Database: "a", Change: q.Statements[0].(*syntax.Move).Change})
	s.must(err)
	s.must(s.Delete(t.Context(), scan.DeleteRequest{Database: "a", Range: model.TimeRange{Min: 1, Max: 1}}))
	s.flushAll(t.Context())
	for _, e := range s.entries() { // after the last flush
		_, err := e.Compact(t.Context(), true)
		s.must(err)
	}
	s.must(s.log.(*ledger.Log).Rotate())
	s.must(s.write("b", "m,h=late v=1 1"))
	s.must(s.Close())
	return then, f
}

// TestOlderDirectories puts older copies of directories in place: answers and /health tell
// which shards lack what came since, also after the next start, until the reason is taken
// away. Where nothing is lost nothing is told.
func TestOlderDirectories(t *testing.T) {
	then, now := older(t)
	for what, c := range map[string]struct {
		dirs []string
		told string // shards of a
	}{
		"nothing":       {},
		"a shard":       {dirs: []string{"db-1/shard-1"}, told: "1"},
		"a database":    {dirs: []string{"db-1"}, told: "1 2"}, // both were moved
		"all but meta/": {dirs: []string{"db-1", "db-2", "wal"}, told: "1 2"},
	} {
		f := now.Clone()
		for _, dir := range c.dirs {
			replace(t, f, "/data/"+dir, contents(then, "/data/"+dir))
		}
		for start := range 2 {
			s := openTest(t, f, testOptions(f))
			var told []string
			for _, l := range s.losses("a") {
				told = append(told, fmt.Sprint(l.Shard))
				if !l.Older || l.Path != fmt.Sprintf("/data/db-1/shard-%d/quarantine/MANIFEST", l.Shard) {
					t.Errorf("%s: %+v", what, l)
				}
			}
			if got := strings.Join(told, " "); got != c.told {
				t.Errorf("%s, start %d: told %q", what, start, got)
			}
			told = nil
			for _, q := range s.State().Quarantined {
				told = append(told, q.Reason)
			}
			if text := strings.Join(told, "; "); c.told != "" && !strings.Contains(text, "the manifest of shard 1 is older than the ledger says") {
				t.Errorf("%s: in quarantine %q", what, text)
			}
			if _, text := s.Health(); c.told != "" && !strings.Contains(text, told[0]) {
				t.Errorf("%s: health %q", what, text)
			}
			s.must(s.Close())
		}
		for _, dir := range []string{"db-1/shard-1", "db-1/shard-2", "wal"} {
			if err := f.RemoveAll("/data/" + dir + "/quarantine"); err != nil {
				t.Fatal(err)
			}
		}
		s := openTest(t, f, testOptions(f))
		if l := s.losses("a"); len(l) != 0 {
			t.Errorf("%s: %+v after the reasons were taken away", what, l)
		}
		s.must(s.Close())
	}
	// With the right directory back after a start with the older one all is well.
	f := now.Clone()
	replace(t, f, "/data/db-1/shard-1", contents(then, "/data/db-1/shard-1"))
	s := openTest(t, f, testOptions(f))
	s.must(s.Close())
	replace(t, f, "/data/db-1/shard-1", contents(now, "/data/db-1/shard-1"))
	s = openTest(t, f, testOptions(f))
	if l := s.losses("a"); len(l) != 0 {
		t.Errorf("%+v with the right directory", l)
	}
	s.must(s.Close())
}

// TestOlderAfterMerge puts the files of before a merge in place: nothing is lost by that.
func TestOlderAfterMerge(t *testing.T) {
	f := stocked(t, 1, true)
	s := openTest(t, f, testOptions(f))
	s.must(s.write("a", "m,h=a0 v=9 9"))
	s.must(s.Close())
	then := f.Clone()
	for range 2 {
		s = openTest(t, f, testOptions(f))
		s.makeMoves()
		s.must(s.Close())
	}
	replace(t, f, "/data/db-1/shard-1", contents(then, "/data/db-1/shard-1"))
	s = openTest(t, f, testOptions(f))
	if l := s.losses("a"); len(l) != 0 || len(s.read("a")) != 5 {
		t.Errorf("losses %+v of %v", l, s.read("a"))
	}
	s.must(s.Close())
}

// TestOlderCrash cuts the power, or kills the server and cuts the power after the next
// start, at each file operation of writes, deletes, flushes, merges, trims and of files that
// come without the log. No start tells a loss where there is none; and where an older copy
// of the shard is put in place, all that was acknowledged is there or the loss is told.
func TestOlderCrash(t *testing.T) {
	for n := 1; ; n++ {
		for _, kill := range []bool{false, true} {
			if !olderCrash(t, n, kill) {
				return
			}
		}
	}
}

// olderCrash returns false if there is no n-th operation.
func olderCrash(t *testing.T, n int, kill bool) bool {
	f := vfstest.New()
	s := openTest(t, f, testOptions(f))
	s.create("db")
	s.must(s.write("db", "m,h=1 v=1 1"))
	s.flushAll(t.Context())
	then := contents(f, "/data/db-1/shard-1")
	want := points{pointKey("m,h=1", 1, "v"): "1"}
	states := []points{maps.Clone(want)} // after each step
	// Merges of the background call the hook too.
	var cut atomic.Pointer[vfstest.FS]
	var done, at atomic.Int64 // steps
	r, start := newTestRand(t, uint64(n)), f.Ops()
	f.SetHook(func(op vfstest.Op) error {
		if op.N-start == n {
			at.Store(done.Load())
			if cut.Store(f); !kill {
				cut.Store(f.Crash(r, 0.5))
			}
		}
		if kill && cut.Load() != nil {
			return errors.New("killed")
		}
		return nil
	})
	e := s.entries()[0]
	flush := func() error { s.flush(t.Context(), e); return nil }
	rotate := func() error { return s.log.(*ledger.Log).Rotate() }
	for _, step := range []func() error{
		func() error {
			want[pointKey("m,h=1", 2, "v")] = "2"
			return s.write("db", "m,h=1 v=2 2")
		},
		flush, rotate,
		func() error {
			delete(want, pointKey("m,h=1", 1, "v"))
			return s.Delete(t.Context(), scan.DeleteRequest{Database: "db", Range: model.TimeRange{Min: 1, Max: 1}})
		},
		flush,
		func() error { _, err := e.Compact(t.Context(), true); return err },
		func() error {
			maps.Copy(want, rowsOf(origin, 3, "a"))
			return s.buildRows(origin, 3, "a")
		},
		rotate,
		func() error {
			want[pointKey("m,h=1", 3, "v")] = "3"
			return s.write("db", "m,h=1 v=3 3")
		},
		flush,
		s.Close,
	} {
		err := step()
		states = append(states, maps.Clone(want))
		done.Add(1)
		if kill && cut.Load() != nil {
			_ = s.Close()
			break
		}
		s.must(err)
	}
	f.SetHook(nil)
	if cut.Load() == nil {
		return false
	}
	holds := func(what string, f *vfstest.FS, old bool) *testStore {
		s := openTest(t, f, testOptions(f))
		got, err := state(s.Store)
		s.must(err)
		told := slices.ContainsFunc(s.losses("db"), func(l scan.Loss) bool { return l.Shard != 0 })
		at := int(at.Load())
		next := min(at+1, len(states)-1)
		right := diff(got, states[at]) == "" || diff(got, states[next]) == ""
		if told && !old || !right && !told {
			t.Fatalf("operation %d, kill %v, %s: told %v, %v, want %v or %v", n, kill, what, told, got, states[at], states[next])
		}
		return s
	}
	again := holds("a start", cut.Load(), false)
	again.trim()
	left := cut.Load().Crash(r, 0.5)
	again.must(again.Close())
	for range 2 {
		again = holds("a power cut after it", left, false)
		again.must(again.Close())
	}
	replace(t, left, "/data/db-1/shard-1", then)
	for range 2 {
		again := holds("an older copy", left, true)
		again.must(again.Close())
	}
	return true
}
