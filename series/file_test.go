package series

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/formats"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
)

func openSeries(t testing.TB, fs vfs.FS, opt Options) *File {
	t.Helper()
	f, err := Open(fs, "db", opt)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func create(t testing.TB, f *File, keys ...string) []model.SeriesID {
	t.Helper()
	ids := make([]model.SeriesID, len(keys))
	if err := settle(f, keys, ids); err != nil {
		t.Fatal(err)
	}
	return ids
}

func checkKeys(t testing.TB, f *File, want map[model.SeriesID]string) {
	t.Helper()
	var ids []model.SeriesID
	for id, key := range want {
		ids = append(ids, id)
		if got, err := f.Key(id); err != nil || got != key {
			t.Fatalf("Key(%d) = %q, %v; want %q", id, got, err, key)
		}
		if got, ok := f.Lookup(key); !ok || got != id {
			t.Fatalf("Lookup(%q) = %d, %v; want %d", key, got, ok, id)
		}
	}
	slices.Sort(ids)
	n := 0
	if err := f.Keys(ids, func(i int, key string) error {
		if key != want[ids[i]] {
			return fmt.Errorf("Keys: %d is %q, want %q", ids[i], key, want[ids[i]])
		}
		n++
		return nil
	}); err != nil || n != len(ids) {
		t.Fatalf("Keys: %d of %d, %v", n, len(ids), err)
	}
}

func TestFileCreate(t *testing.T) {
	f := openSeries(t, newFS(), Options{})
	got := create(t, f, "m,h=c", "m,h=a", "m,h=c", "m,h=b")
	if want := []model.SeriesID{3, 1, 3, 2}; !slices.Equal(got, want) {
		t.Fatalf("ids %v, want %v", got, want)
	}
	if got := create(t, f, "m,h=b", "a", "m,h=a"); !slices.Equal(got, []model.SeriesID{2, 4, 1}) {
		t.Fatalf("ids %v", got)
	}
	if _, ok := f.Lookup("nosuch"); ok {
		t.Fatal("found a key that was not created")
	}
	if _, err := f.Key(5); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	for _, k := range []string{"", strings.Repeat("x", model.MaxKeyLength+1)} {
		if err := settle(f, []string{k}, make([]model.SeriesID, 1)); err == nil {
			t.Fatalf("key of %d bytes accepted", len(k))
		}
	}
	if f.Len() != 4 {
		t.Fatalf("Len %d", f.Len())
	}
}

func TestReserve(t *testing.T) {
	f := openSeries(t, newFS(), Options{})
	create(t, f, "m,h=a")
	if f.Bytes() == 0 {
		t.Fatal("no bytes")
	}
	f.Reserve(1 << 20)
	if id := create(t, f, "m,h=b")[0]; id != 1<<20 {
		t.Fatalf("id %d", id)
	}
	for id, lost := range map[model.SeriesID]bool{0: false, 2: true, 1<<20 - 1: true, 1<<20 + 1: false} {
		if _, err := f.Key(id); !errors.Is(err, ErrNotFound) || errors.Is(err, ErrLost) != lost {
			t.Errorf("key of %d: %v", id, err)
		}
	}
}

// TestSeal seals a file that has keys to write, while its log is copied. Seal waits
// for the copy. From then on nothing is written, and keys are read until Close.
func TestSeal(t *testing.T) {
	fs := newFS()
	f := openSeries(t, fs, Options{IndexTail: 1})
	keys := make([]string, 2000) // so many that Close would write an index
	for i := range keys {
		keys[i] = fmt.Sprintf("m,h=%04d", i)
	}
	create(t, f, keys...)
	sealed := make(chan struct{})
	if err := f.CopyLog(func() error {
		go func() {
			f.Seal()
			close(sealed)
		}()
		for range 1000 {
			runtime.Gosched()
		}
		select {
		case <-sealed:
			t.Error("sealed while the log is copied")
		default:
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	<-sealed
	before := fs.Ops()
	for what, err := range map[string]error{
		"sync": f.Sync(), "rewrite": f.Rewrite(false),
		"copy": f.CopyLog(func() error { t.Error("copied"); return nil }),
	} {
		if !errors.Is(err, errSealed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if key, err := f.Key(2000); err != nil || key != keys[1999] {
		t.Errorf("key %q, %v", key, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if n := fs.Ops() - before; n > 0 {
		t.Errorf("%d file operations after the seal", n)
	}
}

func TestFileRestore(t *testing.T) {
	fs := newFS()
	f := openSeries(t, fs, Options{})
	want := map[model.SeriesID]string{}
	for _, id := range []model.SeriesID{9, 5, 7, 300, 6, 1000} {
		key := fmt.Sprint("m,id=", id)
		if err := f.Restore(id, key); err != nil {
			t.Fatal(err)
		}
		want[id] = key
		if id == 7 || id == 300 {
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Restore(6, "m,id=6"); err != nil {
		t.Fatal(err)
	}
	if err := f.Restore(6, "other"); !errors.Is(err, ErrConflict) {
		t.Fatal(err)
	}
	if err := f.Restore(8, "m,id=6"); !errors.Is(err, ErrConflict) {
		t.Fatal(err)
	}
	id := create(t, f, "new")[0]
	if id != 1001 {
		t.Fatalf("id %d after a restored 1000", id)
	}
	want[id] = "new"
	checkKeys(t, f, want)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f = openSeries(t, fs, Options{})
	f.Reserve(5000)
	checkKeys(t, f, want)
	if f.Len() != len(want) {
		t.Fatalf("Len %d, want %d", f.Len(), len(want))
	}
	if id := create(t, f, "later")[0]; id != 5000 {
		t.Fatalf("id %d, want 5000", id)
	}
	if err := f.Restore(model.MaxSeriesID, "last"); err != nil {
		t.Fatal(err)
	}
	if err := settle(f, []string{"none left"}, make([]model.SeriesID, 1)); !errors.Is(err, ErrExhausted) {
		t.Fatal(err)
	}
}

// TestFileRandom runs random operations with restarts, with and
// without the index file, against a map.
func TestFileRandom(t *testing.T) {
	r := newRand(t)
	fs := newFS()
	opt := Options{IndexTail: 50, Cache: NewCache(20000)}
	f := openSeries(t, fs, opt)
	want := map[model.SeriesID]string{}
	byKey := map[string]model.SeriesID{}
	for range 300 {
		switch r.IntN(10) {
		default:
			keys := make([]string, r.IntN(60)+1)
			for i := range keys {
				keys[i] = fmt.Sprintf("m,host=host_%d,pad=%s", r.IntN(20000), strings.Repeat("x", r.IntN(2)*600))
			}
			for i, id := range create(t, f, keys...) {
				if have, ok := byKey[keys[i]]; ok && have != id {
					t.Fatalf("%q was %d, now %d", keys[i], have, id)
				}
				if have, ok := want[id]; ok && have != keys[i] {
					t.Fatalf("%d was %q, now %q", id, have, keys[i])
				}
				byKey[keys[i]], want[id] = id, keys[i]
			}
		case 0, 1:
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
		case 2:
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if r.IntN(3) == 0 {
				_ = fs.Remove("db/series.idx")
			}
			f = openSeries(t, fs, opt)
			if r.IntN(4) == 0 {
				if err := f.Rewrite(false); err != nil {
					t.Fatal(err)
				}
			}
		case 3: // crash: what was not synced comes back by replay
			fs = fs.Crash(r, r.Float64())
			f = openSeries(t, fs, opt)
			var ids []model.SeriesID
			for id := range want {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			for _, id := range ids {
				if err := f.Restore(id, want[id]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if f.Len() != len(want) {
			t.Fatalf("Len %d, want %d", f.Len(), len(want))
		}
	}
	checkKeys(t, f, want)
	if d := f.Verify(nil); len(d) > 0 {
		t.Fatal(d)
	}
}

func TestFileConcurrent(t *testing.T) {
	f := openSeries(t, newFS(), Options{IndexTail: 100, Cache: NewCache(30000)})
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			keys, ids := make([]string, 20), make([]model.SeriesID, 20)
			for range 150 {
				for i := range keys {
					keys[i] = fmt.Sprintf("m,h=%d", r.IntN(4000))
				}
				if err := settle(f, keys, ids); err != nil {
					t.Error(err)
				}
				for i, id := range ids {
					if k, err := f.Key(id); err != nil || k != keys[i] {
						t.Errorf("Key(%d) = %q, %v; want %q", id, k, err, keys[i])
						return
					}
					if got, ok := f.Lookup(keys[i]); !ok || got != id {
						t.Errorf("Lookup(%q) = %d, want %d", keys[i], got, id)
						return
					}
				}
			}
		})
	}
	wg.Go(func() {
		for range 60 {
			if err := f.Sync(); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// syncedSeries makes a log of three Syncs and returns what each had synced.
func syncedSeries(t testing.TB, withIndex bool) (*vfstest.FS, []map[model.SeriesID]string, []int) {
	fs := newFS()
	f := openSeries(t, fs, Options{})
	var states []map[model.SeriesID]string
	var sizes []int
	want := map[model.SeriesID]string{}
	for s := range 3 {
		var keys []string
		for i := range 150 {
			keys = append(keys, fmt.Sprintf("cpu,host=host_%d_%d,dc=x", s, i))
		}
		for i, id := range create(t, f, keys...) {
			want[id] = keys[i]
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		state := map[model.SeriesID]string{}
		for k, v := range want {
			state[k] = v
		}
		states = append(states, state)
		sizes = append(sizes, len(fs.Content("db/series.log")))
	}
	if withIndex {
		f.mu.stale = true
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return fs, states, sizes
}

// noWrongKey checks that whatever f answers about want is right, and that the
// rest is an error of the expected classes.
func noWrongKey(t *testing.T, f *File, want map[model.SeriesID]string, what string) (missing []model.SeriesID) {
	t.Helper()
	for id := model.SeriesID(1); int(id) <= len(want); id++ {
		got, err := f.Key(id)
		if err == nil && got != want[id] {
			t.Fatalf("%s: Key(%d) = %q, want %q", what, id, got, want[id])
		}
		if err != nil {
			if !errors.Is(err, binio.ErrCorrupt) && !errors.Is(err, ErrNotFound) {
				t.Fatalf("%s: Key(%d): %v", what, id, err)
			}
			missing = append(missing, id)
		}
		if got, ok := f.Lookup(want[id]); ok && got != id {
			t.Fatalf("%s: Lookup(%q) = %d, want %d", what, want[id], got, id)
		} else if ok != (err == nil) {
			t.Fatalf("%s: Lookup(%q) %v but Key error %v", what, want[id], ok, err)
		}
	}
	return missing
}

func TestLogCutAtEveryByte(t *testing.T) {
	fs, states, sizes := syncedSeries(t, false)
	log := fs.Content("db/series.log")
	all := states[2]
	for n := 0; n <= len(log); n++ {
		c := newFS()
		put(t, c, "db/series.log", slices.Clone(log[:n]))
		if n%3 == 0 { // a grown file whose end never was written
			put(t, c, "db/series.log", append(slices.Clone(log[:n]), make([]byte, 100)...))
		}
		f := openSeries(t, c, Options{})
		missing := noWrongKey(t, f, all, fmt.Sprint("cut at ", n))
		for s := range sizes {
			if n >= sizes[s] && len(missing) > len(all)-len(states[s]) {
				t.Fatalf("cut at %d: %d missing, sync %d was complete", n, len(missing), s)
			}
		}
		if len(f.Damage()) > 0 {
			t.Fatalf("cut at %d: %v", n, f.Damage())
		}
		for _, id := range missing {
			if err := f.Restore(id, all[id]); err != nil {
				t.Fatalf("cut at %d: %v", n, err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if n%7 == 0 {
			f = openSeries(t, c, Options{})
			if m := noWrongKey(t, f, all, "reopened"); len(m) > 0 {
				t.Fatalf("cut at %d: %d missing after repair", n, len(m))
			}
		}
	}
}

func TestFileFlipEveryByte(t *testing.T) {
	for _, withIndex := range []bool{false, true} {
		fs, states, sizes := syncedSeries(t, withIndex)
		all := states[2]
		for _, name := range []string{"db/series.log", "db/series.idx"} {
			if fs.Content(name) == nil {
				continue
			}
			size := len(fs.Content(name))
			for i := 0; i < size; i += testseed.Stride() {
				c := fs.Clone()
				if err := c.Flip(name, int64(i), 1<<(i%8)); err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("%s flip at %d (index %v)", name, i, withIndex)
				f, err := Open(c, "db", Options{})
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				missing := noWrongKey(t, f, all, what)
				if name == "db/series.idx" && len(missing) > 0 {
					t.Fatalf("%s: %d series missing", what, len(missing))
				}
				if name == "db/series.log" && i < sizes[1] && len(f.Verify(nil)) == 0 {
					t.Fatalf("%s: damage of an older sync not reported", what)
				}
				if id := f.NextID(); i < sizes[1] && int(id) != len(all)+1 {
					t.Fatalf("%s: next id %d", what, id)
				}
				if i%5 != 0 {
					continue
				}
				for _, id := range missing {
					if err := f.Restore(id, all[id]); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
				}
				checkKeys(t, f, all)
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				f = openSeries(t, c, Options{})
				checkKeys(t, f, all)
				if err := f.Rewrite(false); err != nil {
					t.Fatal(err)
				}
				if d := f.Verify(nil); len(d) > 0 || f.Len() != len(all) {
					t.Fatalf("%s: after rewrite: %v, %d series", what, d, f.Len())
				}
				checkKeys(t, f, all)
			}
		}
	}
}

// TestFileFaults fails the n-th operation and all after it, then opens
// what is there, also after a power cut: everything a Sync had acknowledged
// must be there.
func TestFileFaults(t *testing.T) {
	r := newRand(t)
	for n := 1; ; n++ {
		fs := newFS()
		ops := fs.FailFrom(n, errInjected)
		synced := map[model.SeriesID]string{}
		f, err := Open(fs, "db", Options{IndexTail: 10})
		if err == nil {
			for s := range 3 {
				var keys []string
				for i := range 200 {
					keys = append(keys, fmt.Sprintf("m,s=%d,i=%d", s, i))
				}
				ids := create(t, f, keys...)
				if err = f.Sync(); err != nil {
					if again := f.Sync(); !errors.Is(again, errInjected) {
						t.Fatalf("op %d: a failed sync was forgotten: %v", n, again)
					}
					break
				}
				for i, id := range ids {
					synced[id] = keys[i]
				}
			}
		}
		if err != nil && !errors.Is(err, errInjected) {
			t.Fatal(err)
		}
		for _, left := range []*vfstest.FS{fs.Clone(), fs.Crash(r, 0), fs.Crash(r, 0.5)} {
			checkKeys(t, openSeries(t, left, Options{}), synced)
		}
		if ops() < n {
			t.Logf("%d operations", ops())
			return
		}
	}
}

// TestFileHeals fails the n-th operation once: a later Sync must make the
// keys durable without another opening, for good.
func TestFileHeals(t *testing.T) {
	r := newRand(t)
	for n := 1; ; n++ {
		fs := newFS()
		f := openSeries(t, fs, Options{IndexTail: 150})
		all := map[model.SeriesID]string{}
		start, hit := fs.Ops(), ""
		fs.SetHook(func(op vfstest.Op) error {
			if op.N-start == n {
				hit = op.Kind + " " + op.Path
				return errInjected
			}
			return nil
		})
		failures := 0
		for s := range 4 {
			var keys []string
			for i := range 100 {
				keys = append(keys, fmt.Sprintf("m,s=%d,i=%d", s, i))
			}
			for i, id := range create(t, f, keys...) {
				all[id] = keys[i]
			}
			for {
				err := f.Sync()
				if err == nil {
					break
				}
				if failures++; failures > 1 || !errors.Is(err, errInjected) {
					t.Fatalf("op %d (%s): %v", n, hit, err)
				}
			}
			checkKeys(t, f, all)
			for _, left := range []*vfstest.FS{fs.CrashLocked(r, 0), fs.CrashLocked(r, 0.5), fs.CrashLocked(r, 1)} {
				checkKeys(t, openSeries(t, left, Options{}), all)
			}
		}
		fs.SetHook(nil)
		if err := f.Close(); err != nil {
			t.Fatalf("op %d (%s): %v", n, hit, err)
		}
		if hit == "" {
			t.Logf("%d operations", n-1)
			return
		}
	}
}

// TestFileCrashControl shows that the power cuts above can lose series:
// without a Sync one must.
func TestFileCrashControl(t *testing.T) {
	fs := newFS()
	f := openSeries(t, fs, Options{})
	create(t, f, "m,a=b")
	if left := openSeries(t, fs.Crash(newRand(t), 0), Options{}); left.Len() != 0 {
		t.Error("nothing was lost without a sync")
	}
}

func TestFileGolden(t *testing.T) {
	fs := newFS()
	f := openSeries(t, fs, Options{})
	create(t, f, "cpu,host=a,region=eu", "cpu,host=b,region=eu", `disk\ io,path=/`)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := f.Restore(7, "mem,host=a"); err != nil {
		t.Fatal(err)
	}
	f.mu.stale = true
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	formats.Golden(t, "series-v2.log.golden", fs.Content("db/series.log"))
	formats.Golden(t, "series-v2.idx.golden", fs.Content("db/series.idx"))
	// The golden files themselves must open.
	c := newFS()
	for from, to := range map[string]string{"series-v2.log.golden": "db/series.log", "series-v2.idx.golden": "db/series.idx"} {
		b, err := os.ReadFile(filepath.Join("testdata", from))
		if err != nil {
			t.Fatal(err)
		}
		put(t, c, to, b)
	}
	checkKeys(t, openSeries(t, c, Options{}), map[model.SeriesID]string{
		1: "cpu,host=a,region=eu",
		2: "cpu,host=b,region=eu", 3: `disk\ io,path=/`, 7: "mem,host=a",
	})
}

// RestoreAll does what Restore does one by one, up to the first conflict.
func TestFileRestoreAll(t *testing.T) {
	r := newRand(t)
	for round := range 60 {
		var files [2]*File
		known := make([]string, r.IntN(300)+1)
		for i := range known {
			known[i] = fmt.Sprintf("m,id=%04d", r.IntN(5000))
		}
		for i := range files {
			files[i] = openSeries(t, vfstest.New(), Options{IndexTail: 10})
			if err := settle(files[i], known, make([]model.SeriesID, len(known))); err != nil {
				t.Fatal(err)
			}
			if round%2 == 0 {
				if err := files[i].Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		var ids []model.SeriesID
		var keys []string
		for range r.IntN(400) {
			switch id := model.SeriesID(r.IntN(files[0].Len()) + 1); {
			case r.IntN(3) == 0: // what is there
				key, err := files[0].Key(id)
				if err != nil {
					t.Fatal(err)
				}
				ids, keys = append(ids, id), append(keys, key)
			case r.IntN(200) == 0: // another key
				ids, keys = append(ids, id), append(keys, "m,id=other")
			case r.IntN(200) == 0: // another id
				ids, keys = append(ids, 9000), append(keys, known[r.IntN(len(known))])
			default:
				n := 10_000 + r.IntN(300)
				ids, keys = append(ids, model.SeriesID(n)), append(keys, fmt.Sprintf("n,id=%d", n))
			}
		}
		var one error
		for i := range ids {
			if one = files[0].Restore(ids[i], keys[i]); one != nil {
				break
			}
		}
		all := files[1].RestoreAll(ids, keys)
		if (one == nil) != (all == nil) || one != nil && one.Error() != all.Error() {
			t.Fatalf("one by one: %v, all: %v", one, all)
		}
		if files[0].Len() != files[1].Len() || files[0].NextID() != files[1].NextID() {
			t.Fatalf("%d series, next %d, want %d, %d", files[1].Len(), files[1].NextID(), files[0].Len(), files[0].NextID())
		}
		for i, id := range ids {
			a, errA := files[0].Key(id)
			b, errB := files[1].Key(id)
			idA, okA := files[0].Lookup(keys[i])
			idB, okB := files[1].Lookup(keys[i])
			if a != b || (errA == nil) != (errB == nil) || idA != idB || okA != okB {
				t.Fatalf("series %d %q: %q %v %d, want %q %v %d", id, keys[i], b, errB, idB, a, errA, idA)
			}
		}
	}
}

// TestClaims: a claim is found like any other series, and in no file until it is
// confirmed. When claims are dropped their ids are free again.
func TestClaims(t *testing.T) {
	fs := vfstest.New()
	f, err := Open(fs, "/s", Options{IndexTail: 1})
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"m,h=a", "m,h=b", "m,h=c", "m,h=d"}
	ids := make([]model.SeriesID, len(keys))
	claim := func() {
		t.Helper()
		if err := f.Claim(keys, ids); err != nil || !slices.Equal(ids, []model.SeriesID{1, 2, 3, 4}) {
			t.Fatalf("claimed %v, %v", ids, err)
		}
	}
	claim()
	claim() // the same ids to whoever comes next
	if first := f.FirstClaim(); first != 1 || f.Len() != 0 || f.PendingBytes() != 0 {
		t.Errorf("first %d, %d series, %d bytes to be synced", first, f.Len(), f.PendingBytes())
	}
	f.Confirm([]model.SeriesID{2})
	check := func(f *File, want ...string) {
		t.Helper()
		if f.Len() != len(want) {
			t.Errorf("%d series, want %v", f.Len(), want)
		}
		for i, key := range keys {
			id, ok := f.Lookup(key)
			if has := slices.Contains(want, key); ok != has || has && id != model.SeriesID(i+1) {
				t.Errorf("%s: %d, %v", key, id, ok)
			}
			if _, err := f.Key(model.SeriesID(i + 1)); (err == nil) != slices.Contains(want, key) {
				t.Errorf("%d: %v", i+1, err)
			}
		}
	}
	if err := f.Sync(); err != nil { // which writes log and index
		t.Fatal(err)
	}
	if id, ok := f.Lookup("m,h=d"); !ok || id != 4 || !f.Claimed(4) || f.Claimed(2) {
		t.Errorf("claim beside a sync: %d, %v", id, ok)
	}
	reopened := func() *File {
		t.Helper()
		g, err := Open(fs.Clone(), "/s", Options{})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	check(reopened(), "m,h=b")
	if err := f.Rewrite(false); err != nil {
		t.Fatal(err)
	}
	check(reopened(), "m,h=b")
	if id, ok := f.Lookup("m,h=a"); !ok || id != 1 {
		t.Errorf("claim beside a rewrite: %d, %v", id, ok)
	}
	f.DropClaims()
	check(f, "m,h=b")
	if f.FirstClaim() != 0 || f.NextID() != 3 {
		t.Errorf("first %d, next %d", f.FirstClaim(), f.NextID())
	}
	// The highest ids are given again, those below a confirmed one are not.
	more := []string{"m,h=e", "m,h=d"}
	if err := f.Claim(more, ids[:2]); err != nil || ids[0] != 4 || ids[1] != 3 {
		t.Errorf("claimed %v, %v", ids[:2], err)
	}
	f.Confirm(ids[:2])
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	g := reopened()
	if key, err := g.Key(4); err != nil || key != "m,h=e" || g.Len() != 3 {
		t.Errorf("reopened: %q, %v, %d series", key, err, g.Len())
	}
}

// TestCreate gives ids for good, and the same to a key that is known, claimed or not.
func TestCreate(t *testing.T) {
	fs := newFS()
	f := openSeries(t, fs, Options{})
	claimed := make([]model.SeriesID, 2)
	if err := f.Claim([]string{"a", "b"}, claimed); err != nil {
		t.Fatal(err)
	}
	made := make([]model.SeriesID, 3)
	if err := f.CreateAll([]string{"b", "c", "c"}, made); err != nil {
		t.Fatal(err)
	}
	create := func(key string) (model.SeriesID, error) {
		var id [1]model.SeriesID
		err := f.CreateAll([]string{key}, id[:])
		return id[0], err
	}
	f.DropClaims() // of a
	if made[0] != claimed[1] || made[1] != made[2] || f.Len() != 2 || f.FirstClaim() != 0 {
		t.Errorf("ids %v, claimed %v, %d series", made, claimed, f.Len())
	}
	checkKeys(t, f, map[model.SeriesID]string{made[0]: "b", made[1]: "c"})
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if id, err := create("c"); err != nil || id != made[1] {
		t.Errorf("c is %d after a sync, %v", id, err)
	}
	if _, err := create(""); err == nil {
		t.Error("an empty key has got an id")
	}
	// Between the claim and the confirmation others drop their claims: the id is nobody's,
	// or another key's.
	id := make([]model.SeriesID, 1)
	if err := f.Claim([]string{"x"}, id); err != nil {
		t.Fatal(err)
	}
	f.DropClaims()
	if settled, err := f.settle([]string{"x"}, id); settled || err != nil {
		t.Errorf("an id that is free: %v, %v", settled, err)
	}
	if other, err := create("y"); err != nil || other != id[0] {
		t.Fatalf("y is %d, %v", other, err)
	}
	if settled, err := f.settle([]string{"x"}, id); settled || err != nil {
		t.Errorf("an id of another key: %v, %v", settled, err)
	}
	checkKeys(t, f, map[model.SeriesID]string{id[0]: "y"})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCacheOfTwoFiles: files that share a cache have together as much in memory as it
// permits, and a closed one has nothing.
func TestCacheOfTwoFiles(t *testing.T) {
	const limit, longest = 40_000, blockKeys * 40
	shared := NewCache(limit)
	var files []*File
	for range 2 {
		f := openSeries(t, newFS(), Options{Cache: shared})
		var keys []string
		for i := range 3000 {
			keys = append(keys, fmt.Sprintf("m,h=%06d", i))
		}
		if err := settle(f, keys, make([]model.SeriesID, len(keys))); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	for id := model.SeriesID(1); id <= 3000; id++ {
		for _, f := range files {
			if k, err := f.Key(id); err != nil || k != fmt.Sprintf("m,h=%06d", id-1) {
				t.Fatalf("Key(%d) = %q, %v", id, k, err)
			}
		}
	}
	if n := shared.mu.bytes; n > limit+longest || n < limit/2 {
		t.Errorf("the cache has %d bytes, limit %d", n, limit)
	}
	for i, f := range files {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if i == 0 && len(shared.mu.ring) == 0 {
			t.Error("nothing is left of the file that is open")
		}
	}
	if len(shared.mu.ring) != 0 || shared.mu.bytes != 0 {
		t.Errorf("%d blocks of closed files are left, %d bytes", len(shared.mu.ring), shared.mu.bytes)
	}
}
