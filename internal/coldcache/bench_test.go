package coldcache_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"tsdbd/internal/coldcache"
	"tsdbd/internal/object"
	"tsdbd/internal/proc"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/tsm"
)

// coldFile writes a TSM file of devops rows into a store, and returns readers of the whole
// file and of its tail, whose body comes through a cache of size bytes.
func coldFile(t testing.TB, series, rows, size int) (local, cold *tsm.Reader, cache *coldcache.Cache) {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "objects", "a.tsm")
	if err := vfs.OS.MkdirAll(filepath.Dir(name)); err != nil {
		t.Fatal(err)
	}
	w, err := tsm.Create(vfs.OS, name, tsm.WriterOptions{Dense: true})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 5))
	fields := make([]column.Field, 10)
	cols := make([]column.Vector, len(fields))
	for f := range fields {
		fields[f] = column.Field{Key: fmt.Sprintf("usage_%d", f), Type: model.Integer}
		cols[f] = column.Vector{Type: model.Integer, Ints: make([]int64, tsm.ChunkRows)}
	}
	times := make([]int64, tsm.ChunkRows)
	for s := range series {
		if err := w.Series(model.SeriesID(s+1), fmt.Sprintf("cpu,hostname=host_%05d", s), fields); err != nil {
			t.Fatal(err)
		}
		at := int64(1767225600e9)
		walk := [10]int64{50, 50, 50, 50, 50, 50, 50, 50, 50, 50}
		for n := rows; n > 0; n -= tsm.ChunkRows {
			for i := range times {
				at += 10e9
				times[i] = at
				for f := range cols {
					walk[f] = min(max(walk[f]+rng.Int64N(3)-1, 0), 100)
					cols[f].Ints[i] = walk[f]
				}
			}
			if err := w.Append(times, cols); err != nil {
				t.Fatal(err)
			}
		}
	}
	info, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if local, err = tsm.Open(vfs.OS, name); err != nil {
		t.Fatal(err)
	}
	if err := local.WriteTail(vfs.OS, dir+"/a.tail"); err != nil {
		t.Fatal(err)
	}
	cache, err = coldcache.Open(coldcache.Options{Dir: dir + "/cache", Size: int64(size), Store: object.OpenDir(vfs.OS, dir)})
	if err != nil {
		t.Fatal(err)
	}
	if cold, err = tsm.OpenTail(vfs.OS, dir+"/a.tail", cache.Object("objects/a.tsm", info.Size)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, close := range []func() error{local.Close, cold.Close, cache.Close} {
			if err := close(); err != nil {
				t.Error(err)
			}
		}
	})
	return local, cold, cache
}

// scanFile decodes the first columns of all chunks.
func scanFile(t testing.TB, r *tsm.Reader, columns int) (values int) {
	t.Helper()
	var s tsm.Series
	var c tsm.Chunk
	defer c.Release()
	for i := range r.Len() {
		if err := r.Load(i, &s); err != nil {
			t.Fatal(err)
		}
		for k := range s.Chunks {
			if err := r.Chunk(&s, k, &c); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Times(); err != nil {
				t.Fatal(err)
			}
			for f := range columns {
				v, err := c.Column(f)
				if err != nil {
					t.Fatal(err)
				}
				values += len(v.Ints)
			}
		}
	}
	return values
}

// BenchmarkScan compares a scan of a local file with one whose body is in a full cache.
func BenchmarkScan(b *testing.B) {
	local, cold, cache := coldFile(b, 300, 16*tsm.ChunkRows, 1<<30)
	scanFile(b, cold, 10)
	gets := cache.Stats().Gets
	for _, columns := range []int{1, 10} {
		for name, r := range map[string]*tsm.Reader{"local": local, "cold": cold} {
			b.Run(fmt.Sprintf("columns=%d/%s", columns, name), func(b *testing.B) {
				values, cpu := 0, proc.CPUTime()
				for b.Loop() {
					values += scanFile(b, r, columns)
				}
				b.ReportMetric(float64((proc.CPUTime()-cpu).Nanoseconds())/float64(values), "CPU-ns/value")
			})
		}
	}
	if n := cache.Stats().Gets - gets; n > 0 {
		b.Errorf("%d requests to the store with a full cache", n)
	}
}

// A year of aggregates over whole chunks asks the store for nothing, and one series of one
// day for little.
func TestRequests(t *testing.T) {
	_, cold, cache := coldFile(t, 60, 16*tsm.ChunkRows, 1<<30)
	var s tsm.Series
	var c tsm.Chunk
	count := 0
	for i := range cold.Len() {
		if err := cold.Load(i, &s); err != nil {
			t.Fatal(err)
		}
		for k := range s.Chunks {
			if err := cold.Chunk(&s, k, &c); err != nil {
				t.Fatal(err)
			}
			for f := range s.Fields {
				var st scan.Stats
				if !c.Stats(f, &st) || !c.AllValid(f) {
					t.Fatal("no statistics")
				}
				count += st.Count
			}
		}
	}
	if st := cache.Stats(); st.Gets > 0 || count != 60*16*tsm.ChunkRows*10 {
		t.Errorf("%d values, %+v", count, st)
	}
	for i := range cold.Len() { // nine chunks are a day
		before := cache.Stats().Gets
		if err := cold.Load(i, &s); err != nil {
			t.Fatal(err)
		}
		from := i % 7
		for k := from; k < from+9; k++ {
			if err := cold.Chunk(&s, k, &c); err != nil {
				t.Fatal(err)
			}
			for f := range s.Fields {
				if _, err := c.Column(f); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := cache.Stats().Gets - before; n > 2 {
			t.Errorf("series %d: %d requests for one day", i, n)
		}
	}
	before := cache.Stats().Gets
	scanFile(t, cold, 10)
	scanFile(t, cold, 10)
	if st := cache.Stats(); st.BytesFetched > cold.Info().Size {
		t.Errorf("%d requests before, %+v of %d bytes", before, st, cold.Info().Size)
	}
}

// BenchmarkFetch compares getting an object from a store in requests of a range with reading it
// through an empty cache in small pieces.
func BenchmarkFetch(b *testing.B) {
	const size, piece = 64 << 20, 4 << 10
	dir := b.TempDir()
	store := object.OpenDir(vfs.OS, dir)
	data := make([]byte, size)
	if err := store.Put(b.Context(), "a", object.Content{Bytes: data}); err != nil {
		b.Fatal(err)
	}
	measure := func(name string, read func() error) {
		b.Run(name, func(b *testing.B) {
			cpu := proc.CPUTime()
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((proc.CPUTime()-cpu).Microseconds())/float64(b.N)/(size>>20), "CPU-us/MiB")
		})
	}
	measure("store", func() error {
		for at := int64(0); at < size; at += 1 << 20 {
			in, err := store.ReadRange(b.Context(), "a", at, 1<<20)
			if err != nil {
				return err
			}
			_, err = io.ReadFull(in, data[:1<<20])
			if err = errors.Join(err, in.Close()); err != nil {
				return err
			}
		}
		return nil
	})
	measure("cache", func() error {
		cache, err := coldcache.Open(coldcache.Options{Dir: filepath.Join(dir, "cache"), Size: 2 * size, Store: store})
		if err != nil {
			return err
		}
		o := cache.Object("a", size)
		for at := int64(0); at < size; at += piece {
			if err := o.ReadBody(b.Context(), data[:piece], at); err != nil {
				return err
			}
		}
		return errors.Join(cache.Close(), os.RemoveAll(filepath.Join(dir, "cache")))
	})
}
