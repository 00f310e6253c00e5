package cold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/backup"
	"tsdbd/cold/names"
	"tsdbd/cold/states"
	"tsdbd/internal/object"
	"tsdbd/internal/object/place"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/shard"
	"tsdbd/store"
	"tsdbd/tsm"
)

// full is a service over a store with shards, all in memory, with a clock.
type full struct {
	*Service
	t       *testing.T
	store   *store.Store
	objects object.Store
	options Options
	now     time.Time
	refused uint64 // a shard that does not open
	reads   func() // is called before each read of the store
}

// watched is a store that tells full of reads.
type watched struct {
	object.Store
	f *full
}

func (w watched) ReadRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if w.f.reads != nil {
		w.f.reads()
	}
	return w.Store.ReadRange(ctx, name, offset, length)
}

// OpenShard makes full a Store.
func (f *full) OpenShard(id uint64) (*shard.Shard, func(), error) {
	if id == f.refused {
		return nil, nil, errors.New("it does not open")
	}
	return f.store.OpenShard(id)
}

// Catalog makes full a Store.
func (f *full) Catalog() *meta.Data { return f.store.Catalog() }

// Backup makes full a Store.
func (f *full) Backup(ctx context.Context, want func(*meta.Database, *meta.RetentionPolicy, *meta.ShardGroup, uint64) bool) (*store.BackupSet, error) {
	return f.store.Backup(ctx, want)
}

const (
	hour = int64(time.Hour)
	week = 7 * 24 * hour
)

// newFull returns a service whose store has two shards, of which each has two series.
func newFull(t *testing.T) *full {
	t.Helper()
	fs := vfstest.New()
	f := &full{t: t, now: time.Now()}
	f.objects = watched{object.OpenDir(fs, "/cold"), f}
	var err error
	if f.store, err = store.Open("/data", store.Options{FS: fs, RetentionInterval: -1, Cold: func(object string, _ int64) tsm.Body {
		return names.Body{Store: f.objects, Object: object}
	}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.store.Close(); err != nil {
			t.Error(err)
		}
	})
	f.apply(meta.CreateDatabase{Name: "d"})
	for i := range int64(100) {
		f.write(fmt.Sprintf("m,h=a v=%d %d\nm,h=b v=%d %d\nm,h=a v=%d %d\n", i, 10*week+i, i, 10*week+i, i, 20*week+i))
	}
	set, err := f.store.Backup(t.Context(), nil) // flushes
	if err != nil {
		t.Fatal(err)
	}
	set.Release()
	f.options = Options{
		Store: f, Objects: f.objects, Place: place.Place{Dir: "/cold"}, ID: "1", Node: "one", FS: fs, Dir: "/data/cold",
		After: time.Hour, Grace: time.Hour, PurgeAfter: time.Hour, Now: func() time.Time { return f.now },
	}
	f.restart()
	return f
}

func (f *full) restart() { f.Service = New(f.options) }

func (f *full) apply(cmd meta.Command) {
	f.t.Helper()
	if err := f.store.Apply(f.t.Context(), cmd); err != nil {
		f.t.Fatal(err)
	}
}

func (f *full) write(lines string) {
	f.t.Helper()
	table, err := f.store.Table("d")
	var p lineproto.Parser
	var b point.Batch
	if err == nil {
		_, err = p.Parse(&b, table, []byte(lines), lineproto.Options{})
	}
	if err == nil {
		err = f.store.Write(f.t.Context(), "d", "", &b)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// forget deletes rows of the first shard.
func (f *full) forget(from, to int64) {
	f.t.Helper()
	if err := f.store.Delete(f.t.Context(), scan.DeleteRequest{Database: "d", Range: model.TimeRange{Min: 10*week + from, Max: 10*week + to}}); err != nil {
		f.t.Fatal(err)
	}
}

// first returns the first shard.
func (f *full) first() uint64 {
	return f.Catalog().Databases[0].RetentionPolicies[0].ShardGroups[0].Shards[0].ID
}

// files returns how many files the first shard has in the store, and beside it.
func (f *full) files() (cold, local int) {
	f.t.Helper()
	sh, release, err := f.store.OpenShard(f.first())
	if err != nil {
		f.t.Fatal(err)
	}
	defer release()
	h := sh.Cold()
	return len(h.Cold), len(h.Local)
}

// rounds has n rounds, a minute apart. It returns the error of the last.
func (f *full) rounds(n int) (err error) {
	for range n {
		err = f.round(f.t.Context())
		f.now = f.now.Add(time.Minute)
	}
	return err
}

// TestLosses has an object missing, so that deleted rows cannot leave the store. That is told
// until they have, also after other failures and restarts.
func TestLosses(t *testing.T) {
	f := newFull(t)
	if err := f.rounds(2); err != nil {
		t.Fatal(err)
	}
	if cold, local := f.files(); cold != 1 || local != 0 {
		t.Fatalf("%d cold files, %d local ones", cold, local)
	}
	sh, release, err := f.store.OpenShard(f.first())
	if err != nil {
		t.Fatal(err)
	}
	key := names.Key(sh.Cold().Cold[0].Object())
	release()
	content, err := object.Read(t.Context(), f.objects, key, 1<<20)
	if err == nil {
		err = f.objects.Delete(t.Context(), key)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.forget(0, 10)
	told := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "is missing") || !strings.Contains(err.Error(), "compact shard") {
			t.Errorf("%s: %v, want the missing object and what needs it", what, err)
		}
	}
	f.now = f.now.Add(time.Hour)
	told("the look for deleted rows", f.rounds(1))
	told("the next round", f.rounds(1))
	f.restart()
	told("after a restart", f.rounds(1))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = f.purge(ended, true)
	told("after one that was ended", f.losses())
	if err := f.objects.Put(t.Context(), key, object.Content{Bytes: content}); err != nil {
		t.Fatal(err)
	}
	f.now = f.now.Add(time.Hour)
	if err := f.rounds(1); err != nil {
		t.Errorf("with the object: %v", err)
	}
}

// TestOtherStore has the place of the store empty, as a disk that is not mounted: nothing is put
// there, and that is told, also by a server that has used the store before. A claim takes it.
func TestOtherStore(t *testing.T) {
	f := newFull(t)
	groups := f.Catalog().Databases[0].RetentionPolicies[0].ShardGroups
	f.options.After = time.Duration(f.now.UnixNano() - groups[0].End)
	f.restart()
	if err := f.rounds(2); err != nil {
		t.Fatal(err)
	}
	right, empty := f.options.Objects, object.OpenDir(f.options.FS, "/empty")
	other := func() {
		f.Service.opt.Objects, f.Service.opt.Place = empty, place.Place{Dir: "/empty"}
	}
	told := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, names.ErrForeign) || !strings.Contains(err.Error(), "nobody owns it") {
			t.Errorf("%s: %v", what, err)
		}
		if found, err := empty.List(t.Context(), names.Dir); err != nil || len(found) > 0 {
			t.Errorf("%s: %v is there, %v", what, found, err)
		}
	}
	f.opt.After = time.Hour // the second shard is due
	other()
	told("a server that runs", f.rounds(1))
	f.options.After = time.Hour
	f.restart()
	other()
	told("after a restart", f.rounds(1))
	f.note(f.round(t.Context()))
	if h := f.Health(); !strings.Contains(h, "nobody owns it") {
		t.Errorf("health: %q", h)
	}
	if _, local := f.files(); local != 0 {
		t.Errorf("%d local files", local)
	}
	f.Service.opt.Objects, f.Service.opt.Place = right, place.Place{Dir: "/cold"}
	if err := f.rounds(2); err != nil {
		t.Errorf("with the right store: %v", err)
	}
	other()
	if err := f.claimOwner(t.Context(), true); err != nil {
		t.Error(err)
	}
	if err := f.own(t.Context()); err != nil {
		t.Errorf("after a claim: %v", err)
	}
}

