package cluster

import (
	"log/slog"
	"maps"
	"slices"
	"testing"

	"tsdbd/backup"
	"tsdbd/cluster/self"
	"tsdbd/cold/names"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs/vfstest"
)

// TestColdSetAside has a node replace its list in the cold store while a directory that it has set
// aside still needs the old one.
func TestColdSetAside(t *testing.T) {
	ctx, fsys := t.Context(), vfstest.New()
	objects := object.OpenDir(fsys, "/cold")
	if _, err := names.Claim(ctx, objects, names.Owner{ID: "c", Node: "n1"}, false); err != nil {
		t.Fatal(err)
	}
	n := &Node{opt: Options{Dir: "/d", Name: "n1", Cold: &backup.Cold{Objects: objects, Dir: "/cold"}}, fs: fsys, logger: slog.New(slog.DiscardHandler)}
	n.mu.identity = &self.Identity{Cluster: "c"}
	f := func(needs string, want ...string) {
		t.Helper()
		if c := n.coldStore(ctx); c == nil {
			t.Fatal("the cold store is not used")
		}
		if err := names.Publish(ctx, objects, "n1", []string{needs}); err != nil {
			t.Fatal(err)
		}
		all, err := names.All(ctx, objects)
		if got := slices.Sorted(maps.Keys(all)); err != nil || !slices.Equal(got, want) {
			t.Errorf("the store keeps %q, %v; want %q", got, err, want)
		}
	}
	if err := fsys.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	f("a", "a")
	f("b", "b") // nothing is set aside
	name, err := n.newAside("it is old")
	if err != nil {
		t.Fatal(err)
	}
	f("c", "b", "c")
	f("d", "b", "c", "d") // another try
	if nodes, err := names.Nodes(ctx, objects); err != nil || !slices.Equal(nodes, []string{"n1", "n1-" + name}) {
		t.Errorf("lists of %q, %v", nodes, err)
	}
}
