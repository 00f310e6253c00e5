package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/series"
	"tsdbd/store/content"
	"tsdbd/wal/entry"
)

// TestFollowWaits follows with full caches: nothing is refused or lost, and what
// changes the role, reads, or closes the store does not wait for it.
func TestFollowWaits(t *testing.T) {
	c := newCluster(t, 2, func(o *Options) { o.FlushBytes = 1 << 40 })
	a, b := c.members[0], c.members[1]
	c.elect(a, 0)
	a.store.create("db")
	want := points{}
	write := func(batches int) {
		for range batches {
			var lines strings.Builder
			for range 200 {
				n := int64(len(want))
				fmt.Fprintf(&lines, "m,h=a v=%di %d\n", n, n)
				want[pointKey("m,h=a", n, "v")] = fmt.Sprintf("%di", n)
			}
			c.must(a.store.write("db", lines.String()))
		}
	}
	// fill lets b follow until it has no room.
	fill := func() chan error {
		done := make(chan error, 1)
		go func() { done <- b.follow(allEntries) }()
		for b.store.held() <= b.store.opt.CacheBytes {
			select {
			case err := <-done:
				t.Fatalf("followed all without a wait: %v", err)
			case <-time.After(time.Millisecond):
			}
		}
		return done
	}
	write(40)
	c.must(b.store.Close())
	b.adjust = func(o *Options) { o.FlushBytes, o.CacheBytes = 1<<40, 32<<10 }
	b.open()
	b.store.flushing.Lock()
	done := fill()
	b.store.Retire()
	b.store.sums()
	b.store.read("db")
	b.store.flushing.Unlock()
	c.must(<-done)
	if text := diff(b.store.read("db"), want); text != "" {
		t.Error(text)
	}

	write(40)
	fail := func(op vfstest.Op) error {
		if strings.HasSuffix(op.Path, ".tsm") {
			return errors.New("input/output error")
		}
		return nil
	}
	b.fs.SetHook(fail)
	done = fill()
	_ = b.store.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("a wait that Close ends: %v", err)
	}
	b.fs.SetHook(nil)
	b.open()
	c.must(b.follow(allEntries))
	if text := diff(b.store.read("db"), want); text != "" {
		t.Error(text)
	}

	write(40)
	b.fs.SetHook(fail)
	var end context.CancelFunc
	b.ctx, end = context.WithCancel(t.Context())
	done = fill()
	end()
	if err := <-done; !errors.Is(err, context.Canceled) || b.store.Applied() != b.applied {
		t.Errorf("a wait that the log ends: %v, applied %d of %d", err, b.store.Applied(), b.applied)
	}
	b.fs.SetHook(nil)
	b.ctx = t.Context()
	c.must(b.follow(allEntries))
	if text := diff(b.store.read("db"), want); text != "" {
		t.Error(text)
	}
	c.must(a.store.Close())
	c.must(b.store.Close())
}

// TestFollowConflict gives an id of the log to another key: the store must not go on.
func TestFollowConflict(t *testing.T) {
	c := newCluster(t, 2, nil)
	a, b := c.members[0], c.members[1]
	c.elect(a, 0)
	a.store.create("db")
	c.must(a.store.write("db", "m,h=a v=1 1"))
	c.must(b.follow(allEntries))
	c.must(a.store.write("db", "m,h=b v=1 1"))
	c.must(b.store.mu.databases[1].series.Restore(2, "m,h=other"))
	if err := b.follow(allEntries); !errors.Is(err, series.ErrConflict) || !errors.Is(err, ErrDiverged) {
		t.Errorf("follow: %v", err)
	}
	if n := len(b.store.mu.refused); n > 0 {
		t.Errorf("%d databases are refused", n)
	}
	c.must(a.store.Close())
	c.must(b.store.Close())
}

