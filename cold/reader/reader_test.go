package reader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/cold"
	"tsdbd/cold/names"
	"tsdbd/cold/states"
	"tsdbd/exchange"
	"tsdbd/internal/coldcache"
	"tsdbd/internal/object"
	"tsdbd/internal/object/place"
	"tsdbd/internal/vfs"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/shard"
	"tsdbd/store"
	"tsdbd/tsm"
)

const week int64 = 7 * 24 * 3600 * 1_000_000_000

// node is a server that brings its shards to a cold store and publishes them.
type node struct {
	t testing.TB
	*store.Store
	dir       string // of the cold store
	objects   object.Store
	policy    string // that write writes to; "": the default one
	service   *cold.Service
	publisher *states.Publisher
}

// counting is a store that counts the reads of each object, and refuses those of one.
type counting struct {
	object.Store
	mu struct {
		sync.Mutex
		reads   map[string]int
		refused string
	}
}

func (c *counting) ReadRange(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	c.mu.Lock()
	c.mu.reads[name]++
	refused := c.mu.refused == name
	c.mu.Unlock()
	if refused {
		return nil, object.ErrRefused
	}
	return c.Store.ReadRange(ctx, name, off, n)
}

// openCache returns a cache of objects in a directory of its own.
func openCache(t testing.TB, objects object.Store) func(string, int64) tsm.Body {
	t.Helper()
	c, err := coldcache.Open(coldcache.Options{Dir: filepath.ToSlash(t.TempDir()), Store: objects, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(name string, size int64) tsm.Body { return c.Object(names.Key(name), size) }
}

func newNode(t testing.TB) *node {
	t.Helper()
	dir := filepath.ToSlash(t.TempDir())
	n := &node{t: t, dir: dir}
	n.open(object.OpenDir(vfs.OS, dir))
	return n
}

// open opens a store whose cold shards are in objects.
func (n *node) open(objects object.Store) {
	t := n.t
	t.Helper()
	n.objects = objects
	var err error
	n.Store, err = store.Open(filepath.ToSlash(t.TempDir()), store.Options{RetentionInterval: -1, CompactAfter: time.Hour, Cold: openCache(t, n.objects)})
	if err != nil {
		t.Fatal(err)
	}
	opened := n.Store
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	n.keep(time.Hour)
	n.publisher = states.New(states.Options{Store: n.Store, Objects: n.objects, FS: vfs.OS})
	if err := n.publisher.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// keep makes the service that keeps the cold store, with an age of the server.
func (n *node) keep(after time.Duration) {
	n.service = cold.New(cold.Options{Store: n.Store, Objects: n.objects, Place: place.Place{Dir: n.dir}, ID: "1", Node: "n", Dir: filepath.ToSlash(n.t.TempDir()), After: after, Grace: time.Hour, PurgeAfter: time.Hour})
}

// do has the service work in the store.
func (n *node) do(what string) {
	n.t.Helper()
	w := httptest.NewRecorder()
	n.service.ServeHTTP(w, httptest.NewRequestWithContext(n.t.Context(), http.MethodPost, cold.Path+"?do="+what, nil))
	if w.Code != http.StatusOK {
		n.t.Fatalf("%s: %d %s", what, w.Code, w.Body)
	}
}

func (n *node) write(lines string) {
	n.t.Helper()
	table, err := n.Table("d")
	if err != nil {
		n.t.Fatal(err)
	}
	var p lineproto.Parser
	var b point.Batch
	if _, err = p.Parse(&b, table, []byte(lines), lineproto.Options{}); err == nil {
		err = n.Write(context.Background(), "d", n.policy, &b)
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

// shards returns the shards that have cold files, as a publisher takes them.
func (n *node) shards(each func(sh *shard.Shard)) map[uint64]states.Edition {
	n.t.Helper()
	all := map[uint64]states.Edition{}
	for id := range n.Catalog().Shards() {
		sh, release, err := n.OpenShard(id)
		if err != nil {
			n.t.Fatal(err)
		}
		func() {
			defer release()
			each(sh)
			if h := sh.Cold(); h.Bytes > 0 {
				all[id] = states.Edition{Manifest: h.Edition, Dirty: h.Dirty}
			}
		}()
	}
	return all
}

// chill merges and brings all shards to the store that end before a time.
func (n *node) chill(before int64) {
	n.t.Helper()
	n.shards(func(sh *shard.Shard) {
		if sh.TimeRange().Max >= before || sh.Cold().Bytes > 0 {
			return
		}
		for more := true; more; {
			var err error
			if more, err = sh.Compact(n.t.Context(), true); err != nil {
				n.t.Fatal(err)
			}
		}
		if did, err := n.service.Chill(n.t.Context(), sh); err != nil || !did {
			n.t.Fatalf("chill: %v, %v", did, err)
		}
	})
}

func (n *node) publish() {
	n.t.Helper()
	all := n.shards(func(*shard.Shard) {})
	if !n.publisher.Due(all) {
		n.t.Fatal("nothing to publish")
	}
	for try := 0; n.publisher.Due(all); try++ {
		if try > 10 { // a merge in the background may change a shard once or twice
			n.t.Fatal("the same is to be published again and again")
		}
		if err := n.publisher.Publish(n.t.Context(), 0, all, owned); err != nil {
			n.t.Fatal(err)
		}
		all = n.shards(func(*shard.Shard) {})
	}
}

// owned calls put as the only one who uses the store.
func owned(put func(owner uint64) error) error { return put(1) }

// flush writes what is in memory to files.
func (n *node) flush() {
	n.t.Helper()
	set, err := n.Backup(n.t.Context(), nil)
	if err != nil {
		n.t.Fatal(err)
	}
	set.Release()
}

// dump returns the points of a store before a time.
func dump(t testing.TB, src exchange.Source, before int64) []string {
	t.Helper()
	var b bytes.Buffer
	f := exchange.Filter{Range: model.TimeRange{Min: math.MinInt64, Max: before - 1}}
	if _, err := exchange.Export(t.Context(), src, &b, exchange.ExportOptions{Filter: f, LinesOnly: true}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	slices.Sort(lines)
	return lines
}

// TestReader has a reader follow a server: cold shards, late rows and deletes in them, and
// policies. A shard that is not cold is not seen.
func TestReader(t *testing.T) {
	n := newNode(t)
	if err := n.Apply(t.Context(), meta.CreateDatabase{Name: "d"}); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range int64(4000) {
		fmt.Fprintf(&b, "cpu,host=h%d usage=%g,text=\"%d\" %d\n", i%7, float64(i)/3, i, 10*week+i*(week/1000))
	}
	n.write(b.String())
	n.flush()
	warm := 13*week - 3*week/7 // weeks of shards begin on Monday
	n.chill(warm)

	r, err := Open(Options{Objects: n.objects, Body: openCache(t, n.objects), Dir: filepath.ToSlash(t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Fetch(t.Context(), nil); !errors.Is(err, states.ErrNone) {
		t.Errorf("before anything is published: %v", err)
	}
	var st *State
	same := func(what string) {
		t.Helper()
		next, err := r.Fetch(t.Context(), st)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if next == st {
			t.Errorf("%s: no new state", what)
		}
		st = next
		open, err := r.Store(st, store.Options{})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got, want := dump(t, open, model.MaxTime), dump(t, n, warm)
		if !slices.Equal(got, want) {
			t.Errorf("%s: the reader has %d lines, the server %d", what, len(got), len(want))
		}
		if err := open.Apply(t.Context(), meta.CreateDatabase{Name: "e"}); !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("%s: a change of the catalog of a reader: %v", what, err)
		}
		if err := open.Close(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		r.Clean(st)
		files, err := vfs.OS.List(r.path(""))
		if err != nil || len(files) != len(st.sizes) {
			t.Errorf("%s: %d files for %d that are needed, %v", what, len(files), len(st.sizes), err)
		}
	}
	n.publish()
	same("first")
	if again, err := r.Fetch(t.Context(), st); err != nil || again != st {
		t.Errorf("nothing new: %v, %v", again, err)
	}
	n.write(fmt.Sprintf("cpu,host=h1 usage=-1 %d\ncpu,host=new usage=5 %d\n", 10*week+5, 11*week+5))
	n.publish()
	same("late rows")
	if err := n.Delete(t.Context(), scan.DeleteRequest{Database: "d", Range: model.TimeRange{Min: 11 * week, Max: 11*week + week/2}}); err != nil {
		t.Fatal(err)
	}
	n.publish()
	same("a delete")
	n.chill(warm + week)
	warm += week
	n.publish()
	same("one more cold shard")

	// What a leader publishes that was deposed does not count.
	later := states.New(states.Options{Store: n.Store, Objects: n.objects, FS: vfs.OS})
	all := n.shards(func(*shard.Shard) {})
	if err := later.Publish(t.Context(), 3, all, owned); err != nil {
		t.Fatal(err)
	}
	if err := n.publisher.Publish(t.Context(), 2, all, owned); err == nil {
		t.Error("a deposed leader publishes")
	}
	same("another leader")
	if st.ID.Term != 3 {
		t.Errorf("the state is %s", st.ID)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestManyShards brings shards to the store at once. The list of what the server needs is written once
// for all of them, and the states for readers have them.
func TestManyShards(t *testing.T) {
	n := newNode(t)
	if err := n.Apply(t.Context(), meta.CreateDatabase{Name: "d"}); err != nil {
		t.Fatal(err)
	}
	for i := range int64(12) {
		n.write(fmt.Sprintf("m v=%d %d\nm v=1 %d", i, 100*week+i*week, 100*week+i*week+1))
	}
	n.flush()
	n.shards(func(sh *shard.Shard) {
		for more := true; more; {
			var err error
			if more, err = sh.Compact(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
	})
	n.do("sweep")
	if st := n.service.Status(t.Context()); len(st.Shards) != 12 {
		t.Fatalf("%+v", st)
	}
	infos, err := n.objects.List(t.Context(), names.Dir+"/names")
	if err != nil || len(infos) != 1 || infos[0].Name != names.Dir+"/names/n.0000000000000001" {
		t.Errorf("lists %+v, %v", infos, err)
	}
	if _, err := states.Newest(t.Context(), n.objects); err != nil {
		t.Error(err)
	}
}

// TestPolicyAges has policies with ages of their own: their shards go to a store of which the server
// itself has no age, and readers see them.
func TestPolicyAges(t *testing.T) {
	n := newNode(t)
	n.keep(0)
	ages := map[string]time.Duration{"soon": time.Hour, "never": meta.NeverCold, "late": 200 * 365 * 24 * time.Hour, "default": 0}
	apply := func(cmd meta.Command) {
		t.Helper()
		if err := n.Apply(t.Context(), cmd); err != nil {
			t.Fatal(err)
		}
	}
	apply(meta.CreateDatabase{Name: "d", WithoutPolicy: true})
	for name, age := range ages {
		apply(meta.CreateRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: name, ColdAfter: &age}})
		n.policy = name
		n.write(fmt.Sprintf("m v=1 %d\nm v=2 %d", 100*week, 100*week+1))
	}
	alter := func(policy string, age time.Duration) {
		t.Helper()
		apply(meta.AlterRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: policy, ColdAfter: &age}})
	}
	check := func(what, cold, published string) {
		t.Helper()
		n.do("sweep")
		var have, seen []string
		for _, sh := range n.service.Status(t.Context()).Shards {
			have = append(have, sh.Policy)
		}
		if id, err := states.Newest(t.Context(), n.objects); err == nil {
			m, err := states.Read(t.Context(), n.objects, id)
			if err != nil {
				t.Fatal(err)
			}
			for _, sh := range m.Shards {
				at, _ := n.Catalog().Shard(sh.ID)
				seen = append(seen, at.Policy.Name)
			}
		}
		slices.Sort(have)
		slices.Sort(seen)
		if strings.Join(have, " ") != cold || strings.Join(seen, " ") != published {
			t.Errorf("%s: %q are cold and %q published, want %q and %q", what, have, seen, cold, published)
		}
	}
	n.flush()
	check("no age of the server", "soon", "soon")
	n.do("fetch")
	n.policy = "soon"
	n.write(fmt.Sprintf("m v=3 %d", 100*week+2)) // keeps the shard here until it is flushed
	check("fetched, and to go again", "", "soon")
	alter("soon", meta.NeverCold)
	check("never any more", "", "")
	n.keep(time.Hour)
	check("the age of the server", "default", "default")
	alter("late", time.Hour)
	alter("never", 0)
	check("ages that were altered", "default late never", "default late never")
	alter("late", meta.NeverCold)
	check("INF does not bring shards back", "default late never", "default late never")
}

// TestStatesInTime: a change of the catalog alone is published ten minutes after the state before, and
// a state goes with the next one once a newer one has been there for ten minutes.
func TestStatesInTime(t *testing.T) {
	n := newNode(t)
	if err := n.Apply(t.Context(), meta.CreateDatabase{Name: "d"}); err != nil {
		t.Fatal(err)
	}
	n.write(fmt.Sprintf("m v=1 %d\nm v=2 %d", 100*week, 100*week+1))
	n.flush()
	n.chill(200 * week)
	now := time.Unix(1_800_000_000, 0)
	publisher := func() *states.Publisher {
		p := states.New(states.Options{Store: n.Store, Objects: n.objects, FS: vfs.OS, Now: func() time.Time { return now }})
		if err := p.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := publisher()
	all := n.shards(func(*shard.Shard) {})
	due := func(what string, want bool) {
		t.Helper()
		if got := p.Due(all); got != want {
			t.Errorf("%s: due %v, want %v", what, got, want)
		}
	}
	publish := func(want ...uint64) {
		t.Helper()
		if err := p.Publish(t.Context(), 0, all, owned); err != nil {
			t.Fatal(err)
		}
		infos, err := n.objects.List(t.Context(), names.States)
		if err != nil {
			t.Fatal(err)
		}
		var have, keys []string
		for _, i := range infos {
			have = append(have, i.Name)
		}
		for _, number := range want {
			keys = append(keys, names.States+"/"+states.ID{Owner: 1, Number: number}.String())
		}
		if !slices.Equal(have, keys) {
			t.Errorf("states %q, want %q", have, keys)
		}
	}
	const most = 10 * time.Minute
	due("nothing is published", true)
	publish(0)
	now = now.Add(time.Hour)
	due("nothing has changed", false)
	publish(0, 1)
	if err := n.Apply(t.Context(), meta.CreateUser{Name: "ann", Hash: "h"}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(most - 1)
	due("a new user, too early", false)
	publish(0, 1, 2)
	now = now.Add(1)
	publish(1, 2, 3)
	if err := n.Apply(t.Context(), meta.CreateUser{Name: "bob", Hash: "h"}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(most)
	due("one more user", true)
	publish(3, 4)
	due("published", false)
	id, err := states.Newest(t.Context(), n.objects)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := states.Read(t.Context(), n.objects, id); err != nil || m.Catalog.User("bob") == nil {
		t.Errorf("the newest state lacks a user, %v", err)
	}
	now = now.Add(time.Hour)
	p = publisher() // it does not know how old the states of the process before are
	due("after a restart", true)
	publish(3, 4, 5)
	now = now.Add(most)
	publish(5, 6)
}

// TestLostObject has the store lose an object of a shard that has deleted rows. Rows of other shards
// leave the store, and the shard is tried again after purge-after, or when a sweep is asked for.
func TestLostObject(t *testing.T) {
	n := newNode(t)
	store := &counting{Store: n.objects}
	store.mu.reads = map[string]int{}
	n.open(store)
	if err := n.Apply(t.Context(), meta.CreateDatabase{Name: "d"}); err != nil {
		t.Fatal(err)
	}
	for i := range int64(3) {
		var b strings.Builder
		for k := range int64(3000) {
			fmt.Fprintf(&b, "m v=%d %d\n", k*k*(i+7919)%1009, (100+i)*week+k)
		}
		n.write(b.String())
	}
	n.flush()
	n.do("sweep")
	var lost, refused string
	var id uint64
	for i := range int64(3) {
		if err := n.Delete(t.Context(), scan.DeleteRequest{Database: "d", Range: model.TimeRange{Min: (100 + i) * week, Max: (100 + i) * week}}); err != nil {
			t.Fatal(err)
		}
	}
	n.shards(func(sh *shard.Shard) {
		if held := sh.Cold().Cold; len(held) == 1 && lost == "" {
			lost, id = names.Key(held[0].Object()), sh.ID()
		} else if len(held) == 1 {
			refused = names.Key(held[0].Object())
		}
	})
	content, err := object.Read(t.Context(), n.objects, lost, 1<<20)
	if err := errors.Join(err, n.objects.Delete(t.Context(), lost)); err != nil {
		t.Fatal(err)
	}
	readsOf := func(name string) int {
		store.mu.Lock()
		defer store.mu.Unlock()
		return store.mu.reads[name]
	}
	reads := func() int { return readsOf(lost) }
	refuse := func(name string) {
		store.mu.Lock()
		defer store.mu.Unlock()
		store.mu.refused = name
	}

	var now, rounds atomic.Int64
	now.Store(time.Now().UnixNano())
	n.service = cold.New(cold.Options{
		Store: n.Store, Objects: store, Place: place.Place{Dir: n.dir}, ID: "1", Node: "n", Dir: filepath.ToSlash(t.TempDir()), Grace: 1000 * time.Hour,
		PurgeAfter: time.Hour, Every: time.Millisecond, Now: func() time.Time { return time.Unix(0, now.Load()) },
		Leads: func() (uint64, bool) { rounds.Add(1); return 0, true },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.service.Run(ctx)
	}()
	defer func() { cancel(); <-ended }()
	await := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s does not come: %+v, %q", what, n.service.Status(t.Context()), n.service.Health())
			}
		}
	}
	some := func() {
		t.Helper()
		from := rounds.Load()
		await("a few rounds", func() bool { return rounds.Load() > from+5 })
	}
	says := func() bool {
		return strings.Contains(n.service.Health(), fmt.Sprintf("deleted rows of shard %d stay in the store: object %s is missing", id, strings.TrimPrefix(lost, names.Objects+"/")))
	}
	some()
	if n.service.Health() != "" || n.service.Status(t.Context()).Purges > 0 {
		t.Errorf("before purge-after: %q", n.service.Health())
	}
	refuse(refused) // which is tried again in each round
	now.Add(int64(time.Hour))
	await("the purge", says)
	before, tries := reads(), readsOf(refused)
	some()
	if reads() != before || readsOf(refused) <= tries {
		t.Errorf("%d reads of the lost object, %d before; %d of one that is refused, %d before", reads(), before, readsOf(refused), tries)
	}
	refuse("")
	await("the rest of the purge", func() bool { return n.service.Status(t.Context()).Purges == 2 })
	some()
	before = reads()
	if purged := n.service.Status(t.Context()).Purges; purged != 2 || before == 0 {
		t.Errorf("%d shards were purged, %d reads of the lost object", purged, before)
	}
	now.Add(int64(time.Hour) - 1)
	some()
	if got := reads(); got != before || !says() {
		t.Errorf("the shard is tried again: %d reads, %d before, %q", got, before, n.service.Health())
	}
	now.Add(1)
	await("the next try", func() bool { return reads() > before })
	some()
	before = reads()
	w := httptest.NewRecorder()
	n.service.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, cold.Path+"?do=sweep", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "is missing") || reads() == before {
		t.Errorf("a sweep: %d %s", w.Code, w.Body)
	}
	if err := n.objects.Put(t.Context(), lost, object.Content{Bytes: content}); err != nil {
		t.Fatal(err)
	}
	n.do("sweep")
	await("health", func() bool { return n.service.Health() == "" })
	if purged := n.service.Status(t.Context()).Purges; purged != 3 {
		t.Errorf("%d shards were purged", purged)
	}
}
