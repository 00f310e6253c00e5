package store

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/scan"
)

// BenchmarkMove renames a measurement of very many series with a row each, and reads all
// of it: before, after, and after the merge that makes the move of the rows.
func BenchmarkMove(b *testing.B) {
	const series = 1_000_000
	for b.Loop() {
		b.StopTimer()
		fs := vfstest.New()
		opt := testOptions(fs)
		opt.CacheBytes = 2 << 30
		s := openTest(b, fs, opt)
		s.create("db")
		var lines strings.Builder
		for i := range series {
			fmt.Fprintf(&lines, "cpu,region=eu-central-1,datacenter=eu-central-1a,host=host_%07d usage=%d 1\n", i, i)
			if i%10_000 == 9_999 {
				s.must(s.write("db", lines.String()))
				lines.Reset()
			}
		}
		e := s.entries()[0]
		s.flush(context.Background(), e)
		read := func(what string) {
			start := time.Now()
			if n := countRows(b, s); n != series {
				b.Fatalf("%d rows", n)
			}
			b.ReportMetric(float64(time.Since(start).Milliseconds()), what+"-ms")
		}
		read("read-before")
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		bytes := s.log.Stats().BytesWritten
		b.StartTimer()
		moved, err := s.Move(context.Background(), scan.MoveRequest{Database: "db", Change: model.Change{Measurement: "cpu", To: "processor"}})
		b.StopTimer()
		s.must(err)
		runtime.ReadMemStats(&after)
		if moved.Series != series {
			b.Fatalf("%+v", moved)
		}
		b.ReportMetric(float64(s.log.Stats().BytesWritten-bytes), "entry-bytes")
		b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/1e6, "MB-allocated")
		waiting, _ := e.Moves()
		b.ReportMetric(float64(waiting.Bytes()), "list-bytes")
		read("read-moved")
		start := time.Now()
		s.makeMoves()
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "merge-ms")
		read("read-merged")
		s.must(s.Close())
		b.StartTimer()
	}
}

// countRows reads all rows of the database.
func countRows(b *testing.B, s *testStore) (n int) {
	v, err := s.View("db", "", model.AllTime)
	s.must(err)
	defer v.Release()
	for _, sh := range v.Shards() {
		for _, m := range sh.Measurements() {
			set, err := sh.Select(b.Context(), m, nil)
			s.must(err)
			c, err := sh.Scan(b.Context(), scan.Request{Measurement: m, Series: set, Fields: []string{"usage"}, Range: model.AllTime})
			s.must(err)
			for _, ok := c.NextSeries(); ok; _, ok = c.NextSeries() {
				for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
					n += ch.Len()
				}
			}
			s.must(c.Err())
			c.Close()
		}
	}
	return n
}

// BenchmarkMoveToOne drops a tag with a value for each of very many series with a row each,
// so that they become one, and reads that before and after a merge.
func BenchmarkMoveToOne(b *testing.B) {
	const series = 300_000
	for b.Loop() {
		b.StopTimer()
		fs := vfstest.New()
		opt := testOptions(fs)
		opt.CacheBytes = 2 << 30
		s := openTest(b, fs, opt)
		s.create("db")
		var lines strings.Builder
		for i := range series {
			fmt.Fprintf(&lines, "requests,region=eu-central-1,id=%07d usage=%d %d\n", i, i, i*7%series)
			if i%10_000 == 9_999 {
				s.must(s.write("db", lines.String()))
				lines.Reset()
			}
		}
		e := s.entries()[0]
		s.flush(context.Background(), e)
		_, err := s.Move(context.Background(), scan.MoveRequest{Database: "db", Change: model.Change{Measurement: "requests", To: "requests", Drop: []string{"id"}}})
		s.must(err)
		measured := func(what string, do func()) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			start := time.Now()
			b.StartTimer()
			do()
			b.StopTimer()
			b.ReportMetric(float64(time.Since(start).Milliseconds()), what+"-ms")
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/1e6, what+"-MB")
		}
		measured("read-moved", func() {
			if n := countRows(b, s); n != series {
				b.Fatalf("%d rows", n)
			}
		})
		measured("merge", s.makeMoves)
		measured("read-merged", func() {
			if n := countRows(b, s); n != series {
				b.Fatalf("%d rows", n)
			}
		})
		s.must(s.Close())
		b.StartTimer()
	}
}

// BenchmarkReadWhileMovesWait reads a series that no move concerns, and one that the oldest
// move concerns, while so many moves wait.
func BenchmarkReadWhileMovesWait(b *testing.B) {
	for _, waiting := range []int{0, 1, 100, 1000} {
		fs := vfstest.New()
		s := openTest(b, fs, testOptions(fs))
		s.create("db")
		var lines strings.Builder
		for i := range 2000 {
			fmt.Fprintf(&lines, "m,h=%04d usage=%d 1\n", i, i)
		}
		s.must(s.write("db", lines.String()))
		e := s.entries()[0]
		s.flush(b.Context(), e)
		s.flushing.Lock() // no merge makes the moves
		for i := range waiting {
			s.statement(fmt.Sprintf("UPDATE m SET rack = 'r' WHERE h = '%04d'", i))
		}
		if l, _ := e.Moves(); l.Len() != waiting {
			b.Fatalf("%d moves wait", l.Len())
		}
		for what, host := range map[string]string{"unconcerned": "1999", "concerned": "0000"} {
			if what == "concerned" && waiting == 0 {
				continue
			}
			v, err := s.View("db", "", model.AllTime)
			s.must(err)
			sh := v.Shards()[0]
			set, err := sh.Select(b.Context(), "m", &model.TagExpr{Op: model.TagEqual, Key: "h", Value: host})
			s.must(err)
			b.Run(fmt.Sprintf("%s/waiting=%d", what, waiting), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c, err := sh.Scan(b.Context(), scan.Request{Measurement: "m", Series: set, Fields: []string{"usage"}, Range: model.AllTime})
					s.must(err)
					rows := 0
					for _, ok := c.NextSeries(); ok; _, ok = c.NextSeries() {
						for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
							rows += ch.Len()
						}
					}
					c.Close()
					if rows != 1 {
						b.Fatalf("%d rows", rows)
					}
				}
			})
			v.Release()
		}
		s.flushing.Unlock()
		s.must(s.Close())
	}
}