// TestFollowTriesAgain has the environment fail some attempts to apply an entry: it is
// applied all the same. If it goes on to fail, the error is no divergence.
func TestFollowTriesAgain(t *testing.T) {
	for _, fault := range []error{syscall.EIO, syscall.EMFILE, syscall.ENOSPC} {
		c := newCluster(t, 2, nil)
		a, b := c.members[0], c.members[1]
		c.elect(a, 0)
		a.store.create("db")
		c.must(a.store.write("db", "m,h=a v=1 1"))
		c.must(b.follow(allEntries))
		c.must(a.store.write("db", fmt.Sprintf("m,h=new v=2 %d", 2*week))) // a new shard
		tries := 0
		fail := func(dir string) error {
			if !strings.HasPrefix(dir, "/data/db-1/shard-2") {
				return nil
			}
			tries++
			return fault
		}
		b.fs.SetReadHook(func(_, name string) error { return fail(name) })
		if fault != syscall.ENOSPC {
			c.must(b.follow(1)) // of the catalog
			f := newFollower(b.store.Store)
			f.tries = 2
			e, err := b.decoder.Record(b.next())
			c.must(err)
			e.Sequence = b.applied + 1
			if err := f.follow(t.Context(), e); !errors.Is(err, fault) || errors.Is(err, ErrDiverged) || tries != 3 {
				t.Errorf("%v: %d tries, %v", fault, tries, err)
			}
		}
		tries = 0
		b.fs.SetReadHook(func(_, name string) error {
			if tries == 3 {
				return nil
			}
			return fail(name)
		})
		c.must(b.follow(allEntries))
		b.fs.SetReadHook(nil)
		if text := diff(b.store.read("db"), a.store.read("db")); text != "" || tries != 3 {
			t.Errorf("%v: %d tries\n%s", fault, tries, text)
		}
		c.must(a.store.Close())
		c.must(b.store.Close())
	}
}

// TestFollowRestoresAgain applies an entry again whose series were not restored: they are
// not taken for known.
func TestFollowRestoresAgain(t *testing.T) {
	c := newCluster(t, 2, nil)
	a, b := c.members[0], c.members[1]
	c.elect(a, 0)
	a.store.create("db")
	c.must(a.store.write("db", "m,h=a v=1 1"))
	c.must(b.follow(allEntries))
	c.must(a.store.write("db", "m,h=b v=1 1\nm,h=c v=1 1"))
	c.must(b.store.mu.databases[1].series.Restore(2, "m,h=other"))
	e, err := b.decoder.Record(b.next())
	c.must(err)
	e.Sequence = b.applied + 1
	for range 2 {
		if err := b.opt.Follow(t.Context(), e); !errors.Is(err, series.ErrConflict) {
			t.Errorf("follow: %v", err)
		}
	}
	c.must(a.store.Close())
	c.must(b.store.Close())
}

