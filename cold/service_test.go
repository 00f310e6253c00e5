package cold

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/cold/names"
	"tsdbd/internal/object"
	"tsdbd/internal/object/place"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/shard"
	"tsdbd/store"
)

// noShards is a store with a catalog of which no shard opens.
type noShards struct {
	data *meta.Data
	err  error
}

func (n *noShards) Catalog() *meta.Data { return n.data }

func (n *noShards) OpenShard(uint64) (*shard.Shard, func(), error) { return nil, nil, n.err }

func (n *noShards) Backup(context.Context, func(*meta.Database, *meta.RetentionPolicy, *meta.ShardGroup, uint64) bool) (*store.BackupSet, error) {
	return nil, errors.New("not here")
}

// bench is a service over a cold store in memory, with a clock.
type bench struct {
	*Service
	t     *testing.T
	fs    *vfstest.FS
	store *noShards
	now   time.Time
}

func newBench(t *testing.T, fs *vfstest.FS, id, node string) *bench {
	t.Helper()
	b := &bench{t: t, fs: fs, now: time.Now(), store: &noShards{data: &meta.Data{}, err: meta.ErrShardNotFound}}
	b.Service = New(Options{
		Store: b.store, Objects: object.OpenDir(fs, "/cold"), Place: place.Place{Dir: "/cold"}, ID: id, Node: node, FS: fs, Dir: "/" + node,
		Grace: time.Hour, PurgeAfter: time.Hour, Now: func() time.Time { return b.now },
	})
	return b
}

// put puts an object that is as old as the grace.
func (b *bench) put(name string) {
	b.t.Helper()
	if err := b.opt.Objects.Put(b.t.Context(), names.Key(name), object.Content{Bytes: []byte("x")}); err != nil {
		b.t.Fatal(err)
	}
}

// left sweeps and returns the objects that are left.
func (b *bench) left() (all []string) {
	b.t.Helper()
	if _, err := b.sweep(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	infos, err := b.opt.Objects.List(b.t.Context(), names.Objects)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, i := range infos {
		all = append(all, strings.TrimPrefix(i.Name, names.Objects+"/"))
	}
	return all
}

// TestSweep removes objects that nobody has needed for the time of grace, also over a restart,
// and none that another node needs.
func TestSweep(t *testing.T) {
	fs := vfstest.New()
	one, two := newBench(t, fs, "1", "one"), newBench(t, fs, "1", "two")
	one.put("a.tsm")
	one.put("b.tsm")
	two.mu.intends["b.tsm"] = true
	if err := two.publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := func(what string, want ...string) {
		t.Helper()
		if got := one.left(); !slices.Equal(got, want) {
			t.Errorf("%s: %q is left, want %q", what, got, want)
		}
	}
	f("first look", "a.tsm", "b.tsm")
	now := one.now.Add(50 * time.Minute)
	one = newBench(t, fs, "1", "one") // its clock begins anew, what it has seen is kept
	one.now = now
	f("before the grace", "a.tsm", "b.tsm")
	one.now = now.Add(20 * time.Minute)
	clear(two.mu.intends)
	if err := two.publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	f("after the grace of one", "b.tsm")
	one.now = one.now.Add(2 * time.Hour)
	f("after that of the other")
}

// TestForeign has a second server use the store: it changes nothing.
func TestForeign(t *testing.T) {
	fs := vfstest.New()
	one, other := newBench(t, fs, "1", "one"), newBench(t, fs, "2", "other")
	if err := one.claim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.sweep(t.Context()); !errors.Is(err, names.ErrForeign) {
		t.Errorf("a sweep of another server: %v", err)
	}
	if nodes, err := names.Nodes(t.Context(), one.opt.Objects); err != nil || !slices.Equal(nodes, []string{"one"}) {
		t.Errorf("lists of %q, %v", nodes, err)
	}
}

// oneShard returns a catalog with a shard.
func oneShard(t *testing.T) *meta.Data {
	t.Helper()
	data := &meta.Data{}
	for _, cmd := range []meta.Command{meta.CreateDatabase{Name: "d"}, meta.CreateShardGroup{Database: "d"}} {
		var err error
		if data, err = meta.Apply(cmd, data); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// TestUnknownNeeds has a shard that does not open. What the server needs is not known then: the
// list stays as it was, and nothing is removed.
func TestUnknownNeeds(t *testing.T) {
	fs := vfstest.New()
	b := newBench(t, fs, "1", "one")
	b.put("a.tsm")
	b.mu.intends["a.tsm"] = true
	if err := b.publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	b = newBench(t, fs, "1", "one")
	b.store.err = errors.New("it does not open")
	b.store.data = oneShard(t)
	for range 3 {
		if _, err := b.sweep(t.Context()); err == nil {
			t.Error("a sweep does not fail")
		}
		b.now = b.now.Add(10 * time.Hour)
	}
	if all, err := names.All(t.Context(), b.opt.Objects); err != nil || !all["a.tsm"] {
		t.Errorf("the list has %v, %v", all, err)
	}
	if _, err := b.opt.Objects.Stat(t.Context(), names.Key("a.tsm")); err != nil {
		t.Error(err)
	}
}