// TestUnknownNeedsBeforeChill has one shard that does not open, so that no list can be written. The
// files of others are not read in vain.
func TestUnknownNeedsBeforeChill(t *testing.T) {
	f := newFull(t)
	groups := f.Catalog().Databases[0].RetentionPolicies[0].ShardGroups
	f.refused = groups[1].Shards[0].ID
	f.options.After = time.Duration(f.now.UnixNano() - groups[0].End)
	f.restart()
	if err := f.rounds(1); err == nil || !strings.Contains(err.Error(), "is not known") || strings.Contains(err.Error(), "bring shard") {
		t.Errorf("a round: %v", err)
	}
	f.refused = 0
	if err := f.rounds(1); err != nil {
		t.Error(err)
	}
	if cold, local := f.files(); cold != 1 || local != 0 {
		t.Errorf("%d cold files, %d local ones", cold, local)
	}
}

// TestPurgedShardReturns has rows deleted of a cold shard whose policy brings no shards to the store
// any more. Readers keep the shard, and what is left of it goes to the store again, also after a
// restart. One that was fetched stays here.
func TestPurgedShardReturns(t *testing.T) {
	f := newFull(t)
	files := func(what string, wantCold, wantLocal int, published bool) {
		t.Helper()
		if cold, local := f.files(); cold != wantCold || local != wantLocal {
			t.Errorf("%s: %d cold files, %d local ones; want %d, %d", what, cold, local, wantCold, wantLocal)
		}
		newest, err := states.Newest(t.Context(), f.Objects())
		if err != nil {
			t.Fatal(err)
		}
		m, err := states.Read(t.Context(), f.Objects(), newest)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(m.Shards, func(s backup.ShardManifest) bool { return s.ID == f.first() }); got != published {
			t.Errorf("%s: readers have the shard: %v, want %v", what, got, published)
		}
	}
	round := func() {
		t.Helper()
		if err := f.rounds(1); err != nil {
			t.Fatal(err)
		}
	}
	round()
	files("the first round", 1, 0, true)
	never := time.Duration(meta.NeverCold)
	f.apply(meta.AlterRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: "autogen", ColdAfter: &never}})
	purge := func(from, to int64) {
		t.Helper()
		f.forget(from, to)
		f.now = f.now.Add(time.Hour)
		reads := 0
		f.reads = func() {
			if reads++; !New(f.options).returns(f.first()) {
				t.Error("a crash in the purge would forget that the shard goes to the store")
			}
		}
		round()
		if f.reads = nil; reads == 0 {
			t.Error("the purge read nothing")
		}
		files("a purge", 0, 1, true)
	}
	purge(0, 10)
	f.restart()
	round()
	files("the round after it", 1, 0, true)
	if f.returns(f.first()) {
		t.Error("a cold shard is due")
	}
	f.now = f.now.Add(time.Hour)
	round()
	if New(f.options).returns(f.first()) {
		t.Error("a purge that had nothing to do leaves the shard due")
	}
	purge(11, 20)
	if err := f.fetch(t.Context(), &Report{}, func(_ meta.ShardLocation, id uint64) bool { return id == f.first() }); err != nil {
		t.Fatal(err)
	}
	round()
	files("a fetch", 0, 1, false)
	f.restart()
	round()
	files("a restart after a fetch", 0, 1, false)
	if err := f.sweepNow(t.Context(), &Report{}); err != nil {
		t.Fatal(err)
	}
	files("a sweep", 0, 1, false)
}
