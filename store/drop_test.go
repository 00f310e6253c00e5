package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/series"
	"tsdbd/shard/repair"
	"tsdbd/store/layout"
)

// TestDropStorm drops and makes databases, lets shards expire, deletes, reads,
// writes, flushes and merges at once. Nothing may panic, no shard may stay
// that the catalog lacks, and no goroutine.
func TestDropStorm(t *testing.T) {
	before := runtime.NumGoroutine()
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	loop := func(f func(i int)) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					f(i)
				}
			}
		})
	}
	allowed := func(err error) {
		var p *point.PartialWriteError
		if err != nil && !errors.Is(err, meta.ErrDatabaseNotFound) && !errors.Is(err, meta.ErrRetentionPolicyNotFound) && !errors.As(err, &p) {
			t.Error(err)
		}
	}
	for w := range 2 {
		ws := &testStore{Store: s.Store, t: t}
		loop(func(i int) {
			allowed(ws.write("db", fmt.Sprintf("m,h=a%d v=1 %d\nm,h=b v=2 %d", w, int64(i%5)*week, i)))
		})
	}
	loop(func(int) {
		_, err := readAll(s.Store, "db", false)
		allowed(err)
	})
	loop(func(int) {
		v, err := s.Partial().View("db", "", model.AllTime)
		if err == nil {
			time.Sleep(time.Millisecond)
			_, err = v.SeriesKey(1)
			v.Release()
			if errors.Is(err, series.ErrNotFound) && !errors.Is(err, binio.ErrCorrupt) {
				err = nil // the database is new and has no series yet
			}
		}
		allowed(err)
	})
	loop(func(int) {
		allowed(s.Delete(context.Background(), scan.DeleteRequest{Database: "db", Range: model.TimeRange{Min: 0, Max: week}}))
	})
	loop(func(int) {
		for _, e := range s.entries() {
			s.flush(context.Background(), e)
			_, err := e.Compact(context.Background(), true)
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
	loop(func(int) { // retention's way
		d := s.Catalog().Database("db")
		if d == nil {
			return
		}
		rp := d.RetentionPolicies[0]
		for _, g := range rp.ShardGroups {
			err := s.Apply(context.Background(), meta.DropShardGroup{Database: "db", RetentionPolicy: rp.Name, ID: g.ID})
			if !errors.Is(err, meta.ErrShardGroupNotFound) { // a drop of the database was faster
				allowed(err)
			}
		}
		time.Sleep(time.Millisecond)
	})
	loop(func(int) {
		time.Sleep(5 * time.Millisecond)
		allowed(s.Apply(context.Background(), meta.DropDatabase{Name: "db"}))
		allowed(s.Apply(context.Background(), meta.CreateDatabase{Name: "db"}))
	})
	time.Sleep(1500 * time.Millisecond)
	close(stop)
	wg.Wait()
	for _, e := range s.entries() {
		if _, ok := s.Catalog().Shard(e.ID()); !ok {
			t.Errorf("shard %d is open and not in the catalog", e.ID())
		}
	}
	sum := int64(0)
	for _, e := range s.entries() {
		sum += e.Bytes()
	}
	if n := s.memory.cached.Load(); n != sum {
		t.Errorf("caches counted at %d bytes, are %d", n, sum)
	}
	s.must(s.Close())
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%d goroutines left, %d before", runtime.NumGoroutine(), before)
			break
		}
	}
	for _, name := range fs.Files() {
		if strings.Contains(name, "/"+layout.DatabasePrefix) {
			d := s.Catalog().Database("db")
			if d == nil || !strings.Contains(name, fmt.Sprintf("/%s%d/", layout.DatabasePrefix, d.ID)) {
				t.Errorf("file of a dropped database left: %s", name)
			}
		}
	}
}