// TestFollowDiverged tells entries that contradict the state of a node from those that its
// program does not know: another state would not help with these.
func TestFollowDiverged(t *testing.T) {
	c := newCluster(t, 2, nil)
	a, b := c.members[0], c.members[1]
	c.elect(a, 0)
	a.store.create("db")
	c.must(a.store.write("db", "m,h=a v=1 1"))
	c.must(b.follow(allEntries))
	write := func(shard uint64) entry.Entry {
		return entry.Entry{Writes: []entry.Write{{Database: 1, Shard: shard}}}
	}
	for _, test := range []struct {
		name     string
		entry    entry.Entry
		diverged bool
	}{
		{"shard that the catalog does not have", write(0), true},
		{"shard to come", write(99), true},
		{"command of a newer version", entry.Entry{Command: []byte{99, 1}}, false},
		{"command that cannot be read", entry.Entry{Command: []byte("\x01{")}, false},
	} {
		test.entry.Sequence = b.applied + 1
		err := b.opt.Follow(t.Context(), &test.entry)
		if err == nil || errors.Is(err, ErrDiverged) != test.diverged {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	c.must(a.store.Close())
	c.must(b.store.Close())
}

// TestFollowNewSeries lists series and asks for their keys while entries come that
// bring some hundred series each: whoever finds a series finds its key.
func TestFollowNewSeries(t *testing.T) {
	c := newCluster(t, 2, nil)
	a, b := c.members[0], c.members[1]
	c.elect(a, 0)
	a.store.create("db")
	c.must(a.store.write("db", "m,h=a v=1 1"))
	c.must(b.follow(allEntries))
	const entries, each = 100, 400
	for n := range entries {
		var lines strings.Builder
		for k := range each {
			fmt.Fprintf(&lines, "m%d,h=h%d v=1 1\n", n, k)
		}
		c.must(a.store.write("db", lines.String()))
	}
	// look returns whether there are series of a measurement.
	look := func(measurement string) (bool, error) {
		v, err := b.store.View("db", "", model.AllTime)
		if err != nil {
			return false, err
		}
		defer v.Release()
		set, err := v.Shards()[0].Select(context.Background(), measurement, nil)
		if err != nil || set.IsEmpty() {
			return false, err
		}
		_, err = v.SeriesKey(model.SeriesID(set.Maximum()))
		return true, err
	}
	followed := make(chan error, 1)
	go func() { followed <- b.follow(allEntries) }()
	for n := 0; n < entries; {
		found, failed := look(fmt.Sprint("m", n))
		if failed != nil {
			t.Error(failed)
			break
		}
		if found {
			n++
			continue
		}
		select {
		case err := <-followed:
			followed <- err
			if found, _ := look(fmt.Sprint("m", n)); !found {
				t.Fatalf("no series of m%d: %v", n, err)
			}
		default:
		}
	}
	c.must(<-followed)
	c.must(a.store.Close())
	c.must(b.store.Close())
}

// TestFollowRefused follows with a database that does not open, whose series only
// earlier entries define. The log keeps what the database needs, and with the right
// file everything is there.
func TestFollowRefused(t *testing.T) {
	const name = "/data/db-1/series/" + series.LogName
	c := newCluster(t, 2, nil)
	a, b := c.members[0], c.members[1]
	c.elect(a, 0)
	a.store.create("db")
	a.store.create("other")
	c.must(a.store.write("db", "m,h=a v=1 1"))
	c.must(a.store.write("other", "m,h=a v=1 1"))
	c.must(b.follow(allEntries))
	b.store.flushAll(context.Background())
	b.store.trim()
	c.must(b.store.Close())
	if b.base != uint64(len(c.log.records)) {
		t.Fatalf("the base is %d of %d", b.base, len(c.log.records))
	}
	own := b.fs.Content(name)
	c.must(b.fs.Put(name, b.fs.Content("/data/db-2/series/"+series.LogName)))
	b.open()
	b.store.refusedFor("db", "database db does not open", name)
	c.must(a.store.write("other", "m,h=a v=2 2"))
	before := uint64(len(c.log.records))
	c.must(a.store.write("db", "m,h=a v=2 2"))
	c.must(a.store.write("other", "m,h=a v=3 3"))
	c.must(b.follow(allEntries))
	b.store.flushAll(context.Background())
	b.store.trim()
	c.must(b.store.Close())
	if b.base != before {
		t.Errorf("the base is %d, want %d", b.base, before)
	}
	c.must(b.fs.Put(name, own))
	b.open()
	c.must(b.follow(allEntries))
	if diffs := differences(b.store.sums(), a.store.sums()); len(diffs) > 0 {
		t.Error(diffs)
	}
	c.must(a.store.Close())
	c.must(b.store.Close())
}

// TestFollowRefusedLate opens a database at its first entry, and it does not open: the
// log keeps that entry.
func TestFollowRefusedLate(t *testing.T) {
	const name = "/data/db-2/series/" + series.LogName
	c := newCluster(t, 2, nil)
	a, b := c.members[0], c.members[1]
	c.elect(a, 0)
	a.store.create("other")
	c.must(a.store.write("other", "m,h=a v=1 1"))
	c.must(b.follow(allEntries))
	b.store.flushAll(context.Background())
	a.store.create("db")
	b.fs.SetHook(func(op vfstest.Op) error {
		if strings.HasPrefix(op.Path, "/data/db-2") {
			return syscall.ENOSPC
		}
		return nil
	})
	c.must(b.follow(allEntries))
	b.fs.SetHook(nil)
	c.must(b.fs.Put(name, b.fs.Content("/data/db-1/series/"+series.LogName)))
	c.must(a.store.write("db", "m,h=a v=1 1"))
	before := uint64(len(c.log.records)) - 1
	c.must(b.follow(allEntries))
	b.store.refusedFor("db", "database db does not open", name)
	b.store.trim()
	c.must(b.store.Close())
	if b.base != before {
		t.Errorf("the base is %d, want %d", b.base, before)
	}
	c.must(b.fs.Remove(name))
	b.open()
	c.must(b.follow(allEntries))
	if diffs := differences(b.store.sums(), a.store.sums()); len(diffs) > 0 {
		t.Error(diffs)
	}
	c.must(a.store.Close())
	c.must(b.store.Close())
}

// TestFollowDropped starts from an entry for a shard, and one for a database, that
// were dropped later: the series are not defined again, and the files know of the drop.
func TestFollowDropped(t *testing.T) {
	c := newCluster(t, 2, nil)
	a, b := c.members[0], c.members[1]
	c.elect(a, 0)
	a.store.create("db")
	a.store.create("gone")
	c.must(a.store.write("db", "m,h=a v=1 1\nm,h=b v=1 1"))
	c.must(a.store.write("gone", "m,h=a v=1 1"))
	base := uint64(len(c.log.records))
	c.must(a.store.write("gone", "m,h=a v=2 2"))
	c.must(a.store.write("db", "m,h=a v=2 2"))
	g := a.store.Catalog().Database("db").RetentionPolicies[0].ShardGroups[0]
	c.must(a.store.Apply(context.Background(), meta.DropShardGroup{Database: "db", RetentionPolicy: "autogen", ID: g.ID}))
	c.must(a.store.Apply(context.Background(), meta.DropDatabase{Name: "gone"}))
	c.must(b.follow(allEntries))
	b.store.trim() // nothing is left to flush
	left := b.fs.CrashLocked(rand.New(rand.NewPCG(1, 1)), 0)
	c.must(b.store.Close())
	b.fs = left
	// Series b has had no row but in the shard that was dropped before a flush.
	c.must(a.store.write("db", fmt.Sprintf("m,h=b v=5 %d", 9*week)))
	b.base = base
	b.open()
	c.must(b.follow(allEntries))
	if diffs := differences(b.store.sums(), a.store.sums()); len(diffs) > 0 {
		t.Error(diffs)
	}
	c.must(a.store.Close())
	c.must(b.store.Close())
}

// TestFollowFlush flushes a shard when only a part of the log has come again, while
// another shard's files have more of it.
func TestFollowFlush(t *testing.T) {
	c := newCluster(t, 2, nil)
	a, b := c.members[0], c.members[1]
	c.elect(a, 0)
	a.store.create("db")
	c.must(a.store.write("db", "m v=1 1"))
	part := len(c.log.records)
	c.must(a.store.write("db", fmt.Sprintf("m v=1 %d", 9*week)))
	c.must(a.store.write("db", "m v=2 2"))
	c.must(a.store.write("db", fmt.Sprintf("m v=2 %d", 9*week+1)))
	c.must(b.follow(allEntries))
	b.store.flush(context.Background(), b.store.shard(2))
	c.must(b.store.Close())
	b.open()
	c.must(b.follow(part - int(b.base)))
	b.store.flushAll(context.Background())
	if applied := b.store.Applied(); applied != uint64(part) {
		t.Errorf("applied %d, want %d", applied, part)
	}
	c.must(b.follow(allEntries))
	if diffs := differences(b.store.sums(), a.store.sums()); len(diffs) > 0 {
		t.Error(diffs)
	}
	c.must(a.store.Close())
	c.must(b.store.Close())
}

// TestFollowBeside has writers, deletes and changes of the catalog at a leader that
// changes, and others that follow while they flush, merge, are read, summed up and
// backed up.
func TestFollowBeside(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 21))
	c := newCluster(t, 3, func(o *Options) {
		o.FlushBytes, o.CompactAfter = 16<<10, time.Millisecond
		o.MaxValuesPerTag = 100_000
	})
	c.elect(c.members[0], 0)
	c.members[0].store.create("db")
	var leads atomic.Pointer[member]
	leads.Store(c.members[0])
	ctx, cancel := context.WithCancel(context.Background())
	var writers, others sync.WaitGroup
	stop := func(err error) {
		if err != nil {
			t.Error(err)
		}
		cancel()
	}
	batches := 60
	if testing.Short() {
		batches = 20
	}
	for w := range 3 {
		writers.Go(func() {
			for n := 0; n < batches && ctx.Err() == nil; {
				var lines strings.Builder
				for k := range 20 {
					fmt.Fprintf(&lines, "m,h=h%d,w=w%d v=%di,x%d=1 %d\n", n*k, w, n, n%7, int64(k%3)*week+int64(n))
				}
				st := &testStore{Store: leads.Load().store.Store, t: t}
				err := st.write("db", lines.String())
				switch {
				case err == nil && w == 0 && n%10 == 3:
					err = st.Delete(ctx, scan.DeleteRequest{Database: "db", Range: model.TimeRange{Min: 0, Max: int64(n)}})
				case err == nil && w == 1 && n%10 == 7:
					err = st.Apply(ctx, meta.CreateDatabase{Name: fmt.Sprint("db", n)})
				case err == nil && w == 2 && n%10 == 7:
					err = st.Apply(ctx, meta.DropDatabase{Name: fmt.Sprint("db", n-10)})
				}
				var partial *point.PartialWriteError
				switch {
				case err == nil || errors.As(err, &partial):
					n++
				case !errors.Is(err, ErrNotLeader):
					stop(err)
				}
			}
		})
	}
	for i, m := range c.members {
		others.Go(func() {
			for ctx.Err() == nil {
				if err := m.follow(allEntries); err != nil {
					stop(fmt.Errorf("member %d: %w", i, err))
				}
				time.Sleep(time.Millisecond)
			}
		})
		others.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if m.store.Catalog().Database("db") == nil {
					continue
				}
				var err error
				switch n % 3 {
				case 0:
					_, err = readAll(m.store.Store, "db", false)
				case 1:
					var cut *content.Cut
					if cut, err = m.store.Cut(); err == nil {
						_, err = cut.Sum(ctx)
						cut.Release()
					}
				default:
					var set *BackupSet
					if set, err = m.store.Backup(ctx, nil); err == nil {
						set.Release()
					}
				}
				if err != nil && ctx.Err() == nil {
					stop(fmt.Errorf("member %d: %w", i, err))
				}
			}
		})
	}
	finished := make(chan struct{})
	go func() { writers.Wait(); close(finished) }()
	for running := true; running; {
		select {
		case <-finished:
			running = false
		case <-time.After(time.Duration(20+r.IntN(60)) * time.Millisecond):
			next := c.members[r.IntN(len(c.members))]
			c.elect(next, 0)
			leads.Store(next)
		}
	}
	cancel()
	others.Wait()
	for i, m := range c.members {
		c.must(m.follow(allEntries))
		want, got := c.members[0].store.sums(), m.store.sums()
		if diffs := differences(got, want); len(diffs) > 0 || len(want.Shards) == 0 {
			t.Errorf("member %d has %v, member 0 has %v", i, diffs, want.Shards)
		}
	}
	for _, m := range c.members {
		c.must(m.store.Close())
	}
}

