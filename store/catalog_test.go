package store

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/shard/manifest"
	"tsdbd/store/layout"
	"tsdbd/store/ledger"
)

// TestChangesWithoutCatalogFile fails every write of the catalog: the log has the
// changes, clients see them at once, and a start makes them again. A drop's files
// stay until the catalog is saved.
func TestChangesWithoutCatalogFile(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("a")
	s.create("b")
	s.must(s.write("a", "m v=1 1"))
	s.must(s.write("b", fmt.Sprintf("m v=1 1\nm v=1 %d", 5*week)))
	s.flushAll(context.Background())
	fs.SetHook(func(op vfstest.Op) error {
		if strings.HasPrefix(op.Path, "/data/meta/catalog.") {
			return syscall.EIO
		}
		return nil
	})
	s.create("c")
	s.must(s.write("c", "m v=1 1"))
	for _, cmd := range []meta.Command{meta.DropDatabase{Name: "a"}, meta.DropShard{ID: 2}} {
		if err := s.Apply(context.Background(), cmd); !errors.Is(err, syscall.EIO) {
			t.Errorf("%+v: %v", cmd, err)
		}
	}
	s.create("a") // the drop must not reach it when it is made again
	s.must(s.write("a", "m v=9 9"))
	if ok, message := s.Health(); !ok || !strings.Contains(message, "the catalog cannot be saved") {
		t.Errorf("health: %v %s", ok, message)
	}
	check := func(s *testStore) {
		t.Helper()
		if got := s.read("a"); len(got) != 1 || got[pointKey("m", 9, "v")] != "9" {
			t.Errorf("a: %v", got)
		}
		if b, c := s.read("b"), s.read("c"); len(b) != 1 || len(c) != 1 {
			t.Errorf("b: %v, c: %v", b, c)
		}
	}
	check(s)
	if fs.Content("/data/"+layout.ShardDir(1, 1)+"/"+manifest.Name) == nil {
		t.Error("files of a drop that is not saved are gone")
	}
	left := fs.CrashLocked(newTestRand(t, 1), 0)
	fs.SetHook(nil)
	s.must(s.removeDropped())
	check(s)
	s.must(s.Close())
	for _, fs := range []*vfstest.FS{left, fs} {
		again := openTest(t, fs, testOptions(fs))
		check(again)
		for _, dir := range []string{layout.ShardDir(1, 1), layout.ShardDir(2, 2)} {
			if names, _ := fs.List("/data/" + dir); len(names) > 0 {
				t.Errorf("%s has %v", dir, names)
			}
		}
		if q := again.State().Quarantined; len(q) != 0 {
			t.Errorf("quarantine %v", q)
		}
		again.must(again.Close())
	}
}

// TestLogOfChangesAlone fills the log with changes of the catalog and no write: it
// stays within its bound though no shard is ever flushed.
func TestLogOfChangesAlone(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.SegmentBytes, opt.LogBytes = 4<<10, 64<<10
	s := openTest(t, fs, opt)
	s.create("db")
	for i := range 400 {
		d := time.Duration(int64(2+i%2) * week)
		s.must(s.Apply(context.Background(), meta.AlterRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "autogen", Duration: &d}}))
	}
	s.shrinkLog()
	if n := s.log.Stats().DiskBytes; n > opt.LogBytes {
		t.Errorf("the log has %d bytes", n)
	}
	s.must(s.Close())
	again := openTest(t, fs, opt)
	if d := again.Catalog().Database("db").RetentionPolicies[0].Duration; int64(d) != 3*week {
		t.Errorf("duration %v", d)
	}
	again.must(again.Close())
}

