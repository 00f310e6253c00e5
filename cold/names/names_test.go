package names

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs/vfstest"
)

// TestLists has two nodes publish lists that replace each other.
func TestLists(t *testing.T) {
	ctx, s := t.Context(), object.OpenDir(vfstest.New(), "b")
	have := func(want ...string) {
		t.Helper()
		all, err := All(ctx, s)
		if got := slices.Sorted(maps.Keys(all)); err != nil || !slices.Equal(got, want) {
			t.Errorf("lists have %q, %v; want %q", got, err, want)
		}
	}
	publish := func(node string, names ...string) {
		t.Helper()
		if err := Publish(ctx, s, node, names); err != nil {
			t.Fatal(err)
		}
	}
	have()
	publish("a", "y", "x", "x")
	publish("a.b", "z")
	have("x", "y", "z")
	publish("a")
	have("z")
	publish("a", "w")
	publish("a.b", "z", "v")
	have("v", "w", "z")
	if infos, err := s.List(ctx, listsDir); err != nil || len(infos) != 2 {
		t.Errorf("old lists are left: %+v, %v", infos, err)
	}
	if err := Forget(ctx, s, "a"); err != nil {
		t.Fatal(err)
	}
	have("v", "z")
	if nodes, err := Nodes(ctx, s); err != nil || !slices.Equal(nodes, []string{"a.b"}) {
		t.Errorf("nodes %q, %v", nodes, err)
	}
	newer := listsDir + "/b.0000000000000001"
	if err := s.Put(ctx, newer, object.Content{Bytes: []byte("tsdbd-cold-names 2 0\nx")}); err != nil {
		t.Fatal(err)
	}
	if all, err := All(ctx, s); !errors.Is(err, binio.ErrVersion) {
		t.Errorf("a list of a newer program passes: %v, %v", all, err)
	}
	if err := s.Delete(ctx, newer); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ctx, listsDir+"/c.0000000000000001", object.Content{Bytes: []byte(magic + "0\nx")}); err != nil {
		t.Fatal(err)
	}
	if all, err := All(ctx, s); err == nil {
		t.Errorf("a damaged list passes: %v", all)
	}
}

// TestKeep keeps what a node needs under another name, and does not replace what is there.
func TestKeep(t *testing.T) {
	ctx, s := t.Context(), object.OpenDir(vfstest.New(), "b")
	f := func(needs []string, want ...string) {
		t.Helper()
		if len(needs) > 0 {
			if err := Publish(ctx, s, "a", needs); err != nil {
				t.Fatal(err)
			}
		}
		if err := Keep(ctx, s, "a", "a-set-aside-1"); err != nil {
			t.Fatal(err)
		}
		newest, _, err := lists(ctx, s)
		var got []string
		if l, ok := newest["a-set-aside-1"]; ok && err == nil {
			got, err = read(ctx, s, l.key)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q are kept, %v; want %q", got, err, want)
		}
	}
	f(nil)
	f([]string{"y", "x"}, "x", "y")
	f([]string{"x"}, "x", "y")
	f([]string{"z"}, "x", "y", "z")
	if err := Forget(ctx, s, "a"); err != nil {
		t.Fatal(err)
	}
	f(nil, "x", "y", "z")
}

// TestOwner has a store that others may not use unless they take it.
func TestOwner(t *testing.T) {
	ctx, s := t.Context(), object.OpenDir(vfstest.New(), "b")
	one, other := Owner{ID: "1", Node: "one"}, Owner{ID: "2", Node: "other"}
	f := func(o Owner, take bool, want error) {
		t.Helper()
		if _, err := Claim(ctx, s, o, take); !errors.Is(err, want) {
			t.Errorf("claim by %s, take %v: %v, want %v", o.Node, take, err, want)
		}
	}
	f(one, false, nil)
	f(one, false, nil)
	f(other, false, ErrForeign)
	f(other, true, nil)
	f(one, false, ErrForeign)
	f(other, false, nil)
}

// TestLock keeps a second one out.
func TestLock(t *testing.T) {
	fs := vfstest.New()
	s := object.OpenDir(fs, "b")
	l, err := Lock(t.Context(), s, fs, "b", "one", "1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(t.Context(), s, fs, "b", "two", "2"); !InUse(err) {
		t.Errorf("second lock: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
