package scrub

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/shard/manifest"
	"tsdbd/shard/repair"
	"tsdbd/store"
)

// countingFS counts how often each file is opened, and may fail reads.
type countingFS struct {
	vfs.FS
	mu     sync.Mutex
	opened map[string]int
	failed string            // reads of files whose names end so fail
	before func(name string) // a read
}

func (f *countingFS) Open(name string) (vfs.File, error) {
	f.mu.Lock()
	f.opened[filepath.Base(name)]++
	f.mu.Unlock()
	file, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return countingFile{file, f, name}, nil
}

func (f *countingFS) fail(suffix string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = suffix
}

func (f *countingFS) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.opened)
}

type countingFile struct {
	vfs.File
	fs   *countingFS
	name string
}

func (f countingFile) ReadAt(b []byte, off int64) (int, error) {
	if f.fs.before != nil {
		f.fs.before(f.name)
	}
	f.fs.mu.Lock()
	failed := f.fs.failed != "" && strings.HasSuffix(f.name, f.fs.failed)
	f.fs.mu.Unlock()
	if failed {
		return 0, &os.PathError{Op: "read", Path: f.name, Err: syscall.EIO}
	}
	return f.File.ReadAt(b, off)
}

// stepped returns a service whose clock and rounds the test moves.
func (h *home) stepped(disk vfs.FS) (*Service, *clock) {
	c := &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	return New(Options{
		Store: h.Store, Dir: h.dir, Interval: 100 * time.Hour, FS: disk, Now: c.Now,
		Sleep: func(_ context.Context, d time.Duration) { c.sleep(d) },
	}), c
}

// TestAgainOnlyWhatWasDamaged damages an index file: until it is healed that file alone is
// read again, with longer and longer waits.
func TestAgainOnlyWhatWasDamaged(t *testing.T) {
	h := openHome(t, store.Options{FlushIdle: time.Hour})
	h.fill(3000)
	h.flush()
	disk := &countingFS{FS: vfs.OS, opened: map[string]int{}}
	s, c := h.stepped(disk)
	name := h.file("db-1/shard-1/*.tsi")
	flip(0.5, 0)(t, name)
	s.Start()
	for s.round(t.Context()) {
	}
	if st := s.Status(); st.Running || len(st.Damage) != 1 || st.Damage[0].Path != name {
		t.Fatalf("%+v", st)
	}
	disk.reset()
	for range 5 {
		c.sleep(lastAgain)
		s.round(t.Context())
	}
	for file, n := range disk.opened {
		if strings.HasSuffix(file, ".tsm") {
			t.Errorf("%s was opened %d times", file, n)
		}
	}
	if st := s.Status(); len(st.Damage) != 1 || st.OldestCheck.Before(c.Now().Add(-time.Hour)) {
		t.Errorf("%+v", st)
	}
}

// manifestFS holds who writes a manifest of shard 1.
type manifestFS struct {
	vfs.FS
	hold      atomic.Bool
	held, let chan struct{}
}

func (f *manifestFS) Create(name string) (vfs.File, error) {
	if strings.Contains(name, "/shard-1/"+manifest.Name) && f.hold.CompareAndSwap(true, false) {
		close(f.held)
		<-f.let
	}
	return f.FS.Create(name)
}

// TestBesideHealing looks at an index file that has gone to quarantine, before the manifest names
// its replacement: that is no other damage.
func TestBesideHealing(t *testing.T) {
	fs := &manifestFS{FS: vfs.OS, held: make(chan struct{}), let: make(chan struct{})}
	h := openHome(t, store.Options{FlushIdle: time.Hour, FS: fs})
	h.fill(3000)
	h.flush()
	s, c := h.stepped(vfs.OS)
	name := h.file("db-1/shard-1/*.tsi")
	flip(0.5, 0)(t, name)
	fs.hold.Store(true)
	s.Start()
	for s.round(t.Context()) {
	}
	<-fs.held
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("the file is not in quarantine: %v", err)
	}
	c.sleep(lastAgain)
	s.round(t.Context())
	if st := s.Status(); len(st.Damage) != 1 || st.Damage[0].Healed {
		t.Errorf("%+v", st)
	}
	close(fs.let)
	for healed := false; !healed; time.Sleep(time.Millisecond) {
		m, err := manifest.Read(vfs.OS, filepath.Dir(name))
		if err != nil {
			t.Fatal(err)
		}
		healed = !m.Has(filepath.Base(name))
	}
	c.sleep(lastAgain)
	s.round(t.Context())
	if st := s.Status(); len(st.Damage) != 1 || !st.Damage[0].Healed {
		t.Errorf("%+v", st)
	}
}