// TestFollowCrash cuts the power of a follower all the time. Whatever the disk has
// kept, it follows from its base and has what the leader has.
func TestFollowCrash(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 22))
	crashes := 0
	for run := range 2 {
		c := newCluster(t, 2, nil)
		a, b := c.members[0], c.members[1]
		c.elect(a, 0)
		d := newDriver(a.store, r)
		d.ddl = true
		c.must(d.create())
		for range 120 {
			if op := d.next(); op.name != "restart" && op.name != "backup" {
				c.must(op.run())
				d.want = op.after
			}
		}
		want := a.store.sums()
		var failed error
		every := 13
		if testing.Short() {
			every = 41
		}
		crash := func() error {
			c.log.mu.Lock()
			base := b.base
			c.log.mu.Unlock()
			left := &member{log: c.log, t: t, ctx: t.Context(), fs: b.fs.Crash(r, []float64{0, 0.5, 1}[r.IntN(3)]), base: base}
			left.open()
			for left.applied < uint64(len(c.log.records)) {
				if err := left.follow(1 + r.IntN(20)); err != nil {
					return err
				}
				if r.IntN(3) == 0 {
					left.store.flushSome(r)
				}
			}
			if got := left.store.sums(); !reflect.DeepEqual(got, want) {
				return fmt.Errorf("the follower (a) and the leader (b) differ: %v", differences(got, want))
			}
			return left.store.Close()
		}
		b.fs.SetHook(func(op vfstest.Op) error {
			if op.N%every != 0 || failed != nil {
				return nil
			}
			crashes++
			done := make(chan struct{}) // by a goroutine that holds none of the other store's locks
			go func() {
				defer close(done)
				if err := crash(); err != nil {
					failed = fmt.Errorf("operation %d, %s %s: %w", op.N, op.Kind, op.Path, err)
				}
			}()
			<-done
			return nil
		})
		flushes := rand.New(rand.NewPCG(testseed.Of(t), uint64(run)))
		for b.applied < uint64(len(c.log.records)) {
			c.must(b.follow(1 + flushes.IntN(10)))
			b.store.flushSome(flushes)
			b.store.trim()
			if flushes.IntN(4) == 0 {
				b.store.compactSome(flushes)
			}
		}
		if failed == nil && !reflect.DeepEqual(b.store.sums(), want) {
			t.Error("the follower differs without a crash")
		}
		c.must(b.store.Close())
		b.fs.SetHook(nil)
		if failed != nil {
			t.Fatal(failed)
		}
		c.must(a.store.Close())
	}
	t.Logf("%d crashes", crashes)
}

