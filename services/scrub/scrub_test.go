package scrub

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/vfs"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/store"
)

const week = int64(7 * 24 * time.Hour)

// home is a store on a disk.
type home struct {
	*store.Store
	t   testing.TB
	dir string
}

func openHome(t testing.TB, opt store.Options) *home {
	h := &home{t: t, dir: t.TempDir()}
	opt.RetentionInterval = -1
	var err error
	h.Store, err = store.Open(h.dir, opt)
	h.ok(err)
	t.Cleanup(func() { h.ok(h.Close()) })
	h.create("db")
	return h
}

func (h *home) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *home) create(db string) {
	h.t.Helper()
	h.ok(h.Apply(context.Background(), meta.CreateDatabase{Name: db}))
}

func (h *home) write(db, lines string) error {
	table, err := h.Table(db)
	if err != nil {
		return err
	}
	var b point.Batch
	var p lineproto.Parser
	if _, err := p.Parse(&b, table, []byte(lines), lineproto.Options{}); err != nil {
		return err
	}
	return h.Write(context.Background(), db, "", &b)
}

// fill writes rows of some series to two shards.
func (h *home) fill(rows int) {
	h.t.Helper()
	var lines strings.Builder
	for i := range rows {
		at := int64(i) * 1e9
		fmt.Fprintf(&lines, "m,host=h%d f=%d.5,s=\"text %d\" %d\nm,host=h%d f=%d %d\n", i%50, i*i%997, i%13, at, i%50, i, at+week)
	}
	h.ok(h.write("db", lines.String()))
}

// flush brings all to files.
func (h *home) flush() {
	h.t.Helper()
	b, err := h.Backup(context.Background(), nil)
	h.ok(err)
	b.Release()
}

// file returns the one largest file that a pattern below the directory names.
func (h *home) file(pattern string) (name string) {
	h.t.Helper()
	names, err := filepath.Glob(filepath.Join(h.dir, pattern))
	h.ok(err)
	most := int64(-1)
	for _, n := range names {
		if st, err := os.Stat(n); err == nil && st.Size() > most {
			name, most = n, st.Size()
		}
	}
	if name == "" {
		h.t.Fatalf("no file %s", pattern)
	}
	return name
}