// TestReadErrorOnce has a disk fail for a moment: the file is no damage, counts as not checked,
// and is read again later, alone.
func TestReadErrorOnce(t *testing.T) {
	h := openHome(t, store.Options{FlushIdle: time.Hour})
	h.fill(3000)
	h.flush()
	disk := &countingFS{FS: vfs.OS, opened: map[string]int{}}
	s, c := h.stepped(disk)
	s.Start()
	for s.round(t.Context()) {
	}
	checked := s.Status().OldestCheck
	name := filepath.Base(h.file("db-1/shard-1/*.tsm"))
	disk.fail("shard-1/" + name)
	c.sleep(60 * time.Hour)
	for s.round(t.Context()) {
	}
	st := s.Status()
	if len(st.Problems) != 1 || len(st.Damage) > 0 || h.Degraded() || !st.OldestCheck.Equal(checked) {
		t.Errorf("%+v", st)
	}
	disk.fail("")
	disk.reset()
	c.sleep(lastAgain)
	for s.round(t.Context()) {
	}
	st = s.Status()
	if len(st.Problems) > 0 || len(st.Damage) > 0 || !st.OldestCheck.After(checked.Add(59*time.Hour)) {
		t.Errorf("later: %+v", st)
	}
	if len(disk.opened) > 4 || disk.opened[name] == 0 { // beside the copies of the manifest
		t.Errorf("opened %v", disk.opened)
	}
}

// TestUnreadableManifest has a disk that cannot read a copy of a manifest: it is written again.
func TestUnreadableManifest(t *testing.T) {
	h := openHome(t, store.Options{FlushIdle: time.Hour})
	h.fill(3000)
	h.flush()
	disk := &countingFS{FS: vfs.OS, opened: map[string]int{}}
	s, c := h.stepped(disk)
	disk.fail("shard-1/MANIFEST.copy")
	name := h.file("db-1/shard-1/MANIFEST.copy")
	before, err := os.Stat(name)
	h.ok(err)
	s.Start()
	for s.round(t.Context()) {
	}
	st := s.Status()
	if len(st.Damage) != 1 || st.Damage[0].Path != name || !st.Damage[0].Healed || len(st.Problems) > 0 {
		t.Errorf("%+v", st)
	}
	if after, err := os.Stat(name); err != nil || os.SameFile(before, after) {
		t.Errorf("the same file is there, %v", err)
	}
	c.sleep(time.Hour)
	if s.round(t.Context()) {
		t.Error("something is due, although all was mended")
	}
}

// TestDroppedWhileRead drops a database while one of its files is read: that is no damage.
func TestDroppedWhileRead(t *testing.T) {
	h := openHome(t, store.Options{FlushIdle: time.Hour})
	h.fill(3000)
	h.flush()
	var once sync.Once
	gone := false
	disk := &countingFS{FS: vfs.OS, opened: map[string]int{}}
	disk.before = func(name string) {
		if strings.HasSuffix(name, ".tsm") {
			once.Do(func() {
				h.ok(h.Apply(t.Context(), meta.DropDatabase{Name: "db"}))
				for end := time.Now().Add(time.Minute); time.Now().Before(end) && !gone; time.Sleep(5 * time.Millisecond) {
					_, err := os.Stat(name)
					gone = os.IsNotExist(err)
				}
			})
		}
	}
	s, _ := h.stepped(disk)
	s.Start()
	for s.round(t.Context()) {
	}
	if st := s.Status(); !gone || len(st.Damage) > 0 || len(st.Problems) > 0 {
		t.Errorf("gone: %v, %+v", gone, st)
	}
}

// TestSeriesIndex damages the index of a series file that an earlier pass has found sound: the
// next pass finds it, and has it made again from the log.
func TestSeriesIndex(t *testing.T) {
	h := openHome(t, store.Options{FlushIdle: time.Hour})
	var lines strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&lines, "m,host=h%d f=1 1\n", i)
	}
	h.ok(h.write("db", lines.String()))
	h.ok(h.Close()) // writes the index
	var err error
	h.Store, err = store.Open(h.dir, store.Options{RetentionInterval: -1, FlushIdle: time.Hour})
	h.ok(err)
	s := h.run(Options{})
	if st := pass(t, s); len(st.Damage) > 0 || len(st.Problems) > 0 {
		t.Fatalf("before: %+v", st)
	}
	name := h.file("db-1/series/series.idx")
	flip(0.5, 0)(t, name)
	if st := pass(t, s); len(st.Damage) != 1 || st.Damage[0].Path != name || st.Damage[0].Offset < 0 || !st.Damage[0].Healed {
		t.Fatalf("%+v", st)
	}
	if st := pass(t, s); len(st.Damage) > 0 || len(st.Problems) > 0 || h.Degraded() {
		t.Errorf("again: %+v", st)
	}
	h.ok(h.write("db", lines.String()))
	if file, err := os.Stat(h.file("db-1/series/series.log")); err != nil || file.Size() < 1000 {
		t.Errorf("the log: %v, %v", file, err)
	}
}

// TestKeepOnce keeps a damaged file in quarantine once, although it cannot be replaced at
// the first try. A file that is gone needs no place there.
func TestKeepOnce(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, manifest.Name)
	q := repair.NewQuarantine(vfs.OS, dir, slog.New(slog.DiscardHandler))
	c := check{disk: vfs.OS}
	keep := func(want int) {
		t.Helper()
		if err := c.keep(q, dir, binio.Corruptf(name, 3, "damaged"), "Nothing is lost."); err != nil || len(q.List()) != want {
			t.Errorf("%v, %v", q.List(), err)
		}
	}
	for i, text := range []string{"one", "another"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		keep(i + 1)
		keep(i + 1)
		remove(t, name)
		keep(i + 1)
	}
}
