package cold

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
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
	data  *meta.Data
	err   error
	asked int // shards
}

func (n *noShards) Catalog() *meta.Data { return n.data }

func (n *noShards) OpenShard(uint64) (*shard.Shard, func(), error) {
	n.asked++
	return nil, nil, n.err
}

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

// twoShards returns a catalog with two shards.
func twoShards(t *testing.T) *meta.Data {
	t.Helper()
	data := &meta.Data{}
	for _, cmd := range []meta.Command{meta.CreateDatabase{Name: "d"}, meta.CreateShardGroup{Database: "d"}, meta.CreateShardGroup{Database: "d", Time: 1 << 60}} {
		var err error
		if data, err = meta.Apply(cmd, data); err != nil {
			t.Fatal(err)
		}
	}
	return data
}

// TestDue: a shard goes to the store by the age of its policy, or else by that of the server, and
// only shards that are due are opened.
func TestDue(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		server, policy, passed time.Duration // since the end of the shard
		want                   bool
	}{
		{0, 0, 1000 * hour, false},
		{2 * hour, 0, 2*hour - 1, false},
		{2 * hour, 0, 2 * hour, true},
		{0, hour, hour - 1, false},
		{0, hour, hour, true},
		{2 * hour, hour, hour, true},
		{hour, 2 * hour, 2*hour - 1, false},
		{hour, 2 * hour, 2 * hour, true},
		{hour, meta.NeverCold, 1000 * hour, false},
		{0, meta.NeverCold, 1000 * hour, false},
		{0, math.MaxInt64, 1000 * hour, false},
	} {
		b := newBench(t, vfstest.New(), "1", "one")
		b.opt.After = c.server
		data, err := meta.Apply(meta.AlterRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: "autogen", ColdAfter: &c.policy}}, twoShards(t))
		if err != nil {
			t.Fatal(err)
		}
		b.store.data, b.store.err = data, errors.New("it does not open")
		old := data.Databases[0].RetentionPolicies[0].ShardGroups[0]
		err = b.chill(t.Context(), time.Unix(0, old.End).Add(c.passed))
		if asked := b.store.asked > 0; asked != c.want || (err != nil) != c.want {
			t.Errorf("%+v: %d shards opened, %v", c, b.store.asked, err)
		}
	}
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
	b.store.data = twoShards(t)
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

// TestEach has a shard fail: the others have their turn, unless the store cannot be used.
func TestEach(t *testing.T) {
	b := newBench(t, vfstest.New(), "1", "one")
	b.store.data = twoShards(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx   context.Context
		err   error
		asked int
	}{
		{t.Context(), errors.New("it does not open"), 2}, {t.Context(), object.ErrUnreachable, 1}, {t.Context(), meta.ErrShardNotFound, 2}, {ended, nil, 0},
	} {
		b.store.asked, b.store.err = 0, c.err
		err := b.each(c.ctx, func(meta.ShardLocation, *shard.Shard) error { return nil })
		if b.store.asked != c.asked || (err == nil) != errors.Is(c.err, meta.ErrShardNotFound) {
			t.Errorf("%v: %d shards, want %d, %v", c.err, b.store.asked, c.asked, err)
		}
	}
}

// TestRequestWhileRoundRuns has a request wait for a round, which may upload for hours, and its client
// leave.
func TestRequestWhileRoundRuns(t *testing.T) {
	b := newBench(t, vfstest.New(), "1", "one")
	ctx, cancel := context.WithCancel(t.Context())
	w := httptest.NewRecorder()
	err := b.alone(t.Context(), func() error {
		cancel()
		b.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, Path+"?do=sweep", nil))
		return nil
	})
	if err != nil || w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d %s, %v", w.Code, w.Body, err)
	}
}
