package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/shard/manifest"
	"tsdbd/shard/renew"
)

// fetchFrom returns a Fetch that copies the files of a shard of another member. Between what
// it does, it calls the functions.
func (m *member) fetchFrom(from *member, id uint64, beforeCut, afterCut func()) Fetch {
	return func(ctx context.Context, begun func(uint64) error, use func(*renew.Files) error) error {
		beforeCut()
		set, err := from.store.Backup(ctx, func(_ *meta.Database, _ *meta.RetentionPolicy, _ *meta.ShardGroup, shard uint64) bool {
			return shard == id
		})
		if err != nil {
			return err
		}
		defer set.Release()
		// This node is at the cut or behind it.
		err = from.store.write("db", fmt.Sprintf("m,h=a v=%d 10\nm,h=d v=1 %d", set.Sequence, set.Sequence))
		if err != nil && !errors.Is(err, ErrNotLeader) {
			m.t.Fatal(err)
		}
		m.must(m.follow(allEntries))
		if err := begun(set.Sequence); err != nil {
			return err
		}
		f := &renew.Files{From: "other", Cut: set.Sequence, Manifest: manifest.New(id, m.store.Catalog().Lineage), Path: func(name string) string { return "/fetched/" + name }}
		defer m.fs.RemoveAll("/fetched")
		if err := m.fs.MkdirAll("/fetched"); err != nil {
			return err
		}
		for _, e := range set.Shards {
			if f.Manifest, err = manifest.Decode("MANIFEST", e.Encoded); err != nil {
				return err
			}
			for _, t := range e.Manifest.TSM {
				b, err := vfs.ReadFile(from.fs, e.Dir+"/"+t.Name)
				if err := errors.Join(err, m.fs.Put("/fetched/"+t.Name, b)); err != nil {
					return err
				}
			}
		}
		afterCut()
		return use(f)
	}
}

// renewed is a leader and a follower whose shard loses its files.
type renewed struct {
	t             testing.TB
	leader, other *member
	id            uint64
	step          int
}

func newRenewed(t testing.TB) *renewed {
	c := newCluster(t, 2, nil)
	r := &renewed{t: t, leader: c.members[0], other: c.members[1]}
	c.elect(r.leader, 0)
	r.leader.store.create("db")
	for range 20 {
		r.change()
	}
	r.other.must(r.other.follow(allEntries))
	r.other.store.flushAll(r.t.Context())
	for range 5 {
		r.change()
	}
	r.id = r.other.store.entries()[0].ID()
	return r
}

// change writes points, new series and over old ones, and deletes some of before.
func (r *renewed) change() {
	r.step++
	r.leader.must(r.leader.store.write("db", fmt.Sprintf("m,h=new%d v=1 %d\nm,h=a v=%d 10\nm,h=b v=%d %d", r.step, r.step, r.step, r.step, r.step)))
	r.leader.must(r.leader.store.Delete(r.t.Context(), scan.DeleteRequest{Database: "db", Range: model.TimeRange{Min: int64(r.step) - 2, Max: int64(r.step) - 2}}))
	r.leader.must(r.leader.store.write("db", fmt.Sprintf("m,h=c v=1 %d", 100+r.step)))
}

// half changes more than the follower has seen.
func (r *renewed) half() {
	r.change()
	r.other.must(r.other.follow(2))
	r.change()
}

// flushed is half with a flush of the follower in between.
func (r *renewed) flushed() {
	r.half()
	r.other.must(r.other.follow(3))
	r.other.store.flushAll(r.t.Context())
	r.half()
}

// harm takes the files of the follower's shard away.
func (r *renewed) harm() {
	// A merge that is under way would write its inputs anew.
	r.other.must(r.other.store.Close())
	for _, name := range r.other.tsm() {
		r.other.must(r.other.fs.Remove(name))
	}
	r.again()
	if len(r.other.store.losses("db")) == 0 {
		r.t.Fatal("no damage")
	}
}

// reopen ends the follower and begins with what it has on its disk.
func (r *renewed) reopen() {
	r.other.must(r.other.store.Close())
	r.again()
}

// again begins with what the follower has on its disk.
func (r *renewed) again() {
	r.other.open()
	r.other.must(r.other.follow(allEntries))
}

func (r *renewed) renew(beforeCut, afterCut func()) error {
	return r.other.store.RenewShard(r.t.Context(), r.id, r.other.fetchFrom(r.leader, r.id, beforeCut, afterCut))
}

// check compares the follower with the leader.
func (r *renewed) check(what string) {
	r.t.Helper()
	r.other.must(r.other.follow(allEntries))
	if l := r.other.store.losses("db"); len(l) > 0 {
		r.t.Fatalf("%s: lost: %v", what, l)
	}
	if d := differences(r.other.store.sums(), r.leader.store.sums()); len(d) > 0 {
		r.t.Fatalf("%s: %v\n%v\n%v", what, d, r.other.store.read("db"), r.leader.store.read("db"))
	}
	if have, want := r.other.store.livingSeries("db"), r.leader.store.livingSeries("db"); have != want {
		r.t.Fatalf("%s: %d series, the leader has %d", what, have, want)
	}
}

