package series

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/slots"
	"tsdbd/internal/vfs"
	"tsdbd/model"
)

// seriesOnDisk makes a series file of n series with an index file on the disk
// of the operating system, and opens it with all pages of the index read.
func seriesOnDisk(t *testing.T, fs vfs.FS, n int) (f *File, dir string, keys []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "db", "series")
	f, err := Open(fs, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		keys = append(keys, fmt.Sprintf("m,h=%05d", i))
	}
	if err := settle(f, keys, make([]model.SeriesID, n)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = Open(fs, dir, Options{IndexTail: 1}); err != nil {
		t.Fatal(err)
	}
	if f.mu.index == nil {
		t.Fatal("no index file")
	}
	checkSeries(t, f, keys)
	return f, dir, keys
}

// checkSeries looks every key up: key i has the id i+1.
func checkSeries(t *testing.T, f *File, keys []string) {
	t.Helper()
	ids := make([]model.SeriesID, len(keys))
	if err := settle(f, keys, ids); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if id != model.SeriesID(i+1) {
			t.Fatalf("key %d has the id %d", i, id)
		}
	}
}

// TestIndexUnreadable cuts the index file of an open series file, as a disk
// does that cannot read a page a second time. Whatever meets it first rebuilds
// the index from the log, and every id stays.
func TestIndexUnreadable(t *testing.T) {
	const n = 3000
	for name, first := range map[string]func(f *File, keys []string) error{
		"lookup": func(f *File, keys []string) error {
			if id, ok := f.Lookup(keys[77]); !ok || id != 78 {
				return fmt.Errorf("id %d", id)
			}
			return nil
		},
		"create":  func(f *File, keys []string) error { return settle(f, keys[:2], make([]model.SeriesID, 2)) },
		"restore": func(f *File, keys []string) error { return f.Restore(n+7, "m,h=new") },
		"restore many": func(f *File, keys []string) error {
			return f.RestoreAll([]model.SeriesID{5, n + 7}, []string{keys[4], "m,h=new"})
		},
		"reindex": func(f *File, keys []string) error {
			f.addSlotLocked(slots.Slot(fingerprint(keys[0]), 1)) // as many as it takes
			for i := range n {
				f.addSlotLocked(slots.Slot(fingerprint(keys[i]), uint32(i+1)))
			}
			return f.Sync()
		},
		"verify": func(f *File, keys []string) error { f.Verify(nil); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			f, dir, keys := seriesOnDisk(t, vfs.OS, n)
			if err := os.Truncate(filepath.Join(dir, IndexName), 0); err != nil {
				t.Fatal(err)
			}
			if err := first(f, keys); err != nil {
				t.Fatal(err)
			}
			checkSeries(t, f, keys)
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			f, err := Open(vfs.OS, dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			checkSeries(t, f, keys)
			if f.mu.index == nil {
				t.Error("no index file after the repair")
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// slowDisk calls begun when a new index file is created, once.
type slowDisk struct {
	vfs.FS
	once  sync.Once
	begun func()
}

func (d *slowDisk) Create(name string) (vfs.File, error) {
	if d.begun != nil && strings.HasSuffix(name, IndexName+".tmp") {
		d.once.Do(d.begun)
	}
	return d.FS.Create(name)
}

// TestIndexDroppedWhileRewritten: a lookup finds a damaged page and gives
// the index file up, while Sync is about to read it for the next one.
func TestIndexDroppedWhileRewritten(t *testing.T) {
	disk := &slowDisk{FS: vfs.OS}
	f, dir, keys := seriesOnDisk(t, disk, 3000)
	disk.begun = func() {
		if err := os.Truncate(filepath.Join(dir, IndexName), 0); err != nil {
			t.Error(err)
		}
		if _, ok := f.Lookup(keys[0]); !ok {
			t.Error("key lost")
		}
		if f.mu.index != nil {
			t.Error("the index is still in use")
		}
	}
	fresh := make([]string, 2000)
	for i := range fresh {
		fresh[i] = fmt.Sprintf("m,i=%05d", i)
	}
	if err := settle(f, fresh, make([]model.SeriesID, len(fresh))); err != nil {
		t.Fatal(err)
	}
	keys = append(keys, fresh...)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	checkSeries(t, f, keys)
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(vfs.OS, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkSeries(t, f, keys)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestVerifyReadsAgain damages an index file that was found sound: Verify reads it again, and
// all of it.
func TestVerifyReadsAgain(t *testing.T) {
	f, dir, _ := seriesOnDisk(t, vfs.OS, 3000)
	name := filepath.Join(dir, IndexName)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{9, indexPageBytes + 20, len(b)/2 + 100, len(b) - 1} {
		if d := f.Verify(nil); len(d) > 0 {
			t.Fatal(d)
		}
		b[at] ^= 4
		if err := os.WriteFile(name, b, 0o600); err != nil { // the same file
			t.Fatal(err)
		}
		var c *binio.CorruptError
		if d := f.Verify(nil); len(d) != 1 || !errors.As(d[0], &c) || c.Path != name || c.Offset > int64(at) {
			t.Errorf("byte %d of %d: %v", at, len(b), d)
		}
		b[at] ^= 4
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRewriteWhole has a block that cannot be read: a log of all keys cannot be written, and
// the old one stays.
func TestRewriteWhole(t *testing.T) {
	f, dir, _ := seriesOnDisk(t, vfs.OS, 3000)
	name := filepath.Join(dir, LogName)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Rewrite(true); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("error %v", err)
	}
	if after, err := os.ReadFile(name); err != nil || !bytes.Equal(after, b) {
		t.Errorf("another log, %v", err)
	}
	_ = f.Close()
}
