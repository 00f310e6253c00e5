package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"tsdbd/exchange"
	"tsdbd/inspect"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/shard/manifest"
	"tsdbd/store/layout"
	"tsdbd/store/ledger"
)

// TestPlace restores into an empty directory, and opens the backup in place.
func TestPlace(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	s.apply(t, meta.CreateUser{Name: "u", Hash: "h", Admin: true})
	want := dump(t, s, exchange.Filter{})
	dir, data := t.TempDir(), t.TempDir()
	res := take(t, s, dir, exchange.Filter{})
	if res.Copied != res.Bytes || res.Bytes == 0 || res.Shards != 7 {
		t.Errorf("%+v", res)
	}
	r := OpenRepository(vfs.OS, dir)
	st, m, err := Open(t.Context(), r, RestoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "backup", dump(t, st, exchange.Filter{}), want)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if m.Sequence == 0 || m.Catalog.User("u") == nil {
		t.Errorf("sequence %d, users %v", m.Sequence, m.Catalog.Users)
	}
	if _, err := Place(context.Background(), r, data, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	report, err := inspect.Verify(context.Background(), data, inspect.VerifyOptions{})
	if err != nil || !report.Sound || len(report.Problems) > 0 {
		t.Errorf("restored directory: %+v %v", report, err)
	}
	if _, err := Place(context.Background(), r, data, RestoreOptions{}); err == nil {
		t.Error("restored over data")
	}
	known, whole, err := ledger.Read(vfs.OS, data)
	if err != nil || !whole || len(known.Shards) != 7 {
		t.Fatalf("ledger: %+v, %v", known, err)
	}
	for id, sh := range known.Shards {
		m, err := manifest.Read(vfs.OS, path.Join(data, layout.ShardDir(sh.Database, id)))
		if err != nil || m.Known() != sh.Known || sh.Edition == 0 {
			t.Errorf("the ledger knows %+v of shard %d, whose manifest is %+v, %v", sh, id, m, err)
		}
	}
	back := openDir(t, data)
	same(t, "restored", dump(t, back, exchange.Filter{}), want)
	if l := back.Catalog().Lineage; l == m.Catalog.Lineage {
		t.Errorf("the restored directory has the lineage %s of the one that was backed up", l)
	}
	if back.Catalog().User("u") == nil {
		t.Error("user is lost")
	}
	// The restored store goes on: new points win over old ones, ids go on.
	if err := writeLines(back, "d", "", fmt.Sprintf("cpu,host=h1 usage=43 %d\nnew,a=b v=1 5\n", 10*week+1)); err != nil {
		t.Fatal(err)
	}
	after := dump(t, back, exchange.Filter{})
	if len(after) != len(want)+1 || !slices.Contains(after, fmt.Sprintf("cpu,host=h1 usage=43 %d", 10*week+1)) {
		t.Errorf("%d points after a write, had %d", len(after), len(want))
	}
}

func TestPlaceUnderAnotherName(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	dir, data := t.TempDir(), t.TempDir()
	take(t, s, dir, exchange.Filter{})
	r := OpenRepository(vfs.OS, dir)
	opt := RestoreOptions{Filter: exchange.Filter{Database: "d", RetentionPolicy: "autogen"}, NewDatabase: "e", NewPolicy: "p"}
	if _, err := Place(context.Background(), r, data, opt); err != nil {
		t.Fatal(err)
	}
	back := openDir(t, data)
	if d := back.Catalog(); len(d.Databases) != 1 || d.Database("e") == nil || d.Database("e").DefaultRetentionPolicy != "p" {
		t.Errorf("%+v", d.Databases)
	}
	same(t, "renamed", dump(t, back, exchange.Filter{}), dump(t, s, opt.Filter))
}

// TestPlacesOfOthers takes no backup into a data directory, restores into no directory that has
// anything, and leaves nothing there.
func TestPlacesOfOthers(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	place := t.TempDir()
	take(t, s, place, exchange.Filter{})
	r := OpenRepository(vfs.OS, place)
	restored := t.TempDir()
	if _, err := Place(t.Context(), r, restored, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	entries := func(dir string) (names []string) {
		t.Helper()
		found, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			names = append(names, e.Name())
		}
		return names
	}
	refused := func(what, dir string, do func() error) {
		t.Helper()
		before := entries(dir)
		if err := do(); err == nil {
			t.Errorf("%s: no error", what)
		}
		if after := entries(dir); !slices.Equal(after, before) {
			t.Errorf("%s: %q are there, before %q", what, after, before)
		}
	}
	for _, dir := range []string{restored, s.dir} {
		other := OpenRepository(vfs.OS, dir)
		refused("a backup into a data directory", dir, func() error {
			_, err := Take(t.Context(), s.client, other, TakeOptions{})
			return err
		})
		refused("a prune of one", dir, func() error {
			_, _, err := other.Prune(t.Context(), 1)
			return err
		})
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "important"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, dir := range map[string]string{"a foreign directory": foreign, "the place of the backup": place, "data": restored} {
		refused("a restore into "+what, dir, func() error {
			_, err := Place(t.Context(), r, dir, RestoreOptions{})
			return err
		})
	}
}

// TestInterruptedRestore has a restore fail at each operation that changes files: its directory is
// empty, or known for one that is not whole.
func TestInterruptedRestore(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	whole := vfstest.New()
	if _, err := Take(t.Context(), s.client, OpenRepository(whole, "/backups"), TakeOptions{}); err != nil {
		t.Fatal(err)
	}
	restore := func(fsys vfs.FS) error {
		_, err := Place(t.Context(), OpenRepository(fsys, "/backups"), "/data", RestoreOptions{})
		return err
	}
	var last []int
	for n := 1; ; n++ {
		fsys, done := whole.Clone(), 0
		fsys.SetHook(func(vfstest.Op) error {
			if done++; done >= n {
				return errFault
			}
			return nil
		})
		err := restore(fsys)
		if err == nil {
			if n < 100 || !slices.Equal(last, []int{n - 1}) {
				t.Errorf("%d operations make a restore; after %d of them it is whole", n-1, last)
			}
			break
		}
		fsys.SetHook(nil)
		if !errors.Is(err, errFault) {
			t.Fatal(err)
		}
		found, err := fsys.List("/data")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		empty := !slices.ContainsFunc(found, func(name string) bool { return name != "LOCK" })
		if err := inspect.CheckData(fsys, "/data"); err == nil {
			last = append(last, n) // the mark is gone: only that is not on the disk
			continue
		} else if !empty && !errors.Is(err, inspect.ErrUnfinished) {
			t.Errorf("after %d operations %q are there: %v", n, found, err)
		}
		if err := restore(fsys); empty != (err == nil) {
			t.Errorf("a second restore after %d operations: %v", n, err)
		}
	}
}
