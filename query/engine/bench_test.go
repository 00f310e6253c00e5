package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/internal/proc"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/result"
)

// benchStore is one shard of regular float series, made in memory: hosts
// series with fields f0.. of rows points each, every ten seconds.
type benchStore struct {
	scan.Shard                 // for the methods that no benchmark calls
	hosts, rows, fields, chunk int
	stats                      bool
	chunks                     [][]*scantest.Chunk // by series and chunk, all fields
}

const benchStart = int64(1500000000e9)

func newBenchStore(hosts, rows, fields int, stats bool) *benchStore {
	b := &benchStore{hosts: hosts, rows: rows, fields: fields, chunk: 1000, stats: stats}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range hosts {
		var list []*scantest.Chunk
		for lo := 0; lo < rows; lo += b.chunk {
			n := min(b.chunk, rows-lo)
			c := &scantest.Chunk{At: make([]int64, n), Distance: 10e9, HasStats: stats}
			if n == 1 {
				c.Distance = 0
			}
			for i := range c.At {
				c.At[i] = benchStart + int64(lo+i)*10e9
			}
			for range fields {
				v := column.Vector{Type: model.Float, Floats: make([]float64, n)}
				for i := range v.Floats {
					v.Floats[i] = math.Round(rnd.Float64()*1e4) / 100
				}
				c.Cols = append(c.Cols, v)
			}
			list = append(list, c)
		}
		b.chunks = append(b.chunks, list)
	}
	return b
}

// jittered gives the rows of each host times as scrapes have: at a place of their own in
// the interval, some milliseconds early or late.
func (b *benchStore) jittered() *benchStore {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, list := range b.chunks {
		phase := rnd.Int64N(10e9)
		for _, c := range list {
			c.Distance = 0
			for i := range c.At {
				c.At[i] += phase + rnd.Int64N(20e6)
			}
		}
	}
	return b
}

func (b *benchStore) View(db, rp string, r model.TimeRange) (scan.View, error) { return b, nil }
func (b *benchStore) Partial() scan.Storage                                    { return b }
func (b *benchStore) Shards() []scan.Shard                                     { return []scan.Shard{b} }

func (b *benchStore) SeriesKey(id model.SeriesID) (string, error) {
	return fmt.Sprintf("cpu,host=h%06d,zone=z%d", id, id%10), nil
}
func (b *benchStore) Release()                   {}
func (b *benchStore) Losses() []scan.Loss        { return nil }
func (b *benchStore) ID() uint64                 { return 1 }
func (b *benchStore) TimeRange() model.TimeRange { return model.AllTime }
func (b *benchStore) Measurements() []string     { return []string{"cpu"} }
func (b *benchStore) Fields(string) []column.Field {
	var out []column.Field
	for i := range b.fields {
		out = append(out, column.Field{Key: fmt.Sprintf("f%d", i), Type: model.Float})
	}
	return out
}
func (b *benchStore) TagKeys(string) ([]string, error) { return []string{"host", "zone"}, nil }
func (b *benchStore) Select(_ context.Context, _ string, where *model.TagExpr) (*roaring.Bitmap, error) {
	if where != nil && where.Key == "host" {
		var id uint32
		fmt.Sscanf(where.Value, "h%d", &id)
		return roaring.BitmapOf(id), nil
	}
	set := roaring.New()
	set.AddRange(1, uint64(b.hosts)+1)
	return set, nil
}

func (b *benchStore) FirstTagValues(_, _ string, set *roaring.Bitmap, limit int) ([]string, error) {
	return hostValues(set.ToArray()[:limit]), nil
}

func (b *benchStore) LastTagValues(_, _ string, set *roaring.Bitmap, limit int) ([]string, error) {
	ids := set.ToArray()
	return hostValues(ids[len(ids)-limit:]), nil
}

func hostValues(ids []uint32) (values []string) {
	for _, id := range ids {
		values = append(values, fmt.Sprintf("h%06d", id))
	}
	return values
}

