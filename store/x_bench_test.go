package store

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/proc"
	"tsdbd/internal/testkit/load"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model/point"
)

var replaySeries = flag.Int("replay-series", 100_000, "BenchmarkReplay: series of the log")

// BenchmarkManyShards measures in a store of 1,000 shards a one-row write, a look
// for a flush and a round of compactions with nothing to do, and, once all shards
// are flushed, what the store does for a flush beside writing files.
func BenchmarkManyShards(b *testing.B) {
	fs := vfstest.New()
	s := openTest(b, fs, testOptions(fs))
	defer s.Close()
	s.create("db")
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, "m,h=a v=1 %d\n", int64(i)*week)
	}
	s.must(s.write("db", lines.String()))
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			s.must(s.write("db", "m,h=a v=1 1"))
		}
	})
	b.Run("flush-tick", func(b *testing.B) {
		for b.Loop() {
			s.nextFlush()
		}
	})
	b.Run("compact-tick", func(b *testing.B) {
		for b.Loop() {
			s.compactOnce(b.Context(), false)
		}
	})
	s.flushAll(b.Context())
	b.Run("bookkeeping", func(b *testing.B) {
		e := s.shard(1)
		for b.Loop() {
			s.nextFlush()
			s.updateUnflushed(e)
			s.trim()
		}
	})
}

// BenchmarkWriteBatch writes requests of 5,000 rows of 10 integers of known series,
// parsed before. It reports the CPU time of the process for a row.
func BenchmarkWriteBatch(b *testing.B) {
	opt := Options{FS: vfs.OS, FlushBytes: 64 << 20, CacheBytes: 1 << 40, FlushIdle: time.Hour, SyncInterval: time.Hour}
	opened, err := Open(b.TempDir(), opt)
	if err != nil {
		b.Fatal(err)
	}
	s := &testStore{Store: opened, t: b}
	defer s.Close()
	s.create("db")
	table, err := s.Table("db")
	s.must(err)
	const rows = 5000
	var text strings.Builder
	for i := range rows {
		fmt.Fprintf(&text, "cpu,host=h%d", i)
		for f := range 10 {
			fmt.Fprintf(&text, "%cusage_%d=%di", " ,"[min(f, 1)], f, (i*7+f*13)%100)
		}
		fmt.Fprintf(&text, " %d\n", i)
	}
	var p lineproto.Parser
	var batch point.Batch
	_, err = p.Parse(&batch, table, []byte(text.String()), lineproto.Options{})
	s.must(err)
	s.must(s.Write(b.Context(), "db", "", &batch))
	before, at := proc.CPUTime(), int64(rows)
	b.ReportAllocs()
	for b.Loop() {
		for i := range batch.Rows {
			batch.Rows[i].Time = at
			at++
		}
		s.must(s.Write(b.Context(), "db", "", &batch))
	}
	b.ReportMetric(float64((proc.CPUTime()-before).Nanoseconds())/float64(b.N)/rows, "CPU-ns/row")
}

// BenchmarkReplay opens a store after a crash: everything it holds is in the
// log, a row of each series thrice. It reports beside the time of an opening
// that of the writes, parsing included, as write-ns/row, and their CPU time.
func BenchmarkReplay(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "written")
	opt := Options{FS: vfs.OS, FlushBytes: 1 << 40, CacheBytes: 1 << 40, LogBytes: 1 << 40, FlushIdle: time.Hour, SyncInterval: time.Hour}
	s, err := Open(dir, opt)
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Apply(context.Background(), meta.CreateDatabase{Name: "db"}); err != nil {
		b.Fatal(err)
	}
	g := load.NewHicard(*replaySeries, load.HicardRounds)
	rows := float64(g.Series() * g.Rounds())
	var p lineproto.Parser
	var batch point.Batch
	var text []byte
	var took, cpu time.Duration
	for {
		n := 0
		if text, n = g.Next(text[:0], 10_000); n == 0 {
			break
		}
		begin, used := time.Now(), proc.CPUTime()
		table, err := s.Table("db")
		if err == nil {
			batch.Reset()
			if _, err = p.Parse(&batch, table, text, lineproto.Options{}); err == nil {
				err = s.Write(context.Background(), "db", "", &batch)
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		took += time.Since(begin)
		cpu += proc.CPUTime() - used
	}
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		copied := filepath.Join(filepath.Dir(dir), fmt.Sprint("copy", i))
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		again, err := Open(copied, opt)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		for _, e := range again.mu.shards {
			if n := e.Shard.ActiveBytes(); n < int64(rows)*16 {
				b.Fatalf("%d bytes in the cache", n)
			}
		}
		again.cancel()
		again.loops.Wait()
		_ = again.closeFiles()
		_ = os.RemoveAll(copied)
		b.StartTimer()
	}
	b.ReportMetric(float64(took.Nanoseconds())/rows, "write-ns/row")
	b.ReportMetric(float64(cpu.Nanoseconds())/rows, "write-CPU-ns/row")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
	s.cancel()
	s.loops.Wait()
	_ = s.closeFiles()
}

// BenchmarkWriteTouched measures a write of 5,000 rows of nine measurements that take
// turns, with and without a downsample of their policy.
func BenchmarkWriteTouched(b *testing.B) {
	for _, name := range []string{"without", "with"} {
		b.Run(name, func(b *testing.B) {
			fs := vfstest.New()
			s := openTest(b, fs, Options{FS: fs, RetentionInterval: -1})
			defer s.Close()
			s.create("db")
			if name == "with" {
				s.must(s.Apply(b.Context(), meta.CreateRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "hours"}}))
				s.must(s.Apply(b.Context(), meta.CreateDownsample{Database: "db", From: "autogen", Into: "hours", Definitions: []meta.Definition{{Period: meta.Period{Every: time.Hour}, Functions: []string{"max"}}}}))
			}
			var lines strings.Builder
			for i := range 5000 {
				fmt.Fprintf(&lines, "m%d,host=h%d usage=%d,idle=%d,system=%d %d\n", i%9, i/9, i, i+1, i+2, origin+int64(i/9)*1e9)
			}
			table, err := s.Table("db")
			s.must(err)
			var batch point.Batch
			var p lineproto.Parser
			_, err = p.Parse(&batch, table, []byte(lines.String()), lineproto.Options{})
			s.must(err)
			used := proc.CPUTime() // other programs do not change it
			for b.Loop() {
				for i := range batch.Rows { // new rows, so that caches do what they do in life
					batch.Rows[i].Time += 600e9
				}
				s.must(s.Store.Write(b.Context(), "db", "", &batch))
			}
			b.ReportMetric(float64((proc.CPUTime()-used).Nanoseconds())/float64(b.N)/5000, "CPU-ns/row")
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/5000, "ns/row")
		})
	}
}
