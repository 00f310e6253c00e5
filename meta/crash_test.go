package meta

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"tsdbd/internal/vfs"
)

// crashFS is a file system in memory that forgets what was not synced. before,
// if set, is called ahead of every change.
type crashFS struct {
	mem    *pebblevfs.MemFS
	before func()
}

type crashFile struct {
	pebblevfs.File
	fs *crashFS
}

func (c *crashFS) step() {
	if c.before != nil {
		c.before()
	}
}

func (c *crashFS) file(f pebblevfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &crashFile{f, c}, nil
}

func (c *crashFS) Create(name string) (vfs.File, error) {
	c.step()
	return c.file(c.mem.Create(name, pebblevfs.WriteCategoryUnspecified))
}
func (c *crashFS) Open(name string) (vfs.File, error) { return c.file(c.mem.Open(name)) }
func (c *crashFS) OpenReadWrite(name string) (vfs.File, error) {
	return c.file(c.mem.OpenReadWrite(name, pebblevfs.WriteCategoryUnspecified))
}
func (c *crashFS) Rename(from, to string) error { c.step(); return c.mem.Rename(from, to) }
func (c *crashFS) Remove(name string) error     { c.step(); return c.mem.Remove(name) }
func (c *crashFS) RemoveAll(name string) error  { c.step(); return c.mem.RemoveAll(name) }
func (c *crashFS) MkdirAll(dir string) error    { c.step(); return c.mem.MkdirAll(dir, 0o700) }
func (c *crashFS) List(dir string) ([]string, error) {
	names, err := c.mem.List(dir)
	slices.Sort(names)
	return names, err
}
func (c *crashFS) Stat(name string) (os.FileInfo, error) { return c.mem.Stat(name) }
func (c *crashFS) SyncDir(dir string) error {
	c.step()
	d, err := c.mem.OpenDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
func (c *crashFS) Lock(name string) (io.Closer, error) { return c.mem.Lock(name) }
func (c *crashFS) Free(string) (uint64, error)         { return 1 << 40, nil }

func (f *crashFile) Write(b []byte) (int, error) { f.fs.step(); return f.File.Write(b) }
func (f *crashFile) Sync() error                 { f.fs.step(); return f.File.Sync() }
func (f *crashFile) SyncData() error             { return f.Sync() }
func (f *crashFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
func (f *crashFile) Map(size int64) ([]byte, func() error, error) {
	b := make([]byte, size)
	_, err := f.ReadAt(b, 0)
	return b, func() error { return nil }, err
}

// The power fails before every change of the disk, with none, half or all of
// what was not synced kept: the catalog opens with everything acknowledged and
// at most the one change under way on top, also after a second crash during
// the repair.
func TestCrashAtEveryOperation(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	type crash struct {
		mem          *pebblevfs.MemFS
		acknowledged int
		percent      int
	}
	var crashes []crash
	disk := &crashFS{mem: pebblevfs.NewCrashableMem()}
	acknowledged := 0
	clone := func(from *crashFS) {
		for _, percent := range []int{0, 50, 100} {
			mem := from.mem.CrashClone(pebblevfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rnd})
			crashes = append(crashes, crash{mem, acknowledged, percent})
		}
	}
	// The server's own directory is the operator's.
	if err := errors.Join(disk.MkdirAll("/data"), disk.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	disk.before = func() { clone(disk) }
	c, err := Open(disk, "/data/meta", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		if _, err := c.Apply(CreateDatabase{Name: fmt.Sprint("db", i)}); err != nil {
			t.Fatal(err)
		}
		acknowledged++
		clone(disk)
	}
	check := func(mem *pebblevfs.MemFS, want, percent int, before func(*crashFS) func()) int {
		fs := &crashFS{mem: mem}
		if before != nil {
			fs.before = before(fs)
		}
		c, err := Open(fs, "/data/meta", Options{})
		if err != nil {
			t.Fatalf("%d acknowledged, %d %% kept: %v", want, percent, err)
		}
		n := len(c.Data().Databases)
		if n != want && n != want+1 {
			t.Fatalf("%d acknowledged, %d %% kept: %d databases", want, percent, n)
		}
		return n
	}
	second := 0
	for _, cr := range crashes {
		var again []*pebblevfs.MemFS
		n := check(cr.mem, cr.acknowledged, cr.percent, func(fs *crashFS) func() {
			return func() {
				again = append(again, fs.mem.CrashClone(pebblevfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rnd}))
			}
		})
		for _, mem := range again {
			second++
			if m := check(mem, cr.acknowledged, 50, nil); m != n {
				t.Fatalf("%d databases after the first crash, %d after the second", n, m)
			}
		}
		check(cr.mem, n, cr.percent, nil) // opening twice gives the same
	}
	t.Logf("%d crashes, %d more during the repair", len(crashes), second)
	if len(crashes) < 100 || second < 50 {
		t.Errorf("only %d and %d crashes: the script misses the disk", len(crashes), second)
	}
}
