package store

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/testkit/figure"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/shard/manifest"
	"tsdbd/shard/repair"
	"tsdbd/store/layout"
)

var (
	crashPoints  = flag.Int("crash-points", 300, "crash points of TestCrash")
	crashEvery   = flag.Int("crash-every", 11, "file operations from one crash point to the next")
	relaxedHosts = flag.Int("relaxed-hosts", 300, "series per measurement of TestCrashRelaxed")
)

// crasher cuts the power of a store under a driver before every so many
// mutating file operations, and checks what each of these crashes leaves while
// the store under test goes on.
type crasher struct {
	t     testing.TB
	fs    *vfstest.FS
	every int

	mu struct {
		sync.Mutex
		states []points // what a crash may leave now, in this order of time
		during string
	}
	phase  int
	r      *rand.Rand // of the crashes; used by the hook alone
	now    func() time.Time
	points int
	found  []string // violations
}

// crash is one point: what was under way and what the disk lost.
type crash struct {
	op     vfstest.Op
	during string
	keep   float64
	states []points
}

func (c crash) String() string {
	return fmt.Sprintf("crash at operation %d (%s %s) in %s, keep %v", c.op.N, c.op.Kind, c.op.Path, c.during, c.keep)
}

// expect sets what a crash may leave from now on.
func (c *crasher) expect(during string, states ...points) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.during, c.mu.states = during, states
}

// hook is called before every mutating operation.
func (c *crasher) hook(op vfstest.Op) error {
	if op.N%c.every != c.phase || len(c.found) > 0 {
		return nil
	}
	c.mu.Lock()
	p := crash{op, c.mu.during, []float64{0, 0.3, 0.7, 1}[c.r.IntN(4)], c.mu.states}
	c.mu.Unlock()
	c.points++
	recovered := make(chan error) // by a goroutine that holds none of the other store's locks
	go func() { recovered <- c.recover(c.fs.Crash(c.r, p.keep), p) }()
	if err := <-recovered; err != nil {
		c.found = append(c.found, fmt.Sprintf("%v: %v", p, err))
	}
	return nil
}

// recover opens what a crash has left, twice, and checks it.
func (c *crasher) recover(left *vfstest.FS, p crash) error {
	if c.r.IntN(3) == 0 {
		left = crashOpen(left, c.r, p.keep)
	}
	harmed := ""
	if c.r.IntN(4) == 0 {
		harmed = harmManifests(left, c.r)
	}
	opt := testOptions(left)
	opt.Now = c.now
	var held points
	for round := range 2 {
		s, err := Open("/data", opt)
		if err != nil {
			return err
		}
		got, err := state(s)
		if err != nil {
			return errors.Join(err, s.Close())
		}
		if round > 0 {
			if text := diff(got, held); text != "" {
				return errors.New("opened again it differs:\n" + text)
			}
		} else if !slices.ContainsFunc(p.states, func(want points) bool { return diff(got, want) == "" }) {
			return fmt.Errorf("compared with the state before:\n%s%s", diff(got, p.states[0]), harmed)
		}
		if err := agree(s); err != nil {
			return err
		}
		ts := &testStore{Store: s, t: c.t}
		if s.Catalog().Database("db") == nil {
			if err := s.Apply(context.Background(), meta.CreateDatabase{Name: "db"}); err != nil {
				return err
			}
		}
		at := c.now().UnixNano()
		if err := ts.write("db", fmt.Sprintf("m,host=h0 i=%di %d", round, at)); err != nil {
			return fmt.Errorf("write after it: %w", err)
		}
		got[pointKey("m,host=h0", at, "i")] = fmt.Sprintf("%di", round)
		if held, err = state(s); err != nil {
			return err
		}
		if text := diff(held, got); text != "" {
			return errors.New("after a write:\n" + text)
		}
		if err := s.Close(); err != nil {
			return err
		}
		if err := orphans(left, s.Catalog()); err != nil {
			return err
		}
	}
	return nil
}

