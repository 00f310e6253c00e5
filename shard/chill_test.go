package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/object"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/shard/manifest"
	"tsdbd/shard/tails"
	"tsdbd/tsm"
)

// coldDir is a cold store in the file system of a bench.
type coldDir struct {
	fs *vfstest.FS
	// away says that the store cannot be reached.
	away  *bool
	reads int
}

var errAway = fmt.Errorf("%w: on purpose", object.ErrUnreachable)

func (c *coldDir) store() object.Store { return object.OpenDir(c.fs, "/cold") }

func (c *coldDir) Put(ctx context.Context, dir string, files []manifest.File) error {
	for _, f := range files {
		err := c.store().Put(ctx, f.Object(), object.Content{FS: c.fs, Path: dir + "/" + f.Name, Keep: true})
		if err != nil && !errors.Is(err, object.ErrExists) {
			return err
		}
	}
	return nil
}

func (c *coldDir) Commit(ctx context.Context, files []manifest.File, swap func() error) error {
	for _, f := range files {
		if i, err := c.store().Stat(ctx, f.Object()); err != nil || i.Size != f.Size {
			return fmt.Errorf("object %s has %d bytes: %w", f.Object(), i.Size, err)
		}
	}
	return swap()
}

func (c *coldDir) Get(ctx context.Context, f *manifest.File, name string) error {
	in, err := c.store().ReadRange(ctx, f.Object(), 0, f.Size)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.fs.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// coldBody is an object of the store.
type coldBody struct {
	c    *coldDir
	name string
}

func (b coldBody) ReadBody(ctx context.Context, p []byte, off int64) error {
	if b.c.reads++; *b.c.away {
		return errAway
	}
	in, err := b.c.store().ReadRange(ctx, b.name, off, int64(len(p)))
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.ReadFull(in, p)
	return err
}

// cold has the shard of a bench read a cold store in the bench's file system.
func (b *bench) cold() *coldDir {
	c := &coldDir{fs: b.fs, away: new(bool)}
	b.options.Cold = func(name string, _ int64) tsm.Body { return coldBody{c, name} }
	b.s.cold = b.options.Cold
	return c
}

// TestChillAgainstModel brings a shard to a cold store and back among writes, deletes, moves,
// merges and restarts, and compares scans with a map after each.
func TestChillAgainstModel(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 12))
	chilled, purged, thawed := 0, 0, 0
	for range max(testseed.Rounds(10), 4) {
		b := newBench(t, r)
		c := b.cold()
		done := func(n *int) func(did bool, err error) {
			return func(did bool, err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				if did {
					*n++
				}
			}
		}
		for range 50 {
			switch k := r.IntN(16); {
			case k < 4:
				b.few()
			case k < 5:
				b.write()
			case k < 7:
				b.delete()
			case k < 8:
				b.move(b.first(1), fmt.Sprint(r.IntN(6)))
			case k < 9:
				b.reopen()
			case k < 10:
				b.flush()
				if _, err := b.s.Compact(t.Context(), r.IntN(2) == 0); err != nil {
					t.Fatal(err)
				}
			case k < 14:
				b.flush()
				b.compact(true)
				done(&chilled)(b.s.Chill(t.Context(), c))
			case k < 15:
				b.flush()
				done(&purged)(b.s.Purge(t.Context()))
			default:
				done(&thawed)(b.s.Thaw(t.Context(), c))
			}
			b.check()
		}
		b.flush()
		if _, err := b.s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.compact(true)
		b.checks()
		if moves := b.waiting(); moves > 0 {
			t.Errorf("%d moves still wait", moves)
		}
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if chilled == 0 || purged == 0 || thawed == 0 {
		t.Errorf("chilled %d times, purged %d, thawed %d", chilled, purged, thawed)
	}
}

// coldShard returns a shard whose rows are all in the store.
func coldShard(t *testing.T) (*bench, *coldDir) {
	b := fixed(t)
	c := b.cold()
	for i := range b.series {
		b.put(i, 3000, int64(i), 7)
	}
	b.flush()
	b.compact(true)
	if did, err := b.s.Chill(t.Context(), c); !did || err != nil {
		t.Fatal(did, err)
	}
	return b, c
}

