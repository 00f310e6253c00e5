package tsm

import (
	"path/filepath"
	"testing"
	"time"

	"tsdbd/internal/vfs"
)

// BenchmarkScrape writes and reads chunks of 220 rows whose times are shared by every
// second series (see scrape), and reads a chunk alone.
func BenchmarkScrape(b *testing.B) {
	series := scrape(b, 700, 220, 3)
	path := filepath.Join(b.TempDir(), "x.tsm")
	const values = 700 * 220
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			w, err := Create(vfs.OS, path, WriterOptions{})
			if err != nil {
				b.Fatal(err)
			}
			for i := range series {
				s := &series[i]
				if w.Series(s.id, s.key, s.fields) != nil || w.Append(s.chunks[0].times, s.chunks[0].cols) != nil {
					b.Fatal(w.err)
				}
			}
			if _, err := w.Finish(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed())/float64(time.Duration(b.N)*values), "ns/value")
	})
	writeSeries(b, path, WriterOptions{}, series)
	r := openFile(b, path)
	var s Series
	var c Chunk
	times := func(i int) {
		if r.Load(i, &s) != nil || r.Chunk(&s, 0, &c) != nil {
			b.Fatal("no chunk")
		}
		if _, err := c.Times(); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Column(0); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			for i := 1; i < len(series); i += 2 {
				times(i)
			}
		}
		b.ReportMetric(float64(b.Elapsed())/float64(time.Duration(b.N)*values/2), "ns/value")
	})
	b.Run("alone", func(b *testing.B) {
		for b.Loop() {
			times(201)
			times(400)
		}
		b.ReportMetric(float64(b.Elapsed())/float64(time.Duration(b.N)*440), "ns/value")
	})
}
