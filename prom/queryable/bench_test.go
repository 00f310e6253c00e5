package queryable

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"tsdbd/internal/proc"
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
	return newBenchSeries(b, flush, 240, 15_000, func(yield func(model.Tags)) {
		for i := range series {
			yield(model.Tags{
				{Key: "__name__", Value: "node_cpu_seconds_total"},
				{Key: "cpu", Value: fmt.Sprint(i % 8)},
				{Key: "instance", Value: fmt.Sprintf("host-%05d:9100", i/8)},
				{Key: "job", Value: "node"},
				{Key: "mode", Value: "idle"},
			})
		}
	})
}

// newBenchSeries writes n samples, one every step, to each of the series that all yields.
func newBenchSeries(b *testing.B, flush bool, n int, step int64, all func(yield func(model.Tags))) *Source {
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
	samples := make([]prom.Sample, n)
	i := 0
	var batch point.Batch
	rows := prom.Rows{Builder: point.NewBuilder(table, &batch)}
	write := func() {
		if err := s.Write(context.Background(), "p", "", &batch); err != nil {
			b.Fatal(err)
		}
		batch = point.Batch{}
		rows = prom.Rows{Builder: point.NewBuilder(table, &batch)}
	}
	all(func(tags model.Tags) {
		for k := range samples {
			samples[k] = prom.Sample{Value: float64(i * k), Time: int64(k) * step}
		}
		if err := rows.Add(tags, samples, nil); err != nil {
			b.Fatal(err)
		}
		if i++; i*n%10_000 < n {
			write()
		}
	})
	write()
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

// BenchmarkLookUp asks for labels of very many metrics.
func BenchmarkLookUp(b *testing.B) {
	for _, data := range []struct {
		metrics, instances, modes int
		queries                   []string
	}{
		{4_870, 3, 1, []string{`names`, `names {instance="host-1:9100"}`, `series {instance="host-1:9100"}`, `samples {instance="host-1:9100",metric="7"}`}},
		{198, 200, 3, []string{`names`, `names {instance="host-1:9100"}`, `series {instance="host-1:9100"}`, `samples {instance="host-1:9100"}`}},
	} {
		for _, flush := range []bool{false, true} {
			src := newBenchSeries(b, flush, 4, 15_000, func(yield func(model.Tags)) {
				for m := range data.metrics {
					for i := range data.instances {
						for mode := range data.modes {
							yield(model.Tags{
								{Key: "__name__", Value: fmt.Sprintf("node_metric_%d_total", m)},
								{Key: "instance", Value: fmt.Sprintf("host-%d:9100", i)},
								{Key: "job", Value: "node"},
								{Key: "metric", Value: fmt.Sprint(m % 11)},
								{Key: "mode", Value: fmt.Sprintf("m%d", mode)},
							})
						}
					}
				}
			})
			for _, query := range data.queries {
				what, matchers, _ := strings.Cut(query, " ")
				b.Run(fmt.Sprintf("metrics=%d/flush=%v/%s", data.metrics, flush, query), func(b *testing.B) {
					b.ReportAllocs()
					var by []*labels.Matcher
					if matchers != "" {
						by = parse(b, matchers)
					}
					cpu := proc.CPUTime()
					for b.Loop() {
						q, err := src.Querier(-3_600_000, 3_600_000)
						if err != nil {
							b.Fatal(err)
						}
						n := 0
						if what == "names" {
							names, _, err := q.LabelValues(context.Background(), "__name__", nil, by...)
							if err != nil {
								b.Fatal(err)
							}
							n = len(names)
						} else {
							hints := &storage.SelectHints{Start: -3_600_000, End: 3_600_000}
							if what == "series" {
								hints.Func = "series"
							}
							set := q.Select(context.Background(), true, hints, by...)
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
						}
						if n == 0 {
							b.Fatal(n)
						}
						_ = q.Close()
					}
					b.ReportMetric(float64(proc.CPUTime()-cpu)/float64(b.N), "cpu-ns/op")
				})
			}
		}
	}
}