// agree checks that index and data agree in every shard: each series with
// rows is found by its tags, and none without.
func agree(s *Store) error {
	if s.Catalog().Database("db") == nil {
		return nil
	}
	v, err := s.Partial().View("db", "", model.AllTime)
	if err != nil {
		return err
	}
	defer v.Release()
	for _, sh := range v.Shards() {
		for _, m := range sh.Measurements() {
			set, err := sh.Select(context.Background(), m, nil)
			if err != nil {
				return err
			}
			hosts, err := sh.TagValues(m, "host", set)
			if err != nil {
				return err
			}
			tagged := roaring.New()
			for _, h := range hosts {
				part, err := sh.Select(context.Background(), m, &model.TagExpr{Op: model.TagEqual, Key: "host", Value: h})
				if err != nil {
					return err
				}
				for it := part.Iterator(); it.HasNext(); {
					key, err := v.SeriesKey(model.SeriesID(it.Next()))
					if name, tags := model.ParseSeriesKey(key, nil); err != nil || name != m || tags.Get("host") != h {
						return fmt.Errorf("shard %d: %s,host=%s is %q, %w", sh.ID(), m, h, key, err)
					}
				}
				tagged.Or(part)
			}
			// The data are asked for series that the index may not know.
			every := roaring.New()
			every.AddRange(1, uint64(s.mu.databases[s.Catalog().Database("db").ID].series.NextID()))
			rows, err := withRows(sh, m, every)
			if err != nil {
				return err
			}
			for it := rows.Clone().Iterator(); it.HasNext(); {
				id := it.Next()
				if key, err := v.SeriesKey(model.SeriesID(id)); err != nil || model.SeriesMeasurement(key) != m {
					rows.Remove(id) // it has fields of these names under another measurement
				}
			}
			if !rows.Equals(set) || !tagged.Equals(set) {
				return fmt.Errorf("shard %d: series with rows %v, in the index %v, by their tags %v", sh.ID(), rows, set, tagged)
			}
		}
	}
	return nil
}

// withRows returns the series of set that have rows.
func withRows(sh scan.Shard, m string, set *roaring.Bitmap) (*roaring.Bitmap, error) {
	req := scan.Request{Measurement: m, Series: set, Range: model.AllTime}
	for _, f := range sh.Fields(m) {
		req.Fields = append(req.Fields, f.Key)
	}
	c, err := sh.Scan(context.Background(), req)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	out := roaring.New()
	for id, ok := c.NextSeries(); ok; id, ok = c.NextSeries() {
		for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
			if ch.Len() > 0 {
				out.Add(uint32(id))
			}
		}
	}
	return out, c.Err()
}

// harmManifests damages one of the two copies of every shard's manifest.
func harmManifests(fs *vfstest.FS, r *rand.Rand) (what string) {
	for _, name := range fs.Files() {
		if path.Base(name) != manifest.Name {
			continue
		}
		names := manifest.Names
		if fs.Content(path.Join(path.Dir(name), names[1])) == nil {
			continue // the first save was cut off
		}
		name = path.Join(path.Dir(name), names[r.IntN(len(names))])
		b := fs.Content(name)
		switch r.IntN(3) {
		case 0:
			_ = fs.Flip(name, r.Int64N(int64(len(b))), 1<<r.IntN(8))
		case 1:
			_ = fs.Truncate(name, r.Int64N(int64(len(b))))
		case 2:
			_ = fs.Remove(name)
		}
		what += "harmed: " + name + "\n"
	}
	return what
}

// orphans reports files that nothing names.
func orphans(fs *vfstest.FS, data *meta.Data) error {
	named := map[string]bool{"/data/LOCK": true, "/data/meta/reserve.0": true, "/data/meta/reserve.1": true}
	for _, n := range meta.CopyNames() {
		named["/data/meta/"+n] = true
	}
	for _, d := range data.Databases {
		dir := path.Join("/data", layout.DatabaseDir(d.ID))
		named[dir+"/series/series.log"], named[dir+"/series/series.idx"] = true, true
		for _, rp := range d.RetentionPolicies {
			for _, g := range rp.ShardGroups {
				for _, m := range g.Shards {
					at := path.Join("/data", layout.ShardDir(d.ID, m.ID))
					man, err := manifest.Read(fs, at)
					if err != nil {
						continue // nothing flushed; then no file is named either
					}
					for _, n := range manifest.Names {
						named[path.Join(at, n)] = true
					}
					for _, f := range slices.Concat(man.TSM, man.TSI) {
						named[path.Join(at, f.Name)] = true
						if fs.Content(path.Join(at, f.Name)) == nil {
							return fmt.Errorf("%s is named and not there", path.Join(at, f.Name))
						}
					}
				}
			}
		}
	}
	for _, name := range fs.Files() {
		log := path.Dir(name) == "/data/wal" && (strings.HasSuffix(name, ".wal") || strings.HasSuffix(name, ".spare")) ||
			path.Dir(name) == "/data/wal/quarantine" && strings.Contains(name, ".tail-") || // a torn end
			path.Base(path.Dir(name)) == repair.QuarantineDir && strings.HasPrefix(path.Base(name), manifest.Name) // harmed by the test
		if !log && !named[name] && name != ledgerPath {
			return fmt.Errorf("orphan: %s", name)
		}
	}
	return nil
}

var errCut = errors.New("power cut")