// TestDropWhileUsed drops a database that is in use. Keys are read until the last
// user is done. Nobody writes below the directory once it is removed, and nobody
// reports damage of files that are gone.
func TestDropWhileUsed(t *testing.T) {
	for name, use := range map[string]func(*Store, *database){
		"repair": func(s *Store, db *database) {
			err := error(binio.Corruptf(db.seriesLog(), 0, "damaged"))
			db.damage.Store(&err)
			if err := s.repairSeries(db, nil); err == nil {
				t.Error("repaired a dropped database")
			}
			_ = db.release()
		},
		"sync":      func(s *Store, db *database) { s.syncSeries(db) },
		"last view": func(_ *Store, db *database) { _ = db.release() },
	} {
		t.Run(name, func(t *testing.T) {
			fs, log := vfstest.New(), &strings.Builder{}
			opt := testOptions(fs)
			opt.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
			s := openTest(t, fs, opt)
			s.create("db")
			var lines strings.Builder
			for i := range 2000 { // so many that the series file would get an index
				fmt.Fprintf(&lines, "m,h=%d v=1 1\n", i)
			}
			s.must(s.write("db", lines.String()))
			v, err := s.Partial().View("db", "", model.AllTime)
			s.must(err)
			db, err := s.database("db")
			s.must(err)
			if !db.acquire() {
				t.Fatal("not acquired")
			}
			s.must(s.Apply(context.Background(), meta.DropDatabase{Name: "db"}))
			fs.SetHook(func(op vfstest.Op) error {
				if strings.HasPrefix(op.Path, db.dir+"/") {
					t.Errorf("%s of %s", op.Kind, op.Path)
				}
				return nil
			})
			if key, err := v.SeriesKey(7); err != nil || !strings.HasPrefix(key, "m,h=") {
				t.Errorf("key %q, %v", key, err)
			}
			v.Release()
			use(s.Store, db)
			<-db.closed
			if _, err := fs.Stat(db.dir); err == nil {
				t.Error("the directory is there again")
			}
			fs.SetHook(nil)
			s.must(s.Close())
			if log.Len() > 0 {
				t.Errorf("logged: %s", log)
			}
		})
	}
}

// TestSeriesNeverThere asks for series without a key: only one that had a key is
// damage.
func TestSeriesNeverThere(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	defer s.Close()
	s.create("db")
	v, err := s.Partial().View("db", "", model.AllTime)
	s.must(err)
	defer v.Release()
	db, err := s.database("db")
	s.must(err)
	if _, err := v.SeriesKey(1); !errors.Is(err, series.ErrNotFound) || errors.Is(err, binio.ErrCorrupt) || db.damage.Load() != nil {
		t.Errorf("an id that no series ever had: %v", err)
	}
	s.repairDamaged()
	if _, err := fs.Stat(db.dir + "/" + repair.QuarantineDir); err == nil {
		t.Error("a sound series file is in quarantine")
	}
	db.series.Reserve(2)
	if _, err := v.SeriesKey(1); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("a lost series: %v", err)
	}
}

// TestRemovalTriedAgain fails the removal of a dropped shard's directory; the
// shard is out of service all the same, and the next call removes it.
func TestRemovalTriedAgain(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	defer s.Close()
	s.create("db")
	s.must(s.write("db", fmt.Sprintf("m v=1 1\nm v=1 %d", 5*week)))
	failed := false
	fs.SetHook(func(op vfstest.Op) error {
		if op.Kind == "removeall" && !failed {
			failed = true
			return errors.New("input/output error")
		}
		return nil
	})
	s.must(s.Store.Apply(context.Background(), meta.DropRetentionPolicy{Database: "db", Name: "autogen"}))
	s.removals.Wait()
	if !failed {
		t.Error("no removal was tried")
	}
	if n := len(s.entries()); n != 0 {
		t.Errorf("%d shards in service", n)
	}
	s.must(s.removeDropped())
	for _, name := range fs.Files() {
		if inShard(name) {
			t.Errorf("left: %s", name)
		}
	}
}

// TestExpireUnused drops shard groups that were made ahead and never written to,
// one of them with a directory that a failed opening has left: the catalog does
// not keep a record of them.
func TestExpireUnused(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	defer s.Close()
	s.create("db")
	s.must(s.Apply(context.Background(), meta.CreateShardGroups{Database: "db", RetentionPolicy: "autogen", Times: []int64{1, 5 * week}}))
	s.must(fs.MkdirAll("/data/" + layout.ShardDir(1, 2)))
	for _, g := range s.Catalog().Databases[0].RetentionPolicies[0].ShardGroups {
		s.must(s.Apply(context.Background(), meta.DropShardGroup{Database: "db", RetentionPolicy: "autogen", ID: g.ID}))
	}
	s.create("next")
	if d := s.Catalog().Dropped; len(d.Shards) != 0 {
		t.Errorf("the catalog still has %+v", d)
	}
	if _, err := fs.Stat("/data/" + layout.ShardDir(1, 2)); err == nil {
		t.Error("the directory is still there")
	}
}