// TestChillLeavesTails takes the bodies of files off the disk, and reads statistics without
// the store.
func TestChillLeavesTails(t *testing.T) {
	b, c := coldShard(t)
	for _, path := range b.fs.Files() {
		if strings.HasPrefix(path, testShard) && strings.HasSuffix(path, ".tsm") {
			t.Errorf("%s is left", path)
		}
	}
	b.checks()
	if c.reads == 0 {
		t.Fatal("rows were read without the store")
	}
	held := b.s.Cold()
	bytes, objects := held.Bytes, held.Cold
	if here, _ := b.s.DiskBytes(); len(objects) != 1 || bytes < 4*here/3 {
		t.Errorf("%d bytes in %d objects, %d bytes here", bytes, len(objects), here)
	}
	*c.away = true
	if n, err := readRows(b.s); !errors.Is(err, object.ErrUnreachable) {
		t.Errorf("%d rows without the store: %v", n, err)
	}
	if d := b.s.Damaged(); len(d) > 0 {
		t.Errorf("a store that is away counts as damage: %v", d)
	}
	// A delete does not wait for the store, nor do writes, merges and restarts.
	b.hide(1, model.TimeRange{Min: 100, Max: 10_000})
	b.put(0, 10, 3, 7)
	b.reopen()
	b.compact(true)
	if did, err := b.s.Purge(t.Context()); !errors.Is(err, object.ErrUnreachable) {
		t.Errorf("purge without the store: %v, %v", did, err)
	}
	*c.away = false
	b.checks()
	if did, err := b.s.Purge(t.Context()); !did || err != nil {
		t.Errorf("purge: %v, %v", did, err)
	}
	if b.s.Cold().Bytes > 0 || len(b.s.mu.set.Tombstones) > 0 {
		t.Errorf("%d bytes with deleted rows are left, %d tombstones", bytes, len(b.s.mu.set.Tombstones))
	}
	b.checks()
}

// TestTailIsRestored damages a tail and removes it. It is made again of its object. Without
// the store the shard stays shut, and nothing is set aside.
func TestTailIsRestored(t *testing.T) {
	b, c := coldShard(t)
	name := testShard + b.s.mu.manifest.TSM[0].Name
	for what, spoil := range map[string]func() error{
		"damaged": func() error {
			f, err := b.fs.OpenReadWrite(name)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte{1, 2, 3}, 30)
			return errors.Join(err, f.Sync(), f.Close())
		},
		"removed": func() error { return b.fs.Remove(name) },
	} {
		if err := errors.Join(b.s.Close(), spoil()); err != nil {
			t.Fatal(err)
		}
		*c.away = true
		opt := b.options
		opt.FS, opt.Series, opt.Range = b.fs, b.sf, model.AllTime
		if s, err := Open("/db/shard-1", 1, opt); err == nil || !errors.Is(err, object.ErrUnreachable) {
			t.Errorf("%s, the store away: %v, %v", what, s, err)
		}
		*c.away = false
		b.open()
		if len(b.s.mu.manifest.TSM) != 1 || len(b.s.Quarantine().List()) > 0 {
			t.Errorf("%s: files %+v, quarantine %+v", what, b.s.mu.manifest.TSM, b.s.Quarantine().List())
		}
		b.checks()
	}
}

// changedBody is an object whose bytes have changed on the way into a cache.
type changedBody struct {
	coldBody
	again *int
}

func (b changedBody) Name() string { return b.name }

func (b changedBody) Expect(context.Context, int64, int) error { return nil }

func (b changedBody) ReadBody(ctx context.Context, p []byte, off int64) error {
	err := b.coldBody.ReadBody(ctx, p, off)
	p[len(p)/2] ^= 1
	return err
}

func (b changedBody) ReadBodyAgain(ctx context.Context, p []byte, off int64) error {
	*b.again++
	return b.coldBody.ReadBody(ctx, p, off)
}

// TestTailIsRestoredAgain loses a tail while the cache has wrong bytes of its object: the rows are
// not set aside for that.
func TestTailIsRestoredAgain(t *testing.T) {
	b, c := coldShard(t)
	again := 0
	b.options.Cold = func(name string, _ int64) tsm.Body { return changedBody{coldBody{c, name}, &again} }
	if err := errors.Join(b.s.Close(), b.fs.Remove(testShard+b.s.mu.manifest.TSM[0].Name)); err != nil {
		t.Fatal(err)
	}
	b.open()
	if len(b.s.mu.manifest.TSM) != 1 || len(b.s.Quarantine().List()) > 0 {
		t.Errorf("files %+v, quarantine %+v", b.s.mu.manifest.TSM, b.s.Quarantine().List())
	}
	b.checks()
	if again == 0 {
		t.Error("nothing was read again")
	}
}

// TestPurgeSaysThatItCouldNot deletes rows of which only the store can tell how many they are. While
// it is away, a purge has not been made.
func TestPurgeSaysThatItCouldNot(t *testing.T) {
	b := fixed(t)
	c := b.cold()
	for i := range b.series {
		b.put(i, 3000, int64(i), 7)
		b.put(i, 300, int64(i)+1, 31) // the times are irregular
	}
	b.flush()
	b.compact(true)
	if did, err := b.s.Chill(t.Context(), c); !did || err != nil {
		t.Fatal(did, err)
	}
	b.hide(1, model.TimeRange{Min: 100, Max: 10_000})
	*c.away = true
	if did, err := b.s.Purge(t.Context()); did || !errors.Is(err, object.ErrUnreachable) {
		t.Errorf("purge without the store: %v, %v", did, err)
	}
	*c.away = false
	if did, err := b.s.Purge(t.Context()); !did || err != nil {
		t.Errorf("purge: %v, %v", did, err)
	}
	b.checks()
}

