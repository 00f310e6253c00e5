package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
)

var errKilled = errors.New("killed")

// mortal is the file system of a process that is killed: from then on it changes
// nothing, and what it wrote stays in the page cache.
type mortal struct {
	*vfstest.FS
	dead *atomic.Bool
}

func (m mortal) alive() error {
	if m.dead.Load() {
		return errKilled
	}
	return nil
}

func (m mortal) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return mortalFile{f, m}, nil
}

func (m mortal) open(name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	if err := m.alive(); err != nil {
		return nil, err
	}
	return m.file(open(name))
}

func (m mortal) named(name string, change func(string) error) error {
	if err := m.alive(); err != nil {
		return err
	}
	return change(name)
}

func (m mortal) Create(name string) (vfs.File, error)        { return m.open(name, m.FS.Create) }
func (m mortal) OpenReadWrite(name string) (vfs.File, error) { return m.open(name, m.FS.OpenReadWrite) }
func (m mortal) Remove(name string) error                    { return m.named(name, m.FS.Remove) }
func (m mortal) RemoveAll(name string) error                 { return m.named(name, m.FS.RemoveAll) }
func (m mortal) MkdirAll(name string) error                  { return m.named(name, m.FS.MkdirAll) }
func (m mortal) SyncDir(name string) error                   { return m.named(name, m.FS.SyncDir) }
func (m mortal) Rename(from, to string) error {
	return m.named(from, func(string) error { return m.FS.Rename(from, to) })
}

type mortalFile struct {
	vfs.File
	mortal mortal
}

func (f mortalFile) Write(p []byte) (int, error) {
	if err := f.mortal.alive(); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f mortalFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.mortal.alive(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f mortalFile) Sync() error {
	if err := f.mortal.alive(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f mortalFile) SyncData() error { return f.Sync() }

// TestPowerCutAfterKill kills a server after each of its file operations and cuts
// the power again and again while the next one starts: what was only in the
// page cache when it was read may be gone then, what was made of it not. Another
// start has everything that was acknowledged and finds no damage.
func TestPowerCutAfterKill(t *testing.T) {
	for _, interval := range []time.Duration{0, time.Hour} {
		for n, killed := 1, true; killed; n += testseed.Stride() {
			killed = cutAfterKill(t, interval, n)
			if t.Failed() {
				return
			}
		}
	}
}

// cutAfterKill kills the server after n operations and reports whether it had that
// many.
func cutAfterKill(t *testing.T, interval time.Duration, n int) bool {
	fs := vfstest.New()
	var dead atomic.Bool
	fs.SetHook(func(op vfstest.Op) error {
		if op.N == n {
			dead.Store(true)
		}
		return nil
	})
	options := func(fs *vfstest.FS) Options {
		opt := testOptions(fs)
		opt.SyncInterval = interval
		return opt
	}
	opt := options(fs)
	opt.FS = mortal{fs, &dead}
	acked := map[string]bool{}
	if s, err := Open("/data", opt); err == nil {
		ts := &testStore{Store: s, t: t}
		apply := func(what string, cmd meta.Command) { acked[what] = s.Apply(context.Background(), cmd) == nil }
		write := func(what, db, line string) { acked[what] = ts.write(db, line) == nil }
		apply("make", meta.CreateDatabase{Name: "db"})
		write("old", "db", fmt.Sprintf("m v=1 1\nm v=2 %d", 9*week))
		apply("drop", meta.DropDatabase{Name: "db"})
		apply("again", meta.CreateDatabase{Name: "db"})
		write("new", "db", "m v=3 1")
		s.flushAll(context.Background())
		write("later", "db", fmt.Sprintf("m v=4 %d", 9*week))
		apply("other", meta.CreateDatabase{Name: "x"})
		write("x", "x", "m v=5 1")
		_ = s.Close()
	}
	killed := dead.Load()

	var cuts []*vfstest.FS
	var where []string
	r := newTestRand(t, uint64(n))
	fs.SetHook(func(op vfstest.Op) error {
		if op.N%4 == 0 {
			keep := []float64{0, 0.5}[op.N/4%2]
			cuts = append(cuts, fs.Crash(r, keep))
			where = append(where, fmt.Sprintf("interval %v, killed after operation %d, cut before %s %s, keep %v", interval, n, op.Kind, op.Path, keep))
		}
		return nil
	})
	s := openTest(t, fs, options(fs))
	fs.SetHook(nil)
	s.must(s.Close())
	for i, left := range cuts {
		s, err := Open("/data", options(left))
		if err != nil {
			t.Errorf("%s: %v", where[i], err)
			continue
		}
		if q := s.State().Quarantined; len(q) > 0 {
			t.Errorf("%s: %v", where[i], q)
		}
		if interval == 0 {
			checkAcked(t, s, acked, where[i])
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", where[i], err)
		}
	}
	return killed
}

// checkAcked checks that a store has what was acknowledged.
func checkAcked(t *testing.T, s *Store, acked map[string]bool, where string) {
	t.Helper()
	want := map[string]points{}
	add := func(db, what, key, value string) {
		if acked[what] {
			if want[db] == nil {
				want[db] = points{}
			}
			want[db][key] = value
		}
	}
	if !acked["drop"] {
		return // it may have taken place
	}
	add("db", "new", pointKey("m", 1, "v"), "3")
	add("db", "later", pointKey("m", int64(9*week), "v"), "4")
	add("x", "x", pointKey("m", 1, "v"), "5")
	for db, want := range want {
		got, err := readAll(s, db, false)
		if err != nil {
			t.Errorf("%s: %s: %v", where, db, err)
			continue
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s has %v, not %s %s", where, db, got, key, value)
			}
		}
		for key, value := range got {
			if value == "1" || value == "2" {
				t.Errorf("%s: %s has %s %s of the dropped database", where, db, key, value)
			}
		}
	}
}
