package backup

import (
	"os"
	"path/filepath"
	"testing"

	"tsdbd/exchange"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/store"
	"tsdbd/store/ledger"
)

// TestIDs restores the backup of a database whose highest ids nothing but the ledger
// knows: the directory, under another name too, does not give them again, and tells no
// damage that the server has told.
func TestIDs(t *testing.T) {
	dir := t.TempDir()
	open := func(dir string) *store.Store {
		t.Helper()
		st, err := store.Open(dir, store.Options{RetentionInterval: -1, SegmentBytes: 4 << 10})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	flush := func(st *store.Store) (given uint64) {
		t.Helper()
		set, err := st.Backup(t.Context(), nil)
		must(err)
		defer set.Release()
		return set.Series[0].Given
	}
	st := open(dir)
	must(st.Apply(t.Context(), meta.CreateDatabase{Name: "d"}))
	must(writeLines(st, "d", "", "m,h=a v=1 1"))
	flush(st)
	must(writeLines(st, "d", "", "m,h=b v=1 90000000000000000\nm,h=c v=1 90000000000000000"))
	flush(st)
	must(st.Apply(t.Context(), meta.DropShard{ID: 2}))
	for range 200 {
		must(writeLines(st, "d", "", "m,h=a v=1 2"))
	}
	flush(st)
	must(st.Close())
	log := filepath.Join(dir, "db-1/series/series.log")
	must(os.Truncate(log, 36)) // its header
	s := newServerIn(t, dir, HandlerOptions{})
	if n := flush(s.Store); n != 4 {
		t.Fatalf("the server gives %d next, want 4", n)
	}
	r := OpenRepository(vfs.OS, t.TempDir())
	_, err := Take(t.Context(), s.client, r, TakeOptions{Whole: true})
	must(err)
	for _, opt := range []RestoreOptions{{}, {Filter: exchange.Filter{Database: "d"}, NewDatabase: "other"}} {
		dir := t.TempDir()
		_, err := Place(t.Context(), r, dir, opt)
		must(err)
		known, _, err := ledger.Read(vfs.OS, dir)
		if err != nil || known.IDs[1].Next != 4 {
			t.Errorf("ledger: %+v, %v", known, err)
		}
		back := open(dir)
		if s := back.State(); len(s.Quarantined) > 0 {
			t.Errorf("in quarantine: %+v", s.Quarantined)
		}
		must(writeLines(back, back.Catalog().Databases[0].Name, "", "new v=1 1"))
		if n := flush(back); n != 5 {
			t.Errorf("%s gives %d after a new series, want 5", back.Catalog().Databases[0].Name, n)
		}
		must(back.Close())
	}
}