// TestColdWithoutStore opens a shard whose store is not set any more: what the tails say is
// answered, rows are not.
func TestColdWithoutStore(t *testing.T) {
	b, _ := coldShard(t)
	b.options.Cold = nil
	b.reopen()
	if n, err := readRows(b.s); !errors.Is(err, tails.ErrAbsent) {
		t.Errorf("%d rows: %v", n, err)
	}
}

// TestLateRowsStayLocal has a cold shard get few late rows, which stay, and many.
func TestLateRowsStayLocal(t *testing.T) {
	b, c := coldShard(t)
	f := func(n int, want bool) {
		t.Helper()
		b.put(0, n, 1<<20, 3)
		b.flush()
		b.compact(true)
		if did, err := b.s.Chill(t.Context(), c); did != want || err != nil {
			t.Errorf("%d late rows: chilled %v, %v", n, did, err)
		}
		b.checks()
	}
	f(2, false)
	f(3000, true)
	if objects := b.s.Cold().Cold; len(objects) != 2 {
		t.Errorf("%d objects", len(objects))
	}
}

// cloned returns a copy of a model's rows.
func cloned(rows map[model.SeriesID]map[int64]map[int]uint64) map[model.SeriesID]map[int64]map[int]uint64 {
	out := map[model.SeriesID]map[int64]map[int]uint64{}
	for id, r := range rows {
		out[id] = maps.Clone(r)
	}
	return out
}

// TestChillWhileOperationsFail lets one file operation after another fail, and the power fail
// there, while a shard goes to the store, is purged, and comes back. No row is lost, each
// object that a manifest names is there, and no file is left that nothing names.
func TestChillWhileOperationsFail(t *testing.T) {
	clean := fixed(t)
	for i := range clean.series {
		clean.put(i, 50, int64(i), 1)
	}
	clean.flush()
	if err := clean.s.Close(); err != nil {
		t.Fatal(err)
	}
	fault, deletedTimes := errors.New("fault"), model.TimeRange{Min: 10, Max: 20}
	steps := func(b *bench, c *coldDir) (errs int) {
		step := func(did bool, err error) {
			b.t.Helper()
			if errors.Is(err, fault) {
				errs++
			} else if err != nil {
				b.t.Fatal(err)
			}
			b.check()
		}
		b.compact(true)
		for range 2 {
			step(b.s.Chill(b.t.Context(), c))
		}
		b.hide(1, deletedTimes)
		for range 2 {
			step(b.s.Purge(b.t.Context()))
		}
		for range 2 {
			step(b.s.Chill(b.t.Context(), c))
		}
		for range 2 {
			step(b.s.Thaw(b.t.Context(), c))
		}
		return errs
	}
	check := func(b *bench, c *coldDir, at int) {
		t.Helper()
		b.check()
		objects := b.s.Cold().Cold
		for _, o := range objects {
			if _, err := c.store().Stat(t.Context(), o.Object()); err != nil {
				t.Errorf("operation %d: %v", at, err)
			}
		}
		for _, path := range b.fs.Files() {
			if name, in := strings.CutPrefix(path, testShard); in && !slices.Contains(manifest.Names[:], name) && !b.s.mu.manifest.Has(name) {
				t.Errorf("operation %d: %s is left", at, name)
			}
		}
	}
	failed := 0
	for at := 0; ; at++ {
		b := *clean
		b.fs = clean.fs.Clone()
		b.want.rows = cloned(clean.want.rows)
		b.open()
		c := b.cold()
		count := 0
		var crash *vfstest.FS
		deleted := false
		b.fs.SetHook(func(op vfstest.Op) error {
			if count++; count-1 == at {
				crash = b.fs.Crash(b.r, 0.5)
				deleted = b.sequence > clean.sequence
				return fmt.Errorf("%s %s failed: %w", op.Kind, op.Path, fault)
			}
			return nil
		})
		func() {
			defer b.fs.SetHook(nil)
			errs := steps(&b, c)
			if failed += errs; errs > 1 {
				t.Errorf("operation %d failed once, steps %d times", at, errs)
			}
		}()
		b.reopen()
		check(&b, c, at)
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
		if crash == nil {
			break
		}
		b.fs, b.sequence, b.want.rows = crash, clean.sequence, cloned(clean.want.rows)
		c = b.cold()
		b.open()
		if deleted {
			b.hide(1, deletedTimes) // as the log brings it again
		}
		check(&b, c, at)
		if err := b.s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if failed == 0 {
		t.Error("nothing failed")
	}
}
