package coldcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/internal/object"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs"
	"tsdbd/tsm"
)

var _ tsm.CachedBody = (*Object)(nil)

// memoryStore is a store in memory that counts requests and may fail.
type memoryStore struct {
	object.Store // nil: only ReadRange is called
	objects      map[string][]byte
	gets         atomic.Int64
	inFlight     atomic.Int64
	most         atomic.Int64 // requests at a time
	mu           sync.Mutex
	fault        func(ctx context.Context, name string, off int64, b []byte) (io.Reader, error)
}

func (m *memoryStore) setFault(f func(ctx context.Context, name string, off int64, b []byte) (io.Reader, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// body is an answer. It has ended when all was read.
type body struct {
	io.Reader
	left int64
	end  func()
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left == 0 || err != nil {
		b.end()
	}
	return n, err
}

func (b *body) Close() error { b.end(); return nil }

func (m *memoryStore) ReadRange(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	m.gets.Add(1)
	now := m.inFlight.Add(1)
	for most := m.most.Load(); now > most && !m.most.CompareAndSwap(most, now); most = m.most.Load() {
	}
	if err := ctx.Err(); err != nil {
		m.inFlight.Add(-1)
		return nil, err
	}
	data, ok := m.objects[name]
	if !ok {
		m.inFlight.Add(-1)
		return nil, fmt.Errorf("read %s: %w", name, object.ErrNotFound)
	}
	end := min(off+n, int64(len(data)))
	b := data[min(off, end):end]
	m.mu.Lock()
	fault := m.fault
	m.mu.Unlock()
	var r io.Reader = bytes.NewReader(b)
	if fault != nil {
		var err error
		if r, err = fault(ctx, name, off, b); err != nil {
			m.inFlight.Add(-1)
			return nil, err
		}
	}
	return &body{object.Remaining(r, n), n, sync.OnceFunc(func() { m.inFlight.Add(-1) })}, nil
}

// newStore returns a store with objects of random bytes of these sizes, named by numbers.
func newStore(sizes ...int) *memoryStore {
	rng := rand.New(rand.NewPCG(1, 2))
	m := &memoryStore{objects: map[string][]byte{}}
	for i, n := range sizes {
		b := make([]byte, n)
		for k := range b {
			b[k] = byte(rng.Uint32())
		}
		m.objects[fmt.Sprint("objects/", i)] = b
	}
	return m
}

func open(t testing.TB, store object.Store, change func(*Options)) *Cache {
	t.Helper()
	opt := Options{Dir: t.TempDir(), Store: store, Timeout: 5 * time.Second}
	if change != nil {
		change(&opt)
	}
	c, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (m *memoryStore) object(c *Cache, name string) *Object {
	return c.Object(name, int64(len(m.objects[name])))
}

// read reads and compares.
func (m *memoryStore) read(ctx context.Context, o *Object, off int64, n int) error {
	p := make([]byte, n)
	if err := o.ReadBody(ctx, p, off); err != nil {
		return err
	}
	if !bytes.Equal(p, m.objects[o.name][off:off+int64(n)]) {
		return errors.New("wrong bytes")
	}
	return nil
}

func TestRead(t *testing.T) {
	const size = 5*rangeBytes + 777
	s := newStore(size, 10)
	dir := t.TempDir()
	change := func(o *Options) { o.Dir = dir }
	c := open(t, s, change)
	o := s.object(c, "objects/0")
	for _, r := range []struct{ off, n, gets int }{
		{100, 50, 1},
		{0, rangeBytes, 0},
		{2*rangeBytes - 10, 20, 1}, // two ranges in one request
		{3*rangeBytes - 1, 1, 0},
		{0, size, 3}, // range 3 is missing of the first four, 4 is read ahead, and then 5
		{size - 1, 1, 0},
		{size, 0, 0},
	} {
		before := s.gets.Load()
		if err := s.read(t.Context(), o, int64(r.off), r.n); err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		if n := s.gets.Load() - before; n != int64(r.gets) {
			t.Errorf("%d bytes at %d took %d requests, want %d", r.n, r.off, n, r.gets)
		}
	}
	if err := o.ReadBody(t.Context(), make([]byte, 2), size-1); !errors.Is(err, binio.ErrCorrupt) {
		t.Errorf("read beyond the end: %v", err)
	}
	c.runs.Wait() // the last range is in the clock
	st := c.Stats()
	if st.Gets != 5 || st.BytesFetched != size || st.BytesCached != size+6*trailerBytes || st.Misses == 0 || st.Hits == 0 || st.Errors+st.Evictions != 0 {
		t.Errorf("%+v", st)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	// What is on the disk stays.
	before := s.gets.Load()
	again := open(t, s, change)
	if err := s.read(t.Context(), s.object(again, "objects/0"), 0, size); err != nil {
		t.Error(err)
	}
	if s.gets.Load() != before || again.Stats().BytesCached != size+6*trailerBytes {
		t.Errorf("%d requests after a restart, %+v", s.gets.Load()-before, again.Stats())
	}
}

// Random reads of random objects by several readers give the bytes of the objects, while
// ranges are evicted, found wrong, damaged on the disk, and requests fail.
func TestModel(t *testing.T) {
	s := newStore(7*rangeBytes+5, 3*rangeBytes, 900_000, 12*rangeBytes-1, 1)
	seed := testseed.Of(t)
	var requests atomic.Int64
	s.setFault(func(_ context.Context, _ string, _ int64, b []byte) (io.Reader, error) {
		switch n := requests.Add(1); {
		case n%7 == 0:
			return nil, object.ErrUnreachable
		case n%11 == 0:
			return io.MultiReader(bytes.NewReader(b[:len(b)/2]), iotest.ErrReader(errors.New("connection reset"))), nil
		}
		return bytes.NewReader(b), nil
	})
	dir := t.TempDir()
	for round := range 3 {
		s.most.Store(0)
		c := open(t, s, func(o *Options) { o.Dir, o.Parallel, o.Size = dir, 2+round, 9*fileBytes })
		var wg sync.WaitGroup
		for w := range 6 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(10*round+w)))
				for range 60 {
					o := s.object(c, fmt.Sprint("objects/", r.IntN(5)))
					off := r.Int64N(o.size)
					n := int(min(o.size-off, r.Int64N(1<<uint(r.IntN(22)))+1))
					ctx, cancel := t.Context(), context.CancelFunc(func() {})
					if r.IntN(10) == 0 {
						ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(3))*time.Millisecond)
					}
					err := s.read(ctx, o, off, n)
					if err != nil && ctx.Err() == nil {
						t.Errorf("%d bytes at %d of %s: %v", n, off, o.name, err)
					}
					if r.IntN(20) == 0 {
						p := make([]byte, n)
						if err := o.ReadBodyAgain(t.Context(), p, off); err != nil || !bytes.Equal(p, s.objects[o.name][off:off+int64(n)]) {
							t.Errorf("again %d bytes at %d of %s: %v", n, off, o.name, err)
						}
					}
					cancel()
				}
			})
		}
		wg.Wait()
		st := c.Stats()
		if st.BytesCached > 12*fileBytes || st.Evictions == 0 || st.Errors == 0 {
			t.Errorf("%+v", st)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		names, err := vfs.OS.List(dir)
		if err != nil || int64(len(names))*fileBytes > 13*fileBytes || int64(len(names)) < st.BytesCached/fileBytes {
			t.Errorf("%d files, %+v, %v", len(names), st, err)
		}
		if most := s.most.Load(); most > int64(2+round) {
			t.Errorf("%d requests at a time", most)
		}
		for i, name := range names { // cut, changed, swapped
			p := path.Join(dir, name)
			b, err := vfs.ReadFile(vfs.OS, p)
			if err != nil {
				t.Fatal(err)
			}
			switch i % 5 {
			case 0:
				b = b[:len(b)/2]
			case 1:
				b[len(b)/3] ^= 1
			case 2:
				b = b[:0]
			case 3:
				if b, err = vfs.ReadFile(vfs.OS, path.Join(dir, names[(i+1)%len(names)])); err != nil {
					t.Fatal(err)
				}
			default:
				continue
			}
			if err := vfs.WriteFileSynced(vfs.OS, p, b); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The bytes of a range file, forever: another layout is another version.
func TestRangeFile(t *testing.T) {
	got := appendTrailer([]byte("body"), "objects/a", 7)
	want := "626f6479" + "7473646264524e47" + "0100" + "0000" + "eaf6fd4b"
	if fmt.Sprintf("%x", got) != want {
		t.Errorf("%x, want %s", got, want)
	}
	if why := checkRange(got, 4, "objects/a", 7); why != "" {
		t.Error(why)
	}
	for what, why := range map[string]string{
		"size": checkRange(got, 5, "objects/a", 7), "object": checkRange(got, 4, "objects/b", 7), "place": checkRange(got, 4, "objects/a", 8),
		"nothing": checkRange(nil, 4, "objects/a", 7),
	} {
		if why == "" {
			t.Errorf("another %s is not found", what)
		}
	}
	for i := range got {
		b := bytes.Clone(got)
		if b[i] ^= 4; checkRange(b, 4, "objects/a", 7) == "" {
			t.Errorf("a flip of byte %d is not found", i)
		}
	}
	const name = "000102030405060708090a0b0c0d0e0f-0000002a-00000000000000ff"
	k, number, ok := parseName(name)
	if !ok || k.n != 42 || number != 255 || k.object[15] != 15 {
		t.Errorf("%v, %d, %v", k, number, ok)
	}
	for _, bad := range []string{"", "x", name[1:], name + "0", "g" + name[1:], strings.Replace(name, "-", "_", 1), name[:len(name)-1] + "-"} {
		if _, _, ok := parseName(bad); ok {
			t.Errorf("%q is a name", bad)
		}
	}
}

// Files that are not the cache's stay where they are.
func TestForeignFiles(t *testing.T) {
	s, dir := newStore(rangeBytes), t.TempDir()
	ours := fmt.Sprintf("%x-%08x-%016x", idOf("objects/0"), 0, 1)
	for _, name := range []string{"README", ours + ".tmp", ours} {
		if err := vfs.WriteFileSynced(vfs.OS, path.Join(dir, name), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	c := open(t, s, func(o *Options) { o.Dir = dir })
	if err := s.read(t.Context(), s.object(c, "objects/0"), 3, 3); err != nil {
		t.Fatal(err)
	}
	c.runs.Wait()
	if names, err := vfs.OS.List(dir); err != nil || len(names) != 2 || !slices.Contains(names, "README") || slices.Contains(names, ours) {
		t.Errorf("%q, %v", names, err)
	}
	if _, err := Open(Options{Dir: path.Join(dir, "README"), Store: s}); err == nil {
		t.Error("a file is taken for a directory")
	}
}

// More ranges than may be mapped: mappings go and come, and the bytes are right.
// TestEviction: what a query has fetched is there when it asks again, though the cache was full of
// ranges that are in use.
func TestEviction(t *testing.T) {
	const ranges, some = 16, 8
	m := newStore(ranges<<20, some<<20)
	c := open(t, m, func(opt *Options) { opt.Parallel, opt.Size = 2, ranges*fileBytes })
	read := func(name string, ranges, times int) (gets int64) {
		t.Helper()
		before := m.gets.Load()
		for n := ranges - 1; n >= 0; n-- { // backwards: nothing is fetched ahead
			for range times {
				if err := m.read(t.Context(), m.object(c, name), int64(n)<<20, 100); err != nil {
					t.Fatal(err)
				}
			}
			c.runs.Wait() // the range is in the clock before the next one comes
		}
		return m.gets.Load() - before
	}
	if n := read("objects/0", ranges, 2); n != ranges {
		t.Fatalf("%d requests fill the cache, want %d", n, ranges)
	}
	if n := read("objects/1", some, 1); n != some {
		t.Fatalf("%d requests for %d other ranges", n, some)
	}
	if n := read("objects/1", some, 1); n != 0 {
		t.Errorf("%d requests for the same again", n)
	}
	if st := c.Stats(); st.BytesCached > ranges*fileBytes || st.Evictions != some {
		t.Errorf("%+v", st)
	}
}

func TestMappings(t *testing.T) {
	s := newStore(3 * rangeBytes)
	c := open(t, s, nil)
	o := s.object(c, "objects/0")
	if err := s.read(t.Context(), o, 0, 3*rangeBytes); err != nil {
		t.Fatal(err)
	}
	c.runs.Wait()
	if err := s.read(t.Context(), o, 0, 3*rangeBytes); err != nil { // maps all
		t.Fatal(err)
	}
	for range maxMapped {
		if old := c.mappings.add(c.table.find(o.key(2))); old != nil {
			if err := old.unmap(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if e := c.table.find(o.key(0)); e.mu.file != nil {
		t.Error("the first file is still mapped")
	}
	gets := s.gets.Load()
	if err := s.read(t.Context(), o, 0, 3*rangeBytes); err != nil || s.gets.Load() != gets {
		t.Errorf("%d requests, %v", s.gets.Load()-gets, err)
	}
}