func (b *benchStore) GroupBy(_ string, set *roaring.Bitmap, keys []string) (*scan.Groups, error) {
	if len(keys) == 0 {
		return scan.NewGroups([][]string{{}}, nil, nil), nil
	}
	ids := set.ToArray()
	tuples := make([][]string, len(ids))
	group := make([]uint32, len(ids))
	for i, id := range ids {
		tuples[i] = []string{fmt.Sprintf("h%06d", id)}
		group[i] = uint32(i)
	}
	return scan.NewGroups(tuples, ids, group), nil
}

func (b *benchStore) Charged(func(int64) error) scan.Shard { return b }

func (b *benchStore) TimeBounds(*roaring.Bitmap) (model.TimeRange, bool) {
	return model.TimeRange{Min: benchStart, Max: benchStart + int64(b.rows)*10e9}, true
}

func (b *benchStore) Scan(ctx context.Context, req scan.Request) (scan.Cursor, error) {
	c := &benchCursor{b: b, req: req, it: req.Series.Iterator(), chunk: benchChunk{fields: make([]int, len(req.Fields))}}
	for i, f := range req.Fields {
		fmt.Sscanf(f, "f%d", &c.chunk.fields[i])
	}
	return c, nil
}

type benchCursor struct {
	b     *benchStore
	req   scan.Request
	it    roaring.IntPeekable
	list  []*scantest.Chunk
	chunk benchChunk
}

type benchChunk struct {
	*scantest.Chunk
	fields []int
}

func (c *benchChunk) Column(i int) (*column.Vector, error) { return &c.Cols[c.fields[i]], nil }
func (c *benchChunk) Stats(i int, st *scan.Stats) bool {
	if !c.HasStats {
		return false
	}
	v := c.Cols[c.fields[i]].Floats
	n := len(v)
	*st = scan.Stats{
		Count: n, LastRow: n - 1, First: math.Float64bits(v[0]), Last: math.Float64bits(v[n-1]),
		Sum: math.Float64bits(50 * float64(n)), Min: math.Float64bits(0), Max: math.Float64bits(100),
	}
	return true
}
func (c *benchChunk) Sum(i int, st *scan.Stats) bool { return c.Stats(i, st) }
func (c *benchChunk) Count(i int) (int, bool)        { return len(c.At), c.HasStats }

func (c *benchCursor) NextSeries() (model.SeriesID, bool) {
	if !c.it.HasNext() {
		return 0, false
	}
	id := c.it.Next()
	c.list = c.b.chunks[id-1]
	return model.SeriesID(id), true
}

func (c *benchCursor) NextChunk() scan.Chunk {
	for len(c.list) > 0 {
		if k := c.list[0]; k.Min() >= c.req.Range.Min && k.Max() <= c.req.Range.Max {
			break
		} else if n := c.cut(k); n != nil {
			c.chunk.Chunk = n
			c.list = c.list[1:]
			return &c.chunk
		}
		c.list = c.list[1:]
	}
	if len(c.list) == 0 {
		return nil
	}
	if c.req.Descending {
		c.chunk.Chunk = c.list[len(c.list)-1]
		c.list = c.list[:len(c.list)-1]
	} else {
		c.chunk.Chunk = c.list[0]
		c.list = c.list[1:]
	}
	return &c.chunk
}

// cut returns the rows of a chunk that lie in the range.
func (c *benchCursor) cut(k *scantest.Chunk) *scantest.Chunk {
	lo, _ := slices.BinarySearch(k.At, c.req.Range.Min)
	hi, found := slices.BinarySearch(k.At, c.req.Range.Max)
	if found {
		hi++
	}
	if lo >= hi {
		return nil
	}
	out := &scantest.Chunk{At: k.At[lo:hi], Distance: k.Distance}
	for i := range k.Cols {
		out.Cols = append(out.Cols, k.Cols[i].Slice(lo, hi))
	}
	return out
}

func (c *benchCursor) Err() error             { return nil }
func (c *benchCursor) Close()                 {}
func (c *benchCursor) Narrow(model.TimeRange) {}
func (c *benchCursor) Again(scan.Request)     { panic("not asked for") }

