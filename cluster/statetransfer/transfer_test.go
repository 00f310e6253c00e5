package statetransfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/backup"
	"tsdbd/exchange"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/shard/repair"
	"tsdbd/store"
)

const week int64 = 7 * 24 * 3600 * 1_000_000_000

// peer is a node whose state is copied.
type peer struct {
	*store.Store
	dir    string
	client *exchange.Client
	hook   atomic.Pointer[func(r *http.Request)]
}

func newPeer(t testing.TB) *peer {
	t.Helper()
	p := &peer{dir: t.TempDir()}
	var err error
	if p.Store, err = store.Open(p.dir, store.Options{RetentionInterval: -1}); err != nil {
		t.Fatal(err)
	}
	h := backup.NewHandler(p.Store, backup.HandlerOptions{Dir: p.dir})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := p.hook.Load(); f != nil {
			(*f)(r)
		}
		h.ServeHTTP(w, r)
	}))
	p.client = &exchange.Client{URL: s.URL}
	t.Cleanup(func() {
		s.Close()
		h.Close()
		if err := p.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *peer) apply(t testing.TB, c meta.Command) {
	t.Helper()
	if err := p.Apply(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func (p *peer) write(t testing.TB, db, lines string) {
	t.Helper()
	table, err := p.Table(db)
	if err != nil {
		t.Fatal(err)
	}
	var parser lineproto.Parser
	var b point.Batch
	if _, err := parser.Parse(&b, table, []byte(lines), lineproto.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(t.Context(), db, "", &b); err != nil {
		t.Fatal(err)
	}
}

// fill writes points of weeks, and deletes some of them.
func (p *peer) fill(t testing.TB, weeks ...int64) {
	t.Helper()
	for _, db := range []string{"d", "e"} {
		p.apply(t, meta.CreateDatabase{Name: db})
		for _, w := range weeks {
			var b strings.Builder
			for i := range int64(200) {
				fmt.Fprintf(&b, "cpu,host=h%d,week=%d usage=%g,n=%di,text=\"%d\" %d\n", i%7, w, float64(i)/3, -i, i, w*week+i*1e9)
			}
			p.write(t, db, b.String())
			err := p.Delete(t.Context(), scan.DeleteRequest{Database: db, Range: model.TimeRange{Min: w*week + 10e9, Max: w*week + 20e9}})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// dump returns the points of a store, sorted.
func dump(t testing.TB, src exchange.Source) []string {
	t.Helper()
	var b bytes.Buffer
	if _, err := exchange.Export(context.Background(), src, &b, exchange.ExportOptions{LinesOnly: true}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	slices.Sort(lines)
	return lines
}

// check opens the store in a directory: it must be the peer's.
func (p *peer) check(t testing.TB, fsys vfs.FS, dir string) {
	t.Helper()
	st, err := store.Open(dir, store.Options{FS: fsys, RetentionInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if got, want := dump(t, st), dump(t, p); !slices.Equal(got, want) {
		t.Fatalf("%d lines, the peer has %d", len(got), len(want))
	}
	have, want := st.Catalog(), p.Catalog()
	if have.Applied != want.Applied || have.Index != want.Index || have.LastShardID != want.LastShardID || have.Lineage == want.Lineage {
		t.Errorf("catalog applied %d index %d last shard %d lineage %s, that of the peer %d %d %d %s", have.Applied, have.Index, have.LastShardID, have.Lineage, want.Applied, want.Index, want.LastShardID, want.Lineage)
	}
	if s := st.State(); len(s.Quarantined)+len(s.Unopened)+len(s.Damaged)+len(s.LogDamage) > 0 {
		t.Errorf("the state has damage: %+v", s)
	}
}

func options(fsys vfs.FS, dir string) Options {
	return Options{FS: fsys, Dir: dir, Logger: slog.New(slog.DiscardHandler)}
}

// transferred does all steps of a transfer.
func (p *peer) transferred(t testing.TB, opt Options) *backup.Result {
	t.Helper()
	res, err := Fetch(t.Context(), p.client, opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := Switch(opt); err != nil {
		t.Fatal(err)
	}
	if err := Clean(opt); err != nil {
		t.Fatal(err)
	}
	return res
}

// TestTransfer copies a state, and again after a change: only what is new is fetched.
// Files in quarantine are kept.
func TestTransfer(t *testing.T) {
	p := newPeer(t)
	p.fill(t, 10, 11, 12)
	dir := t.TempDir()
	opt := options(vfs.OS, dir)
	first := p.transferred(t, opt)
	if first.Copied != first.Bytes || first.Bytes == 0 {
		t.Errorf("%d of %d bytes fetched into an empty directory", first.Copied, first.Bytes)
	}
	p.check(t, vfs.OS, dir)

	p.fill(t, 13)
	q := repair.NewQuarantine(vfs.OS, dir, opt.Logger)
	if err := q.SetAside("odd", errors.New("for the test"), repair.LossNone, "nothing"); err != nil {
		t.Fatal(err)
	}
	p.apply(t, meta.DropDatabase{Name: "e"})
	second := p.transferred(t, opt)
	if second.Copied > second.Bytes/2 {
		t.Errorf("%d of %d bytes fetched again", second.Copied, second.Bytes)
	}
	p.check(t, vfs.OS, dir)
	kept, err := filepath.Glob(filepath.Join(dir, "cluster", "quarantine", "*", "*.reason"))
	if err != nil || len(kept) != 1 {
		t.Errorf("kept of the quarantine: %q, %v", kept, err)
	}
	for _, name := range []string{"old", "incoming", "transfer"} {
		if left, _ := filepath.Glob(filepath.Join(dir, "cluster", name)); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	}
}

// TestEmptyShards: a shard that was made ahead and has no files is there, for the entries
// of the log that go to it.
func TestEmptyShards(t *testing.T) {
	p := newPeer(t)
	p.fill(t, 10)
	p.apply(t, meta.CreateShardGroup{Database: "d", Time: 50 * week}) // ahead, without files
	dir := t.TempDir()
	p.transferred(t, options(vfs.OS, dir))
	st, err := store.Open(dir, store.Options{RetentionInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	have, want := 0, 0
	for range st.Catalog().Shards() {
		have++
	}
	for range p.Catalog().Shards() {
		want++
	}
	if have != want {
		t.Errorf("%d shards, the peer has %d", have, want)
	}
}

// TestCrash ends a transfer over an older state at random operations of the disk, as a
// power cut does, and begins it again. The result is always the peer's state, and what
// was fetched before is not fetched again unless the cut took it.
func TestCrash(t *testing.T) {
	p := newPeer(t)
	p.fill(t, 10, 11)
	fsys := vfstest.New()
	if err := fsys.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	opt := options(fsys, "/data")
	p.transferred(t, opt)
	p.fill(t, 12)
	p.apply(t, meta.DropDatabase{Name: "e"})
	old := fsys.Clone()

	// How many operations there are.
	count := old.Clone()
	begin := count.Ops()
	p.transferred(t, options(count, "/data"))
	total := count.Ops() - begin
	random := rand.New(rand.NewPCG(testseed.Of(t), 1))
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	for range rounds {
		f := old.Clone()
		for attempt := 0; ; attempt++ {
			n := random.IntN(total)
			var crashed *vfstest.FS
			keep := random.Float64()
			start := f.Ops()
			f.SetHook(func(op vfstest.Op) error {
				if op.N-start < n {
					return nil
				}
				if crashed == nil {
					crashed = f.Crash(random, keep)
				}
				return errors.New("power cut")
			})
			opt := options(f, "/data")
			if attempt == 3 {
				f.SetHook(nil)
				n = -1
			}
			done := func() bool {
				if _, err := Fetch(t.Context(), p.client, opt); err != nil {
					return false
				}
				return Switch(opt) == nil
			}()
			if n < 0 && !done {
				t.Fatal("a transfer without a fault fails")
			}
			if done {
				// The caller notes now that the state is complete. What is left to
				// do may be cut as well.
				f.SetHook(nil)
				left := f.Crash(random, 0)
				if err := Clean(options(left, "/data")); err != nil {
					t.Fatal(err)
				}
				p.check(t, left, "/data")
				break
			}
			f = crashed
		}
	}
}

// TestKilled ends the connection at random requests: the next try fetches the rest.
func TestKilled(t *testing.T) {
	p := newPeer(t)
	p.fill(t, 10, 11, 12, 13)
	dir := t.TempDir()
	opt := options(vfs.OS, dir)
	var fetched int64
	for requests := int64(2); ; requests += 3 {
		ctx, cancel := context.WithCancel(t.Context())
		var n atomic.Int64
		cut := func(r *http.Request) {
			if r.Method == http.MethodGet && n.Add(1) > requests {
				cancel()
			}
		}
		p.hook.Store(&cut)
		res, err := Fetch(ctx, p.client, opt)
		cancel()
		if err == nil {
			fetched = res.Copied
			if requests == 2 || fetched >= res.Bytes {
				t.Errorf("after %d requests the last try has fetched %d of %d bytes", requests, fetched, res.Bytes)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if err := Switch(opt); err != nil {
		t.Fatal(err)
	}
	if err := Clean(opt); err != nil {
		t.Fatal(err)
	}
	p.check(t, vfs.OS, dir)
}

// TestDamagedPeer: nothing is taken from a file that is damaged at the peer, and the
// error names it.
func TestDamagedPeer(t *testing.T) {
	p := newPeer(t)
	p.fill(t, 10)
	set, err := p.Backup(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(set.Shards[0].Dir, set.Shards[0].Manifest.TSM[0].Name)
	set.Release()
	f, err := vfs.OS.OpenReadWrite(name)
	if err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if _, err := f.ReadAt(b[:], 40); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], 40); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = Fetch(ctx, p.client, options(vfs.OS, dir))
	if err == nil || !strings.Contains(err.Error(), filepath.Base(name)) {
		t.Errorf("%v, want the name %s", err, filepath.Base(name))
	}
}