// flip changes a byte of a file where it is: at a part of its size, or before its end.
func flip(at float64, beforeEnd int64) func(t testing.TB, name string) {
	return func(t testing.TB, name string) {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		off := int64(at * float64(st.Size()))
		if beforeEnd > 0 {
			off = st.Size() - beforeEnd
		}
		var b [1]byte
		if _, err = f.ReadAt(b[:], off); err == nil {
			b[0] ^= 0x10
			_, err = f.WriteAt(b[:], off)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t testing.TB, name string) {
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

// running is a service that runs.
type running struct {
	*Service
	end func()
}

// run runs a service until the test ends.
func (h *home) run(opt Options) running {
	opt.Store, opt.Dir, opt.Log = h.Store, h.dir, true
	s := New(opt)
	ctx, cancel := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() { s.Run(ctx) })
	r := running{s, func() { cancel(); loop.Wait() }}
	h.t.Cleanup(r.end)
	return r
}

// await waits until a status is as wanted.
func await(t testing.TB, s running, what string, is func(Status) bool) Status {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		st := s.Status()
		if is(st) {
			return st
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not after a minute: %+v", what, st)
		}
	}
}

// pass has all parts checked, and returns what is known then.
func pass(t testing.TB, s running) Status {
	t.Helper()
	s.Start()
	return await(t, s, "pass", func(st Status) bool { return !st.Running })
}

// TestFinds damages each kind of file where nobody reads it. A pass names the file, and the
// place where that can be known. The store says so as after a read, or has written the file
// again.
func TestFinds(t *testing.T) {
	for _, tc := range []struct {
		what, file string
		harm       func(t testing.TB, name string)
		offset     bool // is known
		degraded   bool
		healed     bool
	}{
		{"data", "db-1/shard-1/*.tsm", flip(0.3, 0), true, true, false},
		{"the beginning of data", "db-1/shard-2/*.tsm", flip(0, 0), true, true, false},
		{"keys and entries of data", "db-1/shard-1/*.tsm", flip(0, 600), true, true, false},
		{"the footer of data", "db-1/shard-1/*.tsm", flip(0, 40), true, true, false},
		{"data cut", "db-1/shard-1/*.tsm", func(t testing.TB, name string) {
			if err := os.Truncate(name, 2000); err != nil {
				t.Fatal(err)
			}
		}, true, true, false},
		{"data gone", "db-1/shard-1/*.tsm", remove, false, true, false},
		{"index", "db-1/shard-1/*.tsi", flip(0.5, 0), true, false, true},
		{"the footer of an index", "db-1/shard-1/*.tsi", flip(0, 20), true, false, true},
		{"index gone", "db-1/shard-2/*.tsi", remove, false, false, true},
		{"manifest", "db-1/shard-1/MANIFEST", flip(0.5, 0), true, false, true},
		{"the other manifest gone", "db-1/shard-1/MANIFEST.copy", remove, false, false, true},
		{"series", "db-1/series/series.log", flip(0.5, 0), true, false, false},
		{"series gone", "db-1/series/series.log", remove, false, false, true},
		{"catalog", "meta/catalog.0", flip(0.5, 0), false, false, true},
		{"catalog gone", "meta/catalog.1", remove, false, false, true},
		{"ledger", "meta/ledger", flip(0.7, 0), false, false, true},
		{"ledger gone", "meta/ledger", remove, false, false, true},
		{"log", "wal/*.wal", flip(0.5, 0), true, false, true},
	} {
		t.Run(tc.what, func(t *testing.T) {
			h := openHome(t, store.Options{SegmentBytes: 64 << 10, FlushIdle: time.Hour})
			h.fill(3000)
			h.flush()
			if strings.HasPrefix(tc.file, "wal") {
				h.fill(3000)
				h.fill(3000)
			}
			s := h.run(Options{})
			if st := pass(t, s); len(st.Damage) > 0 || len(st.Problems) > 0 || st.Bytes == 0 {
				t.Fatalf("before: %+v", st)
			}
			if tc.what == "ledger" {
				h.flush() // it is written at its end from now on
			}
			name := h.file(tc.file)
			if tc.what == "log" { // the first is closed
				names, err := filepath.Glob(filepath.Join(h.dir, tc.file))
				h.ok(err)
				if len(names) < 3 {
					t.Fatalf("segments: %v", names)
				}
				name = names[0]
			}
			tc.harm(t, name)
			st := pass(t, s)
			if len(st.Damage) == 0 || st.Damage[0].Path != name || tc.offset && st.Damage[0].Offset < 0 || len(st.Problems) > 0 {
				t.Fatalf("%s: %+v", name, st)
			}
			if tc.degraded {
				state := h.State()
				if !state.Degraded() || len(state.Damaged) != 1 || state.Damaged[0].Path != name {
					t.Errorf("state: %+v", state.Damaged)
				}
				if _, text := h.Health(); !strings.HasPrefix(text, "degraded") || !strings.Contains(text, name) {
					t.Errorf("health: %s", text)
				}
			}
			if tc.healed {
				await(t, s, "healed", func(st Status) bool {
					for _, d := range st.Damage {
						if !d.Healed {
							return false
						}
					}
					return true
				})
				if st := pass(t, s); len(st.Damage) > 0 {
					t.Errorf("again: %+v", st.Damage)
				}
				if h.Degraded() {
					t.Errorf("degraded: %+v", h.State())
				}
				return
			}
			await(t, s, "the store says so", func(Status) bool { return tc.degraded || len(h.State().Quarantined) > 0 })
			if st := s.Status(); len(st.Damage) != 1 || st.Damage[0].Healed && tc.degraded {
				t.Errorf("not told any more: %+v", st)
			}
		})
	}
}

// TestReadError has a disk that cannot read some files: that is no damage, and the next
// check reads them.
func TestReadError(t *testing.T) {
	h := openHome(t, store.Options{})
	h.fill(500)
	h.flush()
	disk := &failingFS{FS: vfs.OS}
	s := h.run(Options{FS: disk})
	disk.set(fmt.Errorf("read: %w", fs.ErrPermission))
	st := pass(t, s)
	if len(st.Problems) != 4 || len(st.Damage) > 0 || h.Degraded() { // two shards, the series and the log
		t.Errorf("%+v", st)
	}
	disk.set(nil)
	if st := pass(t, s); len(st.Problems) > 0 || len(st.Damage) > 0 {
		t.Errorf("later: %+v", st)
	}
}

// failingFS does not open files to read them, once it has an error.
type failingFS struct {
	vfs.FS
	mu  sync.Mutex
	err error
}

func (f *failingFS) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *failingFS) Open(name string) (vfs.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	return f.FS.Open(name)
}

