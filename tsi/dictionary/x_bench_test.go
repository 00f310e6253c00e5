package dictionary

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/blevesearch/vellum"
)

// BenchmarkDictionary compares the front-coded pages with an FST for sorted
// values, both mapping a value to a number.
func BenchmarkDictionary(b *testing.B) {
	for _, c := range []struct {
		name   string
		format func(i int) string
	}{
		{"host", func(i int) string { return fmt.Sprintf("host_%07d", i) }},
		{"hash", func(i int) string { return fmt.Sprintf("%016x", uint64(i+1)*0x9E3779B97F4A7C15) }},
		{"pod", func(i int) string { return fmt.Sprintf("web-%d-%08x", i/100, uint32(i)*2654435761) }},
	} {
		const n = 100_000
		set := map[string]bool{}
		for i := range n {
			set[c.format(i)] = true
		}
		values := slices.Sorted(maps.Keys(set))
		b.Run(c.name, func(b *testing.B) {
			var pages, fst int
			for b.Loop() {
				pages, fst = 0, 0
				var w pageWriter
				for i, v := range values {
					w.start([]byte(v), uint32(i+1))
					w.buf = append(w.buf, 8) // the next id
					if len(w.buf) >= pageBytes {
						pages += len(w.finish()) + 4
						w.reset()
					}
				}
				pages += len(w.buf)
				counter := countWriter{&fst}
				builder, err := vellum.New(counter, nil)
				if err != nil {
					b.Fatal(err)
				}
				for i, v := range values {
					if err := builder.Insert([]byte(v), uint64(i)); err != nil {
						b.Fatal(err)
					}
				}
				if err := builder.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(pages)/float64(len(values)), "pages-B/value")
			b.ReportMetric(float64(fst)/float64(len(values)), "fst-B/value")
		})
	}
}

type countWriter struct{ n *int }

func (w countWriter) Write(p []byte) (int, error) {
	*w.n += len(p)
	return len(p), nil
}

// BenchmarkCheck checks serialized sets as every reading of one does, and as the
// library would once it is read.
func BenchmarkCheck(b *testing.B) {
	for _, c := range []struct {
		name string
		set  *roaring.Bitmap
	}{
		{"runs", runsOf(20_000)},
		{"array", roaring.BitmapOf(every(1, 100_000, 23)...)},
		{"bitmap", roaring.BitmapOf(every(1, 100_000, 3)...)},
	} {
		c.set.RunOptimize()
		data, err := c.set.ToBytes()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/own", func(b *testing.B) {
			for b.Loop() {
				if !validRoaring(data) {
					b.Fatal("refused")
				}
			}
		})
		b.Run(c.name+"/library", func(b *testing.B) {
			set := roaring.New()
			if _, err := set.ReadFrom(bytes.NewReader(data)); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := set.Validate(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/read", func(b *testing.B) {
			for b.Loop() {
				if _, err := roaring.New().ReadFrom(bytes.NewReader(data)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// runsOf returns a set of n runs.
func runsOf(n uint32) *roaring.Bitmap {
	set := roaring.New()
	for i := range n {
		set.AddRange(uint64(i)*40+1, uint64(i)*40+30)
	}
	return set
}
