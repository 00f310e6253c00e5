package store

import (
	"context"
	"errors"
	"math/rand/v2"
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
)

// TestDropInDoubt fails a drop so that only the next start tells whether it took
// place: no point may be acknowledged that the start drops.
func TestDropInDoubt(t *testing.T) {
	drops := map[string]meta.Command{
		"database": meta.DropDatabase{Name: "db"},
		"policy":   meta.DropRetentionPolicy{Database: "db", Name: "autogen"},
		"shard":    meta.DropShard{ID: 1},
	}
	for name, drop := range drops {
		t.Run(name, func(t *testing.T) {
			fs := vfstest.New()
			s := openTest(t, fs, testOptions(fs))
			s.create("db")
			s.create("other")
			s.must(s.write("db", "m v=1 1"))
			fs.SetHook(func(op vfstest.Op) error {
				if op.Kind == "syncdir" && op.Path == "/data/meta" {
					return syscall.EIO
				}
				return nil
			})
			if err := s.Apply(context.Background(), drop); err == nil {
				t.Fatal("the drop did not fail")
			}
			fs.SetHook(nil)
			acknowledged := s.write("db", "m v=2 2") == nil
			left := fs.CrashLocked(rand.New(rand.NewPCG(1, 1)), 1)
			_ = s.Close()
			again := openTest(t, left, testOptions(left))
			defer again.Close()
			if !acknowledged {
				return
			}
			if again.Catalog().Database("db") == nil {
				t.Error("a point was acknowledged, and its database is gone")
			} else if got := again.read("db"); got[pointKey("m", 2, "v")] != "2" {
				t.Errorf("a point was acknowledged and is gone: %v", got)
			}
		})
	}
}

// TestCreateInDoubt fails the making of a database in the same way: what there
// was goes on taking writes.
func TestCreateInDoubt(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	defer s.Close()
	s.create("db")
	s.must(s.write("db", "m v=1 1"))
	fs.SetHook(func(op vfstest.Op) error {
		if op.Kind == "syncdir" && op.Path == "/data/meta" {
			return syscall.EIO
		}
		return nil
	})
	if err := s.Apply(context.Background(), meta.CreateDatabase{Name: "new"}); err == nil {
		t.Fatal("the change did not fail")
	}
	s.must(s.write("db", "m v=2 2"))
}

// TestOlderCatalog starts with the catalog of an earlier day, as after a wrong
// copy: what came after it was not dropped and must not be removed.
func TestOlderCatalog(t *testing.T) {
	steps := map[string]func(s *testStore){
		"shard":    func(s *testStore) { s.must(s.write("db", "m v=2 9999999999999999")) },
		"database": func(s *testStore) { s.create("new"); s.must(s.write("new", "m v=2 1")) },
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			fs := vfstest.New()
			s := openTest(t, fs, testOptions(fs))
			s.create("db")
			s.must(s.write("db", "m v=1 1"))
			old := map[string][]byte{}
			for _, n := range meta.CopyNames() {
				old[n] = fs.Content("/data/meta/" + n)
			}
			step(s)
			s.must(s.Close())
			newer := map[string][]byte{}
			for n, b := range old {
				newer[n] = fs.Content("/data/meta/" + n)
				if err := fs.Put("/data/meta/"+n, b); err != nil {
					t.Fatal(err)
				}
			}
			before := fs.Files()
			if s, err := Open("/data", testOptions(fs)); !errors.Is(err, ErrOlderCatalog) {
				if err == nil {
					s.Close()
				}
				t.Errorf("open: %v, want %v", err, ErrOlderCatalog)
			}
			for _, f := range before {
				if fs.Content(f) == nil && path.Base(f) != "LOCK" {
					t.Errorf("removed: %s", f)
				}
			}
			for n, b := range newer {
				if err := fs.Put("/data/meta/"+n, b); err != nil {
					t.Fatal(err)
				}
			}
			again := openTest(t, fs, testOptions(fs))
			defer again.Close()
			if n := len(again.read("db")); name == "shard" && n != 2 {
				t.Errorf("%d values with the newer catalog, want 2", n)
			}
		})
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
			if err := s.Delete(ctx, request); err != nil {
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
