package wal

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
)

// benchEntry is a request of a scrape: rows of 10 fields, one per series, at
// the same time.
func benchEntry(kind string, rows int, at int64) *Entry {
	rng := rand.New(rand.NewPCG(1, 2))
	l := &column.Layout{Measurement: "cpu"}
	t := model.Float
	if kind == "tsbs" || kind == "mem" {
		t = model.Integer
	}
	for i := range 10 {
		l.Fields = append(l.Fields, column.Field{Key: fmt.Sprintf("usage_%d", i), Type: t})
	}
	w := Write{Database: 1, Shard: 1}
	for r := range rows {
		s := column.NewSeries(testSeries(uint32(r+1)).Key() + ",region=eu-central-1,datacenter=eu-central-1a,rack=6,os=Ubuntu15.10,arch=x86,team=SF,service=19,service_version=1,service_environment=test")
		s.SetID(model.SeriesID(r + 1))
		w.Rows = append(w.Rows, column.Row{Series: s, Layout: l, Time: at, First: uint32(len(w.Values))})
		for range l.Fields {
			var v uint64
			switch kind {
			case "tsbs":
				v = uint64(rng.IntN(101))
			case "mem":
				v = uint64(rng.Int64N(100_000_000_000))
			case "dec2":
				v = math.Float64bits(float64(rng.IntN(10000)) / 100)
			case "tele":
				v = math.Float64bits(rng.Float64() * 100)
			}
			w.Values = append(w.Values, v)
		}
	}
	return &Entry{Writes: []Write{w}}
}

var benchKinds = []string{"tsbs", "dec2", "tele", "mem"}

func BenchmarkEncode(b *testing.B) {
	for _, kind := range benchKinds {
		b.Run(kind, func(b *testing.B) {
			e := benchEntry(kind, 300, 1e18)
			values := float64(len(e.Writes[0].Values))
			var c encoder
			for b.Loop() {
				if err := c.encode(e); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/values, "ns/value")
			b.ReportMetric(float64(len(c.payload)+recordHeaderSize)/values, "B/value")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, kind := range benchKinds {
		b.Run(kind, func(b *testing.B) {
			e := benchEntry(kind, 300, 1e18)
			values := float64(len(e.Writes[0].Values))
			var c encoder
			if err := c.encode(e); err != nil {
				b.Fatal(err)
			}
			d := newDecoder()
			d.dbs[1] = &seriesTable{}
			for _, r := range e.Writes[0].Rows {
				d.dbs[1].put(uint32(r.Series.ID()), definedSeries{r.Series, 0})
			}
			for b.Loop() {
				if _, err := d.decode(1, c.payload); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/values, "ns/value")
		})
	}
}

// BenchmarkDefine looks up the series of 10,000 rows in the open segment's set,
// and defines them all.
func BenchmarkDefine(b *testing.B) {
	e := benchEntry("tsbs", 10_000, 1)
	var c encoder
	if err := c.encode(e); err != nil {
		b.Fatal(err)
	}
	for _, known := range []bool{true, false} {
		b.Run(fmt.Sprintf("known=%v", known), func(b *testing.B) {
			var d definitions
			var dst []byte
			for b.Loop() {
				if !known {
					d.reset()
				}
				if out := d.append(dst[:0], 1, 1, 0, e, c.ids); len(out) > 0 {
					dst = out
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/row")
			b.ReportMetric(float64(len(dst))/10_000, "B/definition")
		})
	}
}

// BenchmarkAppend writes batches of 300 rows of 10 integers, about 100 KB of
// line protocol, to real files, trimming as a flush would. text-MB/s counts the
// text.
func BenchmarkAppend(b *testing.B) {
	const textBytes = 300 * 345
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			l, err := Open(b.TempDir(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			if err := l.Replay(nil); err != nil {
				b.Fatal(err)
			}
			entries := make([]*Entry, writers)
			for i := range entries {
				entries[i] = benchEntry("tele", 300, int64(i))
			}
			var mu sync.Mutex
			var latency []time.Duration
			run := func(n int64) {
				var next atomic.Int64
				var wg sync.WaitGroup
				for _, e := range entries {
					wg.Go(func() {
						var own []time.Duration
						for next.Add(1) <= n {
							start := time.Now()
							if err := l.Append(e); err != nil {
								b.Error(err)
								return
							}
							own = append(own, time.Since(start))
							if e.Sequence%4096 == 0 {
								if err := l.Trim(e.Sequence - 1000); err != nil {
									b.Error(err)
								}
							}
						}
						mu.Lock()
						latency = append(latency, own...)
						mu.Unlock()
					})
				}
				wg.Wait()
			}
			run(6000) // segments grow and are recycled before the clock starts
			latency = nil
			before := l.Stats()
			b.ResetTimer()
			run(int64(b.N))
			b.StopTimer()
			slices.Sort(latency)
			st := l.Stats()
			b.ReportMetric(float64(b.N)*textBytes/1e6/b.Elapsed().Seconds(), "text-MB/s")
			b.ReportMetric(float64(latency[len(latency)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(latency[len(latency)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(b.N)/float64(st.Groups-before.Groups), "entries/sync")
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkReplay reads a log of 20 MB back.
func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	l, err := Open(dir, Options{SyncInterval: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Replay(nil); err != nil {
		b.Fatal(err)
	}
	e := benchEntry("tele", 300, 1)
	for range 800 {
		if err := l.Append(e); err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	values := 800 * float64(len(e.Writes[0].Values))
	for b.Loop() {
		l, err := Open(dir, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Replay(func(*Entry) error { return nil }); err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/values, "ns/value")
}

// BenchmarkResync searches 16 MiB of random bytes for a record, as a start after
// a crash does behind the end of a recycled segment.
func BenchmarkResync(b *testing.B) {
	fs := vfstest.New()
	data := make([]byte, 16<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	put(b, fs, "w/x", data)
	f, err := fs.Open("w/x")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		r := &reader{file: f, size: int64(len(data)), number: 1, bounded: true}
		if _, found, err := r.resync(0); found || err != nil {
			b.Fatal(found, err)
		}
	}
}