// TestHeldOnAllMembers: whichever member leads refuses to let a shard group expire that a
// downsample needs, and all drop it by the same entry.
func TestHeldOnAllMembers(t *testing.T) {
	c := newCluster(t, 3, nil)
	leader := c.members[0]
	c.elect(leader, 0)
	day, hour, keep := 24*time.Hour, time.Hour, 100*365*24*time.Hour
	apply := func(cmd meta.Command) error { return leader.store.Apply(t.Context(), cmd) }
	c.must(apply(meta.CreateDatabase{Name: "db", Policy: &meta.RetentionPolicySpec{Name: "raw", Duration: &keep, ShardGroupDuration: &hour}}))
	c.must(apply(meta.CreateRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "hours", ShardGroupDuration: &day}}))
	c.must(apply(meta.CreateDownsample{Database: "db", From: "raw", Into: "hours", Definitions: []meta.Definition{{Period: meta.Period{Every: hour}, Functions: []string{"max"}}}}))
	c.must(leader.store.write("db", fmt.Sprintf("m,host=a f=1 %d", origin)))
	group := leader.store.Catalog().Database("db").RetentionPolicy("raw").ShardGroups[0]
	drop := meta.DropShardGroup{Database: "db", RetentionPolicy: "raw", ID: group.ID, IfDuration: keep}
	for _, m := range c.members {
		c.elect(m, 0)
		leader = m
		if err := apply(drop); !errors.Is(err, meta.ErrDownsampleWaits) {
			t.Fatalf("the group goes: %v", err)
		}
	}
	id := leader.store.Catalog().Database("db").Downsamples[0].ID
	c.must(apply(meta.CompleteWindows{ID: id, Sequence: leader.store.Applied(), Windows: []meta.ComputedWindows{{From: group.Start, To: group.End}}}))
	next := c.members[0]
	c.elect(next, 0)
	leader = next
	c.must(apply(drop))
	for i, m := range c.members {
		if m != leader {
			m.must(m.follow(allEntries))
		}
		if n := len(m.store.Catalog().Database("db").RetentionPolicy("raw").ShardGroups); n != 0 {
			t.Errorf("member %d has %d groups", i, n)
		}
		m.must(m.store.Close())
	}
}