// TestRenewShard renews a shard of a follower in the midst of writes and deletes, whose
// entries come at each place of the renewal.
func TestRenewShard(t *testing.T) {
	r := newRenewed(t)
	all := []func(){func() {}, r.change, r.half, r.flushed}
	late := 0
	for i, before := range all {
		for j, after := range all {
			what := fmt.Sprint(i, j)
			r.harm()
			err := r.renew(before, after)
			for ; errors.Is(err, renew.ErrNotNow); late++ { // flushed before the cut was known
				err = r.renew(func() {}, after)
			}
			r.other.must(err)
			r.check(what)
			r.change()
			r.check(what)
			for _, e := range r.other.store.entries() {
				r.other.store.mergeAll(e, true)
			}
			r.check(what + " merged")
			r.reopen()
			r.check(what + " opened again")
		}
	}
	if late != len(all) {
		t.Errorf("%d renewals came too late, want those with a flush before the cut", late)
	}
	r.harm()
	r.leader.store.Retire()
	r.other.store.Lead()
	if err := r.renew(func() {}, func() {}); !errors.Is(err, renew.ErrNotNow) {
		t.Errorf("a leader: %v", err)
	}
}

// TestRenewCrash cuts the power at each operation of a renewal. The next start knows that
// points are missing, or has them all; no deleted point is back. Then it renews again.
func TestRenewCrash(t *testing.T) {
	r := newRenewed(t)
	r.harm()
	type crash struct {
		fs   *vfstest.FS
		base uint64
		op   vfstest.Op
	}
	var crashes []crash
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 1))
	fs := r.other.fs
	fs.SetHook(func(op vfstest.Op) error {
		for _, keep := range []float64{0, 0.5, 1} {
			crashes = append(crashes, crash{fs.Crash(rnd, keep), r.other.base, op})
		}
		return nil
	})
	r.other.must(r.renew(r.half, r.flushed))
	fs.SetHook(nil)
	r.check("renewed")
	r.other.must(r.other.store.Close())
	lossy := 0
	for _, c := range crashes {
		r.other.fs, r.other.base = c.fs, c.base
		r.other.open()
		r.other.must(r.other.follow(allEntries))
		if len(r.other.store.losses("db")) > 0 {
			lossy++
			r.other.must(r.renew(func() {}, func() {}))
		}
		r.check(fmt.Sprintf("power cut at %+v", c.op))
		r.other.must(r.other.store.Close())
	}
	if lossy == 0 || lossy == len(crashes) {
		t.Errorf("%d of %d starts had losses: the crashes are not those of the change", lossy, len(crashes))
	}
	r.other.open()
}

// TestRenewFails has each operation of a renewal fail: the shard is as it was, or renewed,
// and the next try renews it.
func TestRenewFails(t *testing.T) {
	r := newRenewed(t)
	full := &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	for n := 0; ; n += 3 {
		r.harm()
		before := r.other.store.read("db")
		ops := r.other.fs.FailFrom(n, full)
		err := r.renew(func() {}, func() {})
		done := ops() <= n
		r.other.fs.SetHook(nil)
		now, all := r.other.store.read("db"), r.leader.store.read("db")
		maps.DeleteFunc(before, func(k, v string) bool { return all[k] != v })
		for k, v := range now {
			if all[k] != v {
				t.Fatalf("after operation %d failed, %s is %s, the leader has %q", n, k, v, all[k])
			}
			delete(before, k)
		}
		if len(before) > 0 {
			t.Fatalf("after operation %d failed, these are gone: %v", n, before)
		}
		for range 20 { // a flush that failed may have to be repeated
			if len(r.other.store.losses("db")) == 0 && err == nil {
				break
			}
			err = r.renew(func() {}, func() {})
		}
		r.check(fmt.Sprint("failed from operation ", n))
		r.change()
		r.check(fmt.Sprint("failed from operation ", n))
		if done {
			break
		}
	}
}

// tsm returns the paths of a member's TSM files.
func (m *member) tsm() (out []string) {
	for _, e := range m.store.entries() {
		dir := fmt.Sprintf("/data/db-1/shard-%d", e.ID())
		names, err := m.fs.List(dir)
		m.must(err)
		for _, name := range names {
			if strings.HasSuffix(name, ".tsm") {
				out = append(out, dir+"/"+name)
			}
		}
	}
	return out
}

// TestRenewAfterFailedFlush has a flush fail before a renewal: what the renewal flushes then
// is also what came since.
func TestRenewAfterFailedFlush(t *testing.T) {
	r := newRenewed(t)
	r.harm()
	s := r.other.store
	r.change()
	r.other.must(r.other.follow(allEntries))
	r.other.fs.FailFrom(0, &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	s.flushAll(t.Context())
	r.other.fs.SetHook(nil)
	r.change()
	r.other.must(r.other.follow(allEntries))
	e := s.shard(r.id)
	if e.tries.pending == nil {
		t.Fatal("no flush has failed")
	}
	s.flushing.Lock()
	err := s.flushAboveLocked(t.Context(), e, 0)
	s.flushing.Unlock()
	if sequence, dirty := e.FirstUnflushed(); err != nil || dirty {
		t.Fatalf("rows of %d wait in memory: %v", sequence, err)
	}
	r.other.must(r.renew(func() {}, func() {}))
	r.check("renewed")
}