// TestForeignDatabaseOfTheLog starts with a database that only the log names, and
// whose directory has the series of another data directory: it is refused and keeps
// what the log has of it, and the others open.
func TestForeignDatabaseOfTheLog(t *testing.T) {
	const log = "/data/db-2/series/series.log"
	made := func() (fs *vfstest.FS) {
		fs = vfstest.New()
		s := openTest(t, fs, testOptions(fs))
		s.create("a")
		s.must(s.write("a", "m v=1 1"))
		s.must(s.catalog.Save())
		fs.SetHook(func(op vfstest.Op) error {
			if strings.HasPrefix(op.Path, "/data/meta/catalog.") {
				return syscall.EIO
			}
			return nil
		})
		s.create("b")
		s.must(s.write("b", "m v=2 2"))
		left := fs.CrashLocked(newTestRand(t, 1), 0)
		fs.SetHook(nil)
		s.must(s.Close())
		return left
	}
	fs, other := made(), made()
	own := fs.Content(log)
	if err := fs.Put(log, other.Content(log)); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, fs, testOptions(fs))
	if got := s.read("a"); len(got) != 1 {
		t.Errorf("a: %v", got)
	}
	var refused *layout.RefusedError
	if err := s.write("b", "m v=3 3"); !errors.As(err, &refused) {
		t.Errorf("write to b: %v", err)
	}
	s.must(s.Close())
	if err := fs.Put(log, own); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, fs, testOptions(fs))
	if got := s.read("b"); len(got) != 1 || got[pointKey("m", 2, "v")] != "2" {
		t.Errorf("b with its own directory: %v", got)
	}
	s.must(s.Close())
}

// TestOlderCatalog starts with the catalog of an earlier day, as after a wrong
// copy. While the log has all changes since then it loses nothing by that. Once
// the log is trimmed the start is refused: what came after the catalog was not
// dropped and must not be removed.
func TestOlderCatalog(t *testing.T) {
	steps := map[string]func(s *testStore){
		"shard":    func(s *testStore) { s.must(s.write("db", "m v=2 9999999999999999")) },
		"database": func(s *testStore) { s.create("new"); s.must(s.write("new", "m v=2 1")) },
	}
	for name, step := range steps {
		for _, trimmed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, trimmed %v", name, trimmed), func(t *testing.T) {
				fs := vfstest.New()
				s := openTest(t, fs, testOptions(fs))
				s.create("db")
				s.must(s.write("db", "m v=1 1"))
				s.flushAll(context.Background())
				old := map[string][]byte{}
				for _, n := range meta.CopyNames() {
					old[n] = fs.Content("/data/meta/" + n)
				}
				step(s)
				if trimmed {
					s.must(s.log.(*ledger.Log).Rotate())
					s.must(s.write("db", "m v=1 1"))
					s.flushAll(context.Background())
				}
				s.must(s.Close())
				newer := map[string][]byte{}
				for n, b := range old {
					newer[n] = fs.Content("/data/meta/" + n)
					if err := fs.Put("/data/meta/"+n, b); err != nil {
						t.Fatal(err)
					}
				}
				before := fs.Files()
				again, err := Open("/data", testOptions(fs))
				if trimmed != errors.Is(err, layout.ErrOlderCatalog) {
					t.Fatalf("open: %v", err)
				}
				for _, f := range before {
					if fs.Content(f) == nil && path.Base(f) != "LOCK" {
						t.Errorf("removed: %s", f)
					}
				}
				if trimmed {
					for n, b := range newer {
						if err := fs.Put("/data/meta/"+n, b); err != nil {
							t.Fatal(err)
						}
					}
					again = openTest(t, fs, testOptions(fs)).Store
				}
				s = &testStore{Store: again, t: t}
				defer s.Close()
				if n := len(s.read("db")); name == "shard" && n != 2 {
					t.Errorf("%d values, want 2", n)
				}
				if name == "database" && len(s.read("new")) != 1 {
					t.Error("the new database lacks its point")
				}
			})
		}
	}
}

// watchedFS tells of each TSM file before it is made, and of each directory
// before it is removed.
type watchedFS struct {
	vfs.FS
	watch, removal atomic.Pointer[func()]
}

func (f *watchedFS) RemoveAll(name string) error {
	if w := f.removal.Load(); w != nil {
		(*w)()
	}
	return f.FS.RemoveAll(name)
}

func (f *watchedFS) Create(name string) (vfs.File, error) {
	if w := f.watch.Load(); w != nil && strings.HasSuffix(name, ".tsm") {
		(*w)()
	}
	return f.FS.Create(name)
}

