package wal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/wal/entry"
	"tsdbd/wal/entry/entrytest"
)

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
			entries := make([]*entry.Entry, writers)
			for i := range entries {
				entries[i] = entrytest.Scrape("tele", 300, int64(i))
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
	e := entrytest.Scrape("tele", 300, 1)
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
		if err := l.Replay(func(*entry.Entry) error { return nil }); err != nil {
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
