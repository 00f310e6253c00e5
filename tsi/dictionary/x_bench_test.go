package dictionary

import (
	"fmt"
	"maps"
	"slices"
	"testing"

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