// TestInterval lets weeks pass. Every part is checked within the interval, the bytes are
// read no faster than they must be, and a restart goes on where the service was.
func TestInterval(t *testing.T) {
	h := openHome(t, store.Options{FlushIdle: time.Hour})
	h.fill(20000)
	h.flush()
	const interval = 168 * time.Hour
	var c clock
	c.now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	begin := c.now
	until := func(end time.Time) *Service {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		opt := Options{Store: h.Store, Dir: h.dir, Log: true, Interval: interval, Now: c.Now}
		var s *Service
		opt.Sleep = func(_ context.Context, d time.Duration) {
			c.sleep(20 * d) // the machine is busy
			if st := s.Status(); c.Now().Sub(st.OldestCheck) > interval {
				t.Errorf("at %s the oldest check is of %s", c.Now(), st.OldestCheck)
			}
			if c.Now().After(end) {
				cancel()
			}
		}
		s = New(opt)
		s.Run(ctx)
		return s
	}
	killed := New(Options{Store: h.Store, Dir: h.dir, Log: true, Interval: interval, Now: c.Now})
	killed.round(context.Background()) // which notes when it first met each part
	idle := 80 * time.Hour
	c.sleep(idle / 2)
	if s := until(begin.Add(idle)); s.pacer.read.Load() > 0 {
		t.Errorf("%d bytes read in the first half", s.pacer.read.Load())
	}
	s := until(begin.Add(90 * time.Hour))
	read := s.pacer.read.Load()
	if size := s.Status().TotalBytes; read < size || size < 10_000 {
		t.Errorf("%d bytes read of %d", read, size)
	}
	if s := until(begin.Add(150 * time.Hour)); s.pacer.read.Load() > 0 {
		t.Errorf("%d bytes read although they were checked before the restart", s.pacer.read.Load())
	}
	if s := until(begin.Add(5 * interval)); s.pacer.read.Load() < 6*read {
		t.Errorf("%d bytes read in four intervals, %d in one", s.pacer.read.Load(), read)
	}
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// TestPace reads at a rate: after each slice the time that it may take.
func TestPace(t *testing.T) {
	var slept time.Duration
	rate := int64(2 << 20)
	p := pacer{rate: func() int64 { return rate }, sleep: func(_ context.Context, d time.Duration) { slept += d }}
	for range 10 << 10 {
		if err := p.pace(context.Background(), 1<<10); err != nil {
			t.Fatal(err)
		}
	}
	if slept != 5*time.Second || p.read.Load() != 10<<20 {
		t.Errorf("%d bytes in %s", p.read.Load(), slept)
	}
	rate = 0
	_ = p.pace(context.Background(), 1<<30)
	if slept != 5*time.Second {
		t.Errorf("%s without a bound", slept)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	rate = 1
	if err := p.pace(ctx, 1<<30); err == nil {
		t.Error("no error of the context")
	}
}

// TestProgressDamaged has a file of progress that cannot be read: the checks begin anew.
func TestProgressDamaged(t *testing.T) {
	h := openHome(t, store.Options{})
	h.ok(os.WriteFile(filepath.Join(h.dir, ProgressName), []byte(`{"checked":{"meta":`), 0o600))
	s := h.run(Options{Interval: time.Hour})
	if st := pass(t, s); len(st.Damage) > 0 {
		t.Error(st)
	}
	s.end()
	b, err := os.ReadFile(filepath.Join(h.dir, ProgressName))
	if err != nil || !bytes.Contains(b, []byte(`"meta":"`)) {
		t.Errorf("%s %v", b, err)
	}
}

// TestBesideChanges makes passes while rows come, are deleted and moved to files, files are
// merged, and databases come and go: none of it looks like damage.
func TestBesideChanges(t *testing.T) {
	t.Run("at once", func(t *testing.T) { besideChanges(t, Options{}) })
	t.Run("slowly", func(t *testing.T) {
		besideChanges(t, Options{Interval: 1, Sleep: func(ctx context.Context, d time.Duration) {
			select {
			case <-ctx.Done():
			case <-time.After(min(d, 2*time.Millisecond)):
			}
		}})
	})
}

func besideChanges(t *testing.T, opt Options) {
	h := openHome(t, store.Options{FlushBytes: 64 << 10, SegmentBytes: 64 << 10, LogBytes: 256 << 10, CompactAfter: time.Millisecond})
	h.fill(2000)
	s := h.run(opt)
	stop := make(chan struct{})
	var working sync.WaitGroup
	work := func(do func(i int) error) {
		working.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := do(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	ctx := context.Background()
	work(func(i int) error {
		var lines strings.Builder
		for k := range 200 {
			fmt.Fprintf(&lines, "m,host=h%d f=%d %d\n", (i+k)%300, k, int64(i*200+k)*1e9+int64(k%3)*week)
		}
		return h.write("db", lines.String())
	})
	work(func(i int) error {
		time.Sleep(time.Millisecond)
		at := int64(i) * 1e9
		return h.Delete(ctx, scan.DeleteRequest{Database: "db", Range: model.TimeRange{Min: at, Max: at + 3e9}})
	})
	work(func(i int) error {
		b, err := h.Backup(ctx, nil)
		if err == nil { // or a shard was dropped meanwhile
			b.Release()
		}
		return nil
	})
	work(func(i int) error {
		name := fmt.Sprint("other", i)
		err := h.Apply(ctx, meta.CreateDatabase{Name: name})
		if err == nil {
			err = h.write(name, fmt.Sprintf("m,host=a f=1 1\nm,host=b f=2 %d", week))
		}
		if err == nil {
			h.FlushSoon()
			time.Sleep(time.Duration(i%5) * time.Millisecond)
			err = h.Apply(ctx, meta.DropDatabase{Name: name})
		}
		return err
	})
	passes := 30
	if testing.Short() || opt.Interval > 0 {
		passes = 5
	}
	for range passes {
		read := s.pacer.read.Load()
		if opt.Interval > 0 {
			await(t, s, "round", func(st Status) bool { return s.pacer.read.Load() > read+st.TotalBytes+1<<20 })
		} else {
			pass(t, s)
		}
		if st := s.Status(); len(st.Damage) > 0 || len(st.Problems) > 0 {
			t.Errorf("%+v", st)
			break
		}
	}
	close(stop)
	working.Wait()
	for _, q := range h.State().Quarantined {
		t.Errorf("in quarantine: %+v", q)
	}
}
