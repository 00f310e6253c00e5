package tsm

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// shortSet is a set of n series of one row of two integers.
type shortSet struct {
	keys   []string
	fields []column.Field
	times  []int64
	values [][2]int64
}

func newShortSet(n int) *shortSet {
	rng := rand.New(rand.NewPCG(7, 7))
	s := &shortSet{fields: []column.Field{{Key: "bytes_recv", Type: model.Integer}, {Key: "bytes_sent", Type: model.Integer}}}
	for i := range n {
		s.keys = append(s.keys, fmt.Sprintf("net,host=host_%05d,interface=eth%d,region=eu-central-%d,service=%d", i/8, i%8, i/8%3, i/8%20))
		s.times = append(s.times, 1700000000e9+rng.Int64N(10e9))
		s.values = append(s.values, [2]int64{rng.Int64N(100000), rng.Int64N(100000)})
	}
	slices.Sort(s.keys)
	return s
}

func (s *shortSet) write(tb testing.TB, path string) Info {
	tb.Helper()
	w, err := Create(vfs.OS, path, WriterOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	cols := []column.Vector{{Type: model.Integer, Ints: []int64{0}}, {Type: model.Integer, Ints: []int64{0}}}
	for i, k := range s.keys {
		cols[0].Ints[0], cols[1].Ints[0] = s.values[i][0], s.values[i][1]
		if err := w.Series(model.SeriesID(i+1), k, s.fields); err != nil {
			tb.Fatal(err)
		}
		if err := w.Append(s.times[i:i+1], cols); err != nil {
			tb.Fatal(err)
		}
	}
	info, err := w.Finish()
	if err != nil {
		tb.Fatal(err)
	}
	return info
}

func writeShort(tb testing.TB, path string, n int) Info { return newShortSet(n).write(tb, path) }

// TestShortSeriesSize holds the cost of a file of very short series.
func TestShortSeriesSize(t *testing.T) {
	const n = 20000
	info := writeShort(t, tempFile(t), n)
	if per := float64(info.Size) / n; per > 35 {
		t.Errorf("%.1f bytes per series, want at most 35", per)
	}
}

// One row a series: walk, load and decode everything front to back.
func BenchmarkShortSeriesScan(b *testing.B) {
	const n = 280000
	path := tempFile(b)
	info := writeShort(b, path, n)
	r := openFile(b, path)
	var s Series
	var c Chunk
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		var sum int64
		for i := range n {
			if err := r.Load(i, &s); err != nil {
				b.Fatal(err)
			}
			for k := range s.Chunks {
				if err := r.Chunk(&s, k, &c); err != nil {
					b.Fatal(err)
				}
				times, err := c.Times()
				if err != nil {
					b.Fatal(err)
				}
				sum += times[0]
				for f := range s.Fields {
					v, err := c.Column(f)
					if err != nil {
						b.Fatal(err)
					}
					sum += v.Ints[0]
				}
			}
		}
		if sum == 0 {
			b.Fatal("nothing read")
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/series")
	b.ReportMetric(float64(info.Size)/n, "bytes/series")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkShortSeriesWrite(b *testing.B) {
	const n = 100000
	path := tempFile(b)
	set := newShortSet(n)
	for b.Loop() {
		set.write(b, path)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/series")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1000, 280000} {
		b.Run(fmt.Sprintf("series=%d", n), func(b *testing.B) {
			path := tempFile(b)
			writeShort(b, path, n)
			for b.Loop() {
				r, err := Open(vfs.OS, path)
				if err != nil {
					b.Fatal(err)
				}
				if err := r.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// writeIDs writes n series without fields, whose ids are dense or spread.
func writeIDs(tb testing.TB, path string, n int, gap uint32, shuffle bool) []model.SeriesID {
	rng := rand.New(rand.NewPCG(3, 3))
	ids := make([]model.SeriesID, n)
	at := uint32(1)
	for i := range ids {
		ids[i] = model.SeriesID(at)
		at += 1 + rng.Uint32N(gap)
	}
	if shuffle {
		rng.Shuffle(n, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	}
	w, err := Create(vfs.OS, path, WriterOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	for i, id := range ids {
		if err := w.Series(id, fmt.Sprintf("m,h=%08d", i), nil); err != nil {
			tb.Fatal(err)
		}
		if err := w.Append([]int64{1700000000e9}, nil); err != nil {
			tb.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		tb.Fatal(err)
	}
	return ids
}

func BenchmarkFind(b *testing.B) {
	const n = 1 << 20
	for _, tt := range []struct {
		name    string
		gap     uint32
		shuffle bool
	}{{"dense", 1, false}, {"dense shuffled", 1, true}, {"spread", 100, true}} {
		b.Run(tt.name, func(b *testing.B) {
			path := tempFile(b)
			ids := writeIDs(b, path, n, tt.gap, tt.shuffle)
			r := openFile(b, path)
			perm := rand.New(rand.NewPCG(5, 5)).Perm(n)
			for _, i := range perm {
				if o, ok, err := r.Find(ids[i]); !ok || err != nil || o != i {
					b.Fatalf("find %d: %d %v %v", ids[i], o, ok, err)
				}
			}
			b.ResetTimer()
			i := 0
			for b.Loop() {
				if _, ok, _ := r.Find(ids[perm[i&(n-1)]]); !ok {
					b.Fatal("not found")
				}
				i++
			}
			s := &r.foot.sec
			b.ReportMetric(float64(s.checksums-s.idDir)/n, "bytes/series")
		})
	}
}

// wideSeries makes series of one 1,000-row chunk of ten fields under 226-byte
// keys, as the TSBS cpu-only set has.
func wideKey(i int) string {
	return fmt.Sprintf("cpu,arch=x64,datacenter=eu-central-1%c,hostname=host_%06d,os=Ubuntu16.%02dLTS,rack=%02d,region=eu-central-1,"+
		"service=%02d,service_environment=production,service_version=%d,team=%s,cluster=kubernetes-%03d,zone=availability-%02d-suffix",
		'a'+byte(i*7%3), i, 4+i*11%10, i*13%100, i*17%20, i*19%2, []string{"NYC", "LON", "SF", "CHI"}[i*23%4], i*29%300, i*31%30)
}

func wideColumns(rng *rand.Rand, rows int) (fields []column.Field, cols []column.Vector) {
	for f := range 10 {
		v := column.Vector{Type: model.Integer}
		x := int64(50)
		ty := model.Integer
		if f >= 5 {
			ty = model.Float
		}
		v.Type = ty
		for range rows {
			x = max(0, min(100, x+int64(math.Round(rng.NormFloat64()))))
			if ty == model.Integer {
				v.Ints = append(v.Ints, x)
			} else {
				v.Floats = append(v.Floats, float64(x)+float64(rng.IntN(100))/100)
			}
		}
		fields = append(fields, column.Field{Key: fmt.Sprintf("usage_%d", f), Type: ty})
		cols = append(cols, v)
	}
	return fields, cols
}

type wideSet struct {
	keys   []string
	fields []column.Field
	times  []int64
	cols   [8][]column.Vector
}

func newWideSet(n, rows int) *wideSet {
	rng := rand.New(rand.NewPCG(9, 9))
	s := new(wideSet)
	for i := range n {
		s.keys = append(s.keys, wideKey(i))
	}
	slices.Sort(s.keys)
	for i := range s.cols {
		s.fields, s.cols[i] = wideColumns(rng, rows)
	}
	for i := range rows {
		s.times = append(s.times, 1700000000e9+int64(i)*10e9)
	}
	return s
}

func (s *wideSet) write(tb testing.TB, path string) Info {
	tb.Helper()
	w, err := Create(vfs.OS, path, WriterOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	for i, k := range s.keys {
		if err := w.Series(model.SeriesID(i+1), k, s.fields); err != nil {
			tb.Fatal(err)
		}
		if err := w.Append(s.times, s.cols[i%len(s.cols)]); err != nil {
			tb.Fatal(err)
		}
	}
	info, err := w.Finish()
	if err != nil {
		tb.Fatal(err)
	}
	return info
}

func writeWide(tb testing.TB, path string, n, rows int) Info {
	return newWideSet(n, rows).write(tb, path)
}

func BenchmarkWrite(b *testing.B) {
	for _, rows := range []int{1, 16, 1000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			path := tempFile(b)
			var info Info
			set := newWideSet(min(20000, 200000/rows), rows)
			b.ResetTimer()
			for b.Loop() {
				info = set.write(b, path)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(info.Values), "ns/value")
			b.ReportMetric(float64(info.Size)/float64(info.Values), "bytes/value")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// Index bytes per series key and field, statistics included.
func BenchmarkIndexSize(b *testing.B) {
	const n, rows = 5000, 16
	path := tempFile(b)
	var info Info
	for b.Loop() {
		info = writeWide(b, path, n, rows)
	}
	r := openFile(b, path)
	s := &r.foot.sec
	b.ReportMetric(float64(len(wideKey(0))), "key-bytes")
	b.ReportMetric(float64(info.IndexSize)/n/10, "bytes/column")
	b.ReportMetric(float64(s.entries-s.keys)/n/10, "keys-bytes/column")
	b.ReportMetric(float64(s.lists-s.entries)/n/10, "entries-bytes/column")
}

func BenchmarkScan(b *testing.B) {
	for _, rows := range []int{1, 16, 1000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) { benchmarkScan(b, min(20000, 200000/rows), rows) })
	}
}

func benchmarkScan(b *testing.B, n, rows int) {
	path := tempFile(b)
	info := writeWide(b, path, n, rows)
	r := openFile(b, path)
	walk := func(b *testing.B, do func(s *Series, c *Chunk)) {
		var s Series
		var c Chunk
		b.ReportAllocs()
		for b.Loop() {
			for i := range n {
				if err := r.Load(i, &s); err != nil {
					b.Fatal(err)
				}
				do(&s, &c)
			}
		}
	}
	b.Run("decode", func(b *testing.B) {
		walk(b, func(s *Series, c *Chunk) {
			if err := r.Chunk(s, 0, c); err != nil {
				b.Fatal(err)
			}
			for f := range s.Fields {
				if _, err := c.Column(f); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(info.Values), "ns/value")
	})
	if rows < StatsRows {
		return
	}
	b.Run("stats", func(b *testing.B) {
		walk(b, func(s *Series, c *Chunk) {
			var st scan.Stats
			for f := range s.Fields {
				if !s.Stats(0, f, &st) {
					b.Fatal("no statistics")
				}
			}
		})
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n)/10, "ns/column")
	})
}

// BenchmarkOneOfManyColumns decodes one column of a chunk of 5,000 with memory that was released, as a query does.
func BenchmarkOneOfManyColumns(b *testing.B) {
	const n, rows = 5000, 100
	fields := make([]column.Field, n)
	cols := make([]column.Vector, n)
	for i := range cols {
		fields[i] = column.Field{Key: fmt.Sprintf("f%04d", i), Type: model.Integer}
		cols[i].Type = model.Integer
		for at := range rows {
			cols[i].Ints = append(cols[i].Ints, int64(i+at*at))
		}
	}
	times := make([]int64, rows)
	for i := range times {
		times[i] = int64(i) * 1e9
	}
	path := tempFile(b)
	w, err := Create(vfs.OS, path, WriterOptions{})
	if err != nil || w.Series(1, "m", fields) != nil || w.Append(times, cols) != nil {
		b.Fatal(err)
	}
	if _, err := w.Finish(); err != nil {
		b.Fatal(err)
	}
	r := openFile(b, path)
	var s Series
	if err := r.Load(0, &s); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		var c Chunk
		if err := r.Chunk(&s, 0, &c); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Column(i % n); err != nil {
			b.Fatal(err)
		}
		c.Release()
	}
}

func BenchmarkAppendEncoded(b *testing.B) {
	const n, rows = 200, 1000
	path := tempFile(b)
	info := writeWide(b, path, n, rows)
	r := openFile(b, path)
	out := tempFile(b)
	for b.Loop() {
		copyFile(b, r, out)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(info.Values), "ns/value")
	b.ReportMetric(float64(info.Size)*float64(b.N)/b.Elapsed().Seconds()/1e6, "MB/s")
}

// copyFile writes all of r to out by AppendEncoded.
func copyFile(tb testing.TB, r *Reader, out string) Info {
	tb.Helper()
	return copyFileWith(tb, r, out, WriterOptions{})
}

func copyFileWith(tb testing.TB, r *Reader, out string, opt WriterOptions) Info {
	tb.Helper()
	w, err := Create(vfs.OS, out, opt)
	if err != nil {
		tb.Fatal(err)
	}
	var s Series
	var keys KeyCursor
	keys.Reset(r)
	for i := range r.Len() {
		key, err := keys.Key(i)
		if err != nil {
			tb.Fatal(err)
		}
		if err := r.Load(i, &s); err != nil {
			tb.Fatal(err)
		}
		if err := w.Series(s.ID, string(key), s.Fields); err != nil {
			tb.Fatal(err)
		}
		for k := range s.Chunks {
			if err := w.AppendEncoded(tb.Context(), r, &s, k); err != nil {
				tb.Fatal(err)
			}
		}
	}
	info, err := w.Finish()
	if err != nil {
		tb.Fatal(err)
	}
	return info
}

func BenchmarkKeys(b *testing.B) {
	const n = 5000
	path := tempFile(b)
	writeWide(b, path, n, 1)
	r := openFile(b, path)
	b.Run("cursor", func(b *testing.B) {
		var c KeyCursor
		c.Reset(r)
		b.ReportAllocs()
		for b.Loop() {
			for i := range n {
				if _, err := c.Key(i); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
	})
	b.Run("random", func(b *testing.B) {
		i := 0
		for b.Loop() {
			if _, err := r.Key(i); err != nil {
				b.Fatal(err)
			}
			i = (i + 1013) % n
		}
	})
}
