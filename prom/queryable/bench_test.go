package queryable

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/store"
)

// newBenchSource writes an hour of samples, one every 15 s, and flushes them if flush
// is set.
func newBenchSource(b *testing.B, series int, flush bool) *Source {
	b.Helper()
	dir := b.TempDir()
	open := func() *store.Store {
		s, err := store.Open(dir, store.Options{SyncInterval: time.Second, RetentionInterval: -1})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	s := open()
	if err := s.Apply(context.Background(), meta.CreateDatabase{Name: "p"}); err != nil {
		b.Fatal(err)
	}
	table, err := s.Table("p")
	if err != nil {
		b.Fatal(err)
	}
	samples := make([]prom.Sample, 240)
	for i := range series {
		var batch point.Batch
		rows := prom.Rows{Builder: point.NewBuilder(table, &batch)}
		for k := range samples {
			samples[k] = prom.Sample{Value: float64(i * k), Time: int64(k) * 15_000}
		}
		tags := model.Tags{
			{Key: "__name__", Value: "node_cpu_seconds_total"},
			{Key: "cpu", Value: fmt.Sprint(i % 8)},
			{Key: "instance", Value: fmt.Sprintf("host-%05d:9100", i/8)},
			{Key: "job", Value: "node"},
			{Key: "mode", Value: "idle"},
		}
		if err := rows.Add(tags, samples, nil); err != nil {
			b.Fatal(err)
		}
		if err := s.Write(context.Background(), "p", "", &batch); err != nil {
			b.Fatal(err)
		}
	}
	if flush {
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		s = open()
	}
	b.Cleanup(func() { _ = s.Close() })
	return &Source{Storage: s, DB: "p"}
}

func BenchmarkSelect(b *testing.B) {
	const series = 10_000
	for _, flush := range []bool{false, true} {
		where := map[bool]string{false: "cache", true: "files"}[flush]
		b.Run(where, func(b *testing.B) {
			src := newBenchSource(b, series, flush)
			for _, what := range []string{"labels", "samples"} {
				b.Run(what, func(b *testing.B) {
					b.ReportAllocs()
					matchers := parse(b, "node_cpu_seconds_total")
					for b.Loop() {
						q, err := src.Querier(0, 3_600_000)
						if err != nil {
							b.Fatal(err)
						}
						set := q.Select(context.Background(), false, nil, matchers...)
						n := 0
						var it chunkenc.Iterator
						for set.Next() {
							n++
							if what == "samples" {
								it = set.At().Iterator(it)
								for it.Next() != chunkenc.ValNone {
									_, _ = it.At()
								}
							}
						}
						if n != series {
							b.Fatal(n)
						}
						_ = q.Close()
					}
				})
			}
		})
	}
}
