package cluster

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/store"
)

// TestFoundingInterrupted: a server with data founds a cluster, though a founding was cut
// off after it had set the log of the server aside.
func TestFoundingInterrupted(t *testing.T) {
	g := newGroup(t, "n1")
	dir := g.server("n1").dir
	single(t, dir, func(st *store.Store) { put(t, st, "d", 0, 500) })
	if _, err := flush(t.Context(), dir, store.Options{FS: vfs.OS}); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, Dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "wal"), filepath.Join(dir, Dir, "wal")); err != nil {
		t.Fatal(err)
	}
	g.start("n1")
	g.voters("n1")
	if got := len(g.servers["n1"].content()); got < 500 {
		t.Errorf("%d lines of 500 points", got)
	}
	n, st := g.servers["n1"].now()
	if s := n.Status(); len(s.Problems) > 0 || damageOf(st) != "" {
		t.Errorf("%q %s", s.Problems, damageOf(st))
	}
}

// TestFoundWithUsers: users that only the log of a killed server has are those of the
// cluster.
func TestFoundWithUsers(t *testing.T) {
	g := newGroup(t, "n1")
	killed := t.TempDir()
	st, err := store.Open(killed, store.Options{RetentionInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Apply(context.Background(), meta.CreateUser{Name: "ann", Hash: "x", Admin: true}); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(g.server("n1").dir, os.DirFS(killed)); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	g.start("n1")
	g.voters("n1")
	if _, st := g.servers["n1"].now(); st.Catalog().User("ann") == nil {
		t.Error("the user is gone")
	}
	single(t, g.server("n2").dir, func(*store.Store) {}) // it has run and has nothing
	g.start("n2")
	g.voters("n1", "n2")
	if _, st := g.servers["n2"].now(); st.Catalog().User("ann") == nil {
		t.Error("the user is not on the other node")
	}
}