// TestCreateOnFullDisk makes a database while no file can be made; when there
// is space again the database must work without a restart.
func TestCreateOnFullDisk(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	defer s.Close()
	fs.SetHook(func(op vfstest.Op) error {
		if strings.Contains(op.Path, "/"+layout.DatabasePrefix) {
			return syscall.ENOSPC
		}
		return nil
	})
	if err := s.Apply(context.Background(), meta.CreateDatabase{Name: "db"}); err == nil {
		t.Error("made on a full disk")
	}
	fs.SetHook(nil)
	s.create("db")
	s.must(s.write("db", "m v=1 1"))
	if n := len(s.read("db")); n != 1 {
		t.Errorf("%d values", n)
	}
}

// TestChangesOnFullDisk refuses changes when hardly anything is free, but drops.
func TestChangesOnFullDisk(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	defer s.Close()
	s.create("db")
	s.must(s.write("db", "m v=1 1"))
	limit := int64(0)
	for _, name := range fs.Files() {
		limit += int64(len(fs.Content(name)))
	}
	fs.SetLimit(limit + changeBytes/2)
	if err := s.Apply(context.Background(), meta.CreateDatabase{Name: "more"}); !vfs.IsFull(err) {
		t.Errorf("create: %v", err)
	}
	if err := s.write("db", fmt.Sprintf("m v=1 %d", 5*week)); !vfs.IsFull(err) {
		t.Errorf("a write that needs a shard group: %v", err)
	}
	s.must(s.write("db", "m v=2 2"))
	s.must(s.Apply(context.Background(), meta.DropShard{ID: 1}))
	fs.SetLimit(0)
}

// TestStartOnFullDisk starts with a database whose directory cannot be made, for
// the disk is full: the others serve, and it can be dropped.
func TestStartOnFullDisk(t *testing.T) {
	for _, saved := range []bool{false, true} { // else only the log has it
		fs := vfstest.New()
		s := openTest(t, fs, testOptions(fs))
		s.create("db")
		s.must(s.write("db", "m v=1 1"))
		s.must(s.catalog.Save())
		fs.SetHook(func(op vfstest.Op) error {
			if !saved && path.Dir(op.Path) == "/data/meta" {
				return syscall.EIO
			}
			return nil
		})
		s.create("late")
		if saved {
			s.must(s.catalog.Save())
		}
		left := fs.CrashLocked(newTestRand(t, 1), 1)
		fs.SetHook(nil)
		_ = s.Close()
		if err := left.RemoveAll("/data/db-2"); err != nil {
			t.Fatal(err)
		}
		left.SetHook(func(op vfstest.Op) error {
			if strings.Contains(op.Path, "/db-2") && op.Kind != "removeall" {
				return syscall.ENOSPC
			}
			return nil
		})
		s = openTest(t, left, testOptions(left))
		if n := len(s.read("db")); n != 1 {
			t.Errorf("%d values", n)
		}
		if err := s.write("late", "m v=1 1"); !vfs.IsFull(err) {
			t.Errorf("write: %v", err)
		}
		s.must(s.Apply(context.Background(), meta.DropDatabase{Name: "late"}))
		left.SetHook(nil)
		s.must(s.Close())
	}
}

// TestReplayInBounds replays a log that is larger than the caches may be.
func TestReplayInBounds(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	const n = 40000
	for i := 0; i < n; i += 500 {
		var b strings.Builder
		for k := range 500 {
			fmt.Fprintf(&b, "m,h=a%d v=1 %d\n", k%7, int64(i+k)+int64(k%3)*week)
		}
		s.must(s.write("db", b.String()))
	}

	left := fs.CrashLocked(rand.New(rand.NewPCG(1, 1)), 1)
	_ = s.Close()
	opt := testOptions(left)
	opt.CacheBytes = 512 << 10
	again := openTest(t, left, opt)
	defer again.Close()
	if c := again.memory.cached.Load(); c > opt.CacheBytes {
		t.Errorf("caches hold %d bytes after replay, limit %d", c, opt.CacheBytes)
	}
	if got := len(again.read("db")); got != n {
		t.Errorf("%d values, want %d", got, n)
	}
}
