package cluster

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"tsdbd/cluster/self"
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
	if err := os.MkdirAll(filepath.Join(dir, self.Dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "wal"), filepath.Join(dir, self.Dir, "wal")); err != nil {
		t.Fatal(err)
	}
	g.start("n1")
	g.voters("n1")
	if got := len(g.servers["n1"].content()); got < 500 {
		t.Errorf("%d lines of 500 points", got)
	}
	n, st := g.servers["n1"].now()
	if s := n.Status(); len(s.Problems) > 0 || damageOf(st).first != "" {
		t.Errorf("%q %s", s.Problems, damageOf(st).first)
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

// TestAskedWhileOpening sends requests to a node all the time while it is opened.
func TestAskedWhileOpening(t *testing.T) {
	g := three(t)
	g.server("n4").options = func(o *Options) { o.Voter = false }
	g.start("n4")
	g.await("the copy is there", func() bool {
		n, _ := g.servers["n4"].now()
		return n != nil && n.identity().Joined && n.replica.Ready()
	})
	n1, _ := g.servers["n1"].now()
	n4, _ := g.servers["n4"].now()
	i := n4.identity()
	request := joinRequest{Name: i.Name, ID: i.ID, Address: i.Address, Joined: true, Ask: true, Passed: true}
	for range 5 {
		g.servers["n4"].stop()
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		for _, ask := range []func() error{
			func() error { return n1.post(ctx, i.Address, "join", nil, request, nil) },
			func() error { return n1.post(ctx, i.Address, "add", url.Values{"name": {"n9"}}, nil, nil) },
			func() error { return n1.get(ctx, i.Address, "base", nil, nil) },
			func() error { return n1.get(ctx, i.Address, "status", nil, nil) },
		} {
			asking.Go(func() {
				for ctx.Err() == nil {
					_ = ask() // that no node is there, that it is starting, that another one leads
				}
			})
		}
		g.start("n4")
		g.await("the node is open", func() bool { n, _ := g.servers["n4"].now(); return n != nil && n.replica.Ready() })
		cancel()
		asking.Wait()
	}
	g.equal("n1", "n2", "n3", "n4")
}