// crashOpen cuts the power once more, while the store recovers.
func crashOpen(fs *vfstest.FS, r *rand.Rand, keep float64) *vfstest.FS {
	var left *vfstest.FS
	n := 1 + r.IntN(25)
	start := fs.Ops()
	fs.SetHook(func(op vfstest.Op) error {
		if left == nil && op.N-start == n {
			left = fs.Crash(r, keep)
		}
		if left != nil {
			return errCut
		}
		return nil
	})
	if s, err := Open("/data", testOptions(fs)); err == nil {
		_ = s.Close()
	}
	fs.SetHook(nil)
	if left == nil {
		return fs
	}
	return left
}

// crashScript runs a driver for some steps over fs, through which the store
// sees disk, and crashes it all the time. It returns the crash points and the
// violation that was found, if any.
func crashScript(t *testing.T, seed uint64, every int, disk *vfstest.FS, fs vfs.FS) (int, []string) {
	d := openRetaining(t, fs, rand.New(rand.NewPCG(seed, 7)))
	c := &crasher{t: t, fs: disk, every: every, r: rand.New(rand.NewPCG(seed, 8)), now: d.opt.Now}
	c.phase = c.r.IntN(every)
	c.expect("start", points{})
	disk.SetHook(c.hook)
	for range 60 {
		op := d.next()
		c.expect(op.name, d.want, op.after)
		if err := op.run(); err != nil {
			t.Fatalf("seed %d: %s: %v", seed, op.name, err)
		}
		d.want = op.after
		c.expect("rest", d.want)
	}
	if err := d.check(d.s); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	c.expect("close", d.want)
	if err := d.s.Close(); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	disk.SetHook(nil)
	return c.points, c.found
}

// TestCrash cuts the power at file operations of random scripts of writes, old
// and new, overwrites, refusals, deletes, drops, flushes, merges, retention,
// backups and restarts. What was acknowledged must be there, what was not as a
// whole or not at all, what was deleted or refused must not; index and data
// must agree, no file be left over, and the next write work.
func TestCrash(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 3))
	total, want := 0, testseed.Rounds(*crashPoints)
	for total < want {
		seed := r.Uint64()
		fs := vfstest.New()
		n, found := crashScript(t, seed, *crashEvery, fs, fs)
		for _, text := range found {
			t.Fatalf("seed %d: %s", seed, text)
		}
		total += n
	}
	figure.Report(t, "a power cut before a file operation of a random script", figure.Count{N: total, Of: "crash points"})
}

// forgetful is a disk whose syncs do nothing.
type forgetful struct{ *vfstest.FS }

type forgetfulFile struct{ vfs.File }

func (forgetful) SyncDir(string) error { return nil }
func (forgetfulFile) Sync() error      { return nil }
func (forgetfulFile) SyncData() error  { return nil }
func forget(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return forgetfulFile{f}, nil
}

func (f forgetful) Create(name string) (vfs.File, error) { return forget(f.FS.Create(name)) }
func (f forgetful) OpenReadWrite(name string) (vfs.File, error) {
	return forget(f.FS.OpenReadWrite(name))
}

// TestCrashControl runs the same over a disk whose syncs do nothing: it must
// find losses, or it proves nothing.
func TestCrashControl(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 3))
	for range 3 {
		fs := vfstest.New()
		if _, found := crashScript(t, r.Uint64(), *crashEvery, fs, forgetful{fs}); len(found) == 0 {
			t.Error("nothing was lost without syncs: the crash test is blind")
		} else {
			t.Log(found[0])
		}
	}
}

// TestCrashRelaxed crashes stores that sync their logs by time. The log's end
// may be lost; what is left must have been written, and from then on the store
// must keep everything: numbers, types and deletes of what was lost must not
// reach what comes after it.
func TestCrashRelaxed(t *testing.T) {
	base := testseed.Of(t)
	runs := testseed.Rounds(*crashPoints / 4)
	for run := range runs {
		r := rand.New(rand.NewPCG(base, uint64(run)))
		fs := vfstest.New()
		opt := testOptions(fs)
		opt.SyncInterval = time.Hour
		s := openTest(t, fs, opt)
		s.create("db")
		d := newDriver(s, r)
		d.ever, d.hosts = map[int64][]string{}, *relaxedHosts
		for round := range 4 {
			for range 1 + r.IntN(40) {
				if err := d.step(); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.check(s); err != nil {
				t.Fatalf("run %d, round %d: %v", run, round, err)
			}
			left := fs.CrashLocked(r, []float64{0, 0.5, 1}[r.IntN(3)])
			_ = s.Close()
			opt.FS, fs = left, left
			s = openTest(t, left, opt)
			d.s = s
			d.want = s.read("db")
			for key, v := range d.want {
				if _, at, _ := parseKey(key); !slices.Contains(d.ever[at], v) {
					t.Fatalf("run %d, round %d: %s = %s was never written", run, round, key, v)
				}
			}
		}
		_ = s.Close()
	}
	t.Logf("%d crashes", 4*runs)
}