func benchSelect(b *testing.B, store *benchStore, q string) {
	b.Helper()
	parsed, err := influxql.ParseStatement(q)
	if err != nil {
		b.Fatal(err)
	}
	rows := store.hosts * store.rows
	b.ReportAllocs()
	begin := proc.CPUTime()
	for b.Loop() {
		out := 0
		err := Select(context.Background(), parsed.(*influxql.SelectStatement), store, Options{Workers: 2}, func(r *result.Result) error {
			for _, s := range r.Series {
				out += s.Rows
			}
			return nil
		})
		if err != nil || out == 0 {
			b.Fatal(out, err)
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
	// What other processes do does not show in this one.
	b.ReportMetric(float64(rows)*float64(b.N)/(proc.CPUTime()-begin).Seconds()/1e6, "Mrows/cpu-s")
}

func BenchmarkSelect(b *testing.B) {
	end := benchStart + 4320*10e9
	span := fmt.Sprintf("time >= %d AND time < %d", benchStart, end)
	tsbs := newBenchStore(100, 4320, 10, false) // 100 hosts, 12 h
	tsbsStats := newBenchStore(100, 4320, 10, true)
	wide := newBenchStore(100_000, 30, 1, true)
	jitter := newBenchStore(100, 4320, 10, false).jittered()
	all := ""
	for i := range 10 {
		if i > 0 {
			all += ", "
		}
		all += fmt.Sprintf("mean(f%d)", i)
	}
	for _, c := range []struct {
		name, q string
		s       *benchStore
	}{
		{"count/1m", "SELECT count(f0) FROM cpu WHERE " + span + " GROUP BY time(1m)", tsbsStats},
		{"count/1m/wide", "SELECT count(f0) FROM cpu WHERE " + span + " GROUP BY time(1m) fill(none)", wide},
		{"sum/1m", "SELECT sum(f0) FROM cpu WHERE " + span + " GROUP BY time(1m)", tsbs},
		{"sum/1m/jitter", "SELECT sum(f0) FROM cpu WHERE " + span + " GROUP BY time(1m)", jitter},
		{"count/1m/jitter", "SELECT count(f0) FROM cpu WHERE " + span + " GROUP BY time(1m)", jitter},
		{"max/1m/jitter", "SELECT max(f0) FROM cpu WHERE " + span + " GROUP BY time(1m), host", jitter},
		{"mean/1h/jitter", "SELECT mean(f0) FROM cpu WHERE " + span + " GROUP BY time(1h), host", jitter},
		{"mean/1h", "SELECT mean(f0) FROM cpu WHERE " + span + " GROUP BY time(1h)", tsbs},
		{"max/1h", "SELECT max(f0) FROM cpu WHERE " + span + " GROUP BY time(1h)", tsbs},
		{"increase/1m", "SELECT increase(f0) FROM cpu WHERE " + span + " GROUP BY time(1m)", tsbs},
		{"increase/all/wide", "SELECT increase(f0) FROM cpu", wide},
		{"mean/all", "SELECT mean(f0) FROM cpu", tsbs},
		{"mean/all/stats", "SELECT mean(f0) FROM cpu", tsbsStats},
		{"double-groupby-1", "SELECT mean(f0) FROM cpu WHERE " + span + " GROUP BY time(1h), host", tsbs},
		{"double-groupby-all", "SELECT " + all + " FROM cpu WHERE " + span + " GROUP BY time(1h), host", tsbs},
		{"mean/by-host/wide", "SELECT mean(f0) FROM cpu GROUP BY host", wide},
		{"last/by-host/wide", "SELECT last(f0) FROM cpu GROUP BY host", wide},
		{"lastpoint", "SELECT * FROM cpu GROUP BY host ORDER BY time DESC LIMIT 1", tsbs},
		{"limit/wide", "SELECT f0 FROM cpu LIMIT 10", wide},
		{"limit/desc/wide", "SELECT f0 FROM cpu ORDER BY time DESC LIMIT 10", wide},
		{"high-cpu", "SELECT * FROM cpu WHERE f0 > 90 AND " + span, tsbs},
		{"raw/filter/count", "SELECT count(f0) FROM cpu WHERE f1 > 50 AND " + span + " GROUP BY time(1h)", tsbs},
		{"raw/all", "SELECT f0 FROM cpu GROUP BY host", tsbs},
		{"raw/merge", "SELECT f0 FROM cpu", tsbs},
		{"median/1h", "SELECT median(f0) FROM cpu WHERE " + span + " GROUP BY time(1h)", tsbs},
		{"median/all", "SELECT median(f0) FROM cpu WHERE " + span, tsbs},
		{"percentile/1h", "SELECT percentile(f0, 95) FROM cpu WHERE " + span + " GROUP BY time(1h)", tsbs},
		{"percentile/1h/by-host", "SELECT percentile(f0, 95) FROM cpu WHERE " + span + " GROUP BY time(1h), host", tsbs},
		{"percentile/all", "SELECT percentile(f0, 95) FROM cpu WHERE " + span, tsbs},
		{"distinct/1h", "SELECT distinct(f0) FROM cpu WHERE " + span + " GROUP BY time(1h)", tsbs},
		{"mode/1h", "SELECT mode(f0) FROM cpu WHERE " + span + " GROUP BY time(1h)", tsbs},
	} {
		b.Run(c.name, func(b *testing.B) { benchSelect(b, c.s, c.q) })
	}
}

// BenchmarkLevels times levels of SELECT by the stored rows that the innermost one takes
// in, next to the same rows without a subquery: 100 series of 4,320 rows. sixth is a
// downsample of full: a row for six, of a mean and a count.
func BenchmarkLevels(b *testing.B) {
	end := benchStart + 4320*10e9
	span := fmt.Sprintf("time >= %d AND time < %d", benchStart, end)
	full := newBenchStore(100, 4320, 1, false)
	sixth := newBenchStore(100, 720, 2, false)
	inner := "(SELECT max(f0) AS x FROM cpu WHERE " + span + " GROUP BY time(1m), host)"
	rows := "(SELECT f0 AS a, f1 AS b FROM cpu WHERE " + span + ")"
	hour := " WHERE " + span + " GROUP BY time(1h)"
	for _, c := range []struct {
		name, q string
		s       *benchStore
	}{
		{"plain/mean", "SELECT mean(f0) FROM cpu" + hour, full},
		{"plain/max-by-minute", "SELECT max(f0) FROM cpu WHERE " + span + " GROUP BY time(1m), host", full},
		{"mean-of-max", "SELECT mean(x) FROM " + inner + hour, full},
		{"mean-of-max/by-host", "SELECT mean(x) FROM " + inner + hour + ", host", full},
		{"mean-of-max/whole-range", "SELECT mean(x) FROM " + inner, full},
		{"three-levels", "SELECT max(y) FROM (SELECT mean(x) AS y FROM " + inner + " WHERE " + span + " GROUP BY time(10m), host)" + hour, full},
		{"percentile-of-max", "SELECT percentile(x, 95) FROM " + inner + hour, full},
		{"derivative-of-max", "SELECT derivative(x) FROM " + inner + " GROUP BY host", full},
		{"mean-of-rows", "SELECT mean(a) FROM (SELECT f0 AS a FROM cpu WHERE " + span + ")" + hour, full},
		{"downsample/sum", "SELECT sum(a) FROM " + rows + hour, sixth},
		{"downsample/sum-by-host", "SELECT sum(a) FROM (SELECT f0 AS a, f1 AS b FROM cpu WHERE " + span + " GROUP BY host)" + hour + ", host", sixth},
		{"downsample/mean", "SELECT sum(t) / sum(b) FROM (SELECT f0 * f1 AS t, f1 AS b FROM cpu WHERE " + span + ")" + hour, sixth},
	} {
		b.Run(c.name, func(b *testing.B) { benchSelect(b, c.s, c.q) })
	}
}