// TestDropLetsWritersIn drops databases and shards whose files take long to
// remove: writers of others go on.
func TestDropLetsWritersIn(t *testing.T) {
	fs := &watchedFS{FS: vfstest.New()}
	opt := testOptions(nil)
	opt.FS = fs
	s := openTest(t, nil, opt)
	s.create("db")
	s.create("other")
	s.must(s.write("db", "m v=1 1\nm v=1 9999999999999999"))
	removals := 0
	removal := func() {
		removals++
		written := make(chan error, 1)
		go func() { written <- s.write("other", "m v=2 2") }()
		select {
		case err := <-written:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Error("a write waits for the removal of files")
		}
	}
	fs.removal.Store(&removal)
	s.must(s.Apply(context.Background(), meta.DropShard{ID: s.entries()[0].ID()}))
	s.must(s.Apply(context.Background(), meta.DropDatabase{Name: "db"}))
	if removals < 3 { // a shard, another, and what is left of the database
		t.Errorf("%d removals", removals)
	}
	s.must(s.Close())
}

// TestBackupBesideDrop drops a database while a backup flushes its shard, which fails: the
// backup is one of the others.
func TestBackupBesideDrop(t *testing.T) {
	disk := vfstest.New()
	fs := &watchedFS{FS: disk}
	opt := testOptions(nil)
	opt.FS = fs
	s := openTest(t, nil, opt)
	defer s.Close()
	s.create("kept")
	s.create("gone")
	s.must(s.write("kept", "m v=1 1"))
	s.flushAll(context.Background())
	s.must(s.write("gone", "m v=1 1"))
	flushes := 0
	watch := func() {
		flushes++
		dropped := make(chan error) // another client
		go func() { dropped <- s.Store.Apply(context.Background(), meta.DropDatabase{Name: "gone"}) }()
		s.must(<-dropped)
		disk.SetHook(func(op vfstest.Op) error {
			if op.Kind == "create" {
				return syscall.EIO
			}
			return nil
		})
	}
	fs.watch.Store(&watch)
	b, err := s.Backup(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	fs.watch.Store(nil)
	disk.SetHook(nil)
	if flushes != 1 || len(b.Shards) != 1 || len(b.Catalog.Databases) != 1 {
		t.Errorf("%d flushes, %d shards, %d databases", flushes, len(b.Shards), len(b.Catalog.Databases))
	}
}

// TestBackupBesideDeletes takes a backup while a delete comes with each of its
// flushes. In the end the deletes wait; writers go on.
func TestBackupBesideDeletes(t *testing.T) {
	fs := &watchedFS{FS: vfstest.New()}
	opt := testOptions(nil)
	opt.FS = fs
	s := openTest(t, nil, opt)
	defer s.Close()
	s.create("db")
	s.must(s.write("db", "m,h=a v=1 1\nm,h=b v=1 1"))
	ctx := context.Background()
	request := scan.DeleteRequest{Database: "db", Range: model.TimeRange{Min: 5, Max: 5}}
	flushes, deleted, written := 0, make(chan error, 1), make(chan error, backupAttempts)
	watch := func() {
		switch flushes++; {
		case flushes < backupAttempts:
			another := make(chan error)
			go func() { // with a row: the flush that follows writes a file
				another <- errors.Join(s.write("db", "m,h=d v=3 3"), s.Delete(ctx, request))
			}()
			if err := <-another; err != nil {
				t.Error(err)
			}
		case flushes == backupAttempts:
			go func() { deleted <- s.Delete(ctx, request) }()
			go func() { written <- s.write("db", "m,h=c v=2 2") }()
			select {
			case err := <-written:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				t.Error("a write waits for a backup's flush")
			}
			select {
			case <-deleted:
				t.Error("a delete did not wait for the backup's last attempt")
			default:
			}
		}
	}
	fs.watch.Store(&watch)
	b, err := s.Backup(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.Release()
	fs.watch.Store(nil)
	if flushes < backupAttempts {
		t.Errorf("%d flushes, want %d", flushes, backupAttempts)
	}
	s.must(<-deleted)
}
