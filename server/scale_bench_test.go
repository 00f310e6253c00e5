package server

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/influxdata/influxql"
	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/internal/proc"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model/point"
	"tsdbd/query"
	"tsdbd/query/result"
	"tsdbd/store"
)

// The benchmarks of this file show how each cost grows over two orders of
// magnitude; docs/performance.md holds their tables. They run the store and the
// executor as serve does, without HTTP.

const (
	scaleWeek = 7 * 24 * 3600 // s, a shard
	scaleStep = 10            // s between rows of a series
)

// scaled is a store that is measured.
type scaled struct {
	b       *testing.B
	store   *store.Store
	query   *query.Executor
	metrics *prometheus.Registry
}

func openScaled(b *testing.B, opt store.Options) *scaled {
	opt.RetentionInterval = -1
	st, err := store.Open(b.TempDir(), opt)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	})
	if err := st.Apply(b.Context(), meta.CreateDatabase{Name: "db"}); err != nil {
		b.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(st)
	return &scaled{b, st, query.New(query.Options{Storage: st, Admin: engine{Store: st}}), registry}
}

// scaleWriter parses and writes as a connection does.
type scaleWriter struct {
	s      *scaled
	parser lineproto.Parser
	batch  point.Batch
	body   []byte
	unit   int64 // of the times, ns; 0: s
}

// row adds a row of series n at a time (s). It takes some 50 ns.
func (w *scaleWriter) row(n int, at int64) {
	b := append(w.body, "m,dc=dc"...)
	b = append(b, byte('0'+n%10))
	b = append(b, ",host=h"...)
	b = strconv.AppendInt(b, int64(n+1_000_000), 10)
	b = append(b, " v="...)
	b = strconv.AppendInt(b, 20+at/scaleStep%7, 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, 10+at/scaleStep%89, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, at, 10)
	w.body = append(b, '\n')
}

func (w *scaleWriter) send() error {
	table, err := w.s.store.Table("db")
	if err != nil {
		return err
	}
	w.batch.Reset()
	if _, err = w.parser.Parse(&w.batch, table, w.body, lineproto.Options{Unit: cmp.Or(w.unit, 1e9)}); err != nil {
		return err
	}
	for {
		err = w.s.store.Write(w.s.b.Context(), "db", "", &w.batch)
		if !errors.Is(err, store.ErrOverloaded) {
			w.body = w.body[:0]
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// fill writes rows of so many series in turn, spread over weeks, and has them
// flushed and merged.
func (s *scaled) fill(series, rows, weeks int) {
	w := &scaleWriter{s: s}
	for i := range rows {
		step := i / series
		w.row(i%series, int64(step%weeks)*scaleWeek+int64(step/weeks)*scaleStep)
		if i%10_000 == 9_999 || i == rows-1 {
			if err := w.send(); err != nil {
				s.b.Fatal(err)
			}
		}
	}
	s.settle()
}

// settle waits until everything is flushed and no merge runs or is called for.
func (s *scaled) settle() {
	for quiet := 0; quiet < 3; {
		s.store.FlushSoon()
		time.Sleep(100 * time.Millisecond)
		if quiet++; s.busy() {
			quiet = 0
		}
	}
}

// busy tells whether rows are in memory, or a merge runs or is called for.
func (s *scaled) busy() bool {
	families, err := s.metrics.Gather()
	if err != nil {
		s.b.Fatal(err)
	}
	for _, f := range families {
		switch f.GetName() {
		case "tsdbd_cache_bytes", "tsdbd_compaction_active", "tsdbd_compaction_queue_files":
			if f.GetMetric()[0].GetGauge().GetValue() > 0 {
				return true
			}
		}
	}
	return false
}

func (s *scaled) ask(text string) error {
	rows, err := s.run(text)
	if err == nil && rows == 0 {
		err = fmt.Errorf("no answer to %s", text)
	}
	return err
}

// run runs a statement and returns how many tables it answers.
func (s *scaled) run(text string) (tables int, err error) {
	q, err := influxql.ParseQuery(text)
	if err != nil {
		return 0, err
	}
	err = s.query.Execute(s.b.Context(), q, query.ExecuteOptions{Database: "db"}, func(r *result.Result) error {
		tables += len(r.Series)
		return r.Err
	})
	return tables, err
}

// perUnit measures f, which does so many units of work each time.
func perUnit(b *testing.B, unit string, units int, f func() error) {
	cpu := proc.CPUTime()
	b.ResetTimer()
	for range b.N {
		if err := f(); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	n := float64(b.N) * float64(units)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/n, "ns/"+unit)
	b.ReportMetric(float64((proc.CPUTime()-cpu).Nanoseconds())/n, "CPU-ns/"+unit)
	b.ReportMetric(0, "ns/op")
}

// BenchmarkScaleWriteSeries writes 10,000 rows at a time to a store that knows
// so many series.
func BenchmarkScaleWriteSeries(b *testing.B) {
	for _, series := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("series=%d", series), func(b *testing.B) {
			s := openScaled(b, store.Options{})
			s.fill(series, 2*series, 1)
			w, next := &scaleWriter{s: s}, 2*series
			perUnit(b, "row", 10_000, func() error {
				for range 10_000 {
					w.row(next%series, int64(next/series)*scaleStep)
					next++
				}
				return w.send()
			})
		})
	}
}

// BenchmarkScaleWriteRows writes so many rows of 1,000 series and has them
// flushed and merged.
func BenchmarkScaleWriteRows(b *testing.B) {
	for _, rows := range []int{100_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			perUnit(b, "row", rows, func() error {
				s := openScaled(b, store.Options{FlushBytes: 4 << 20})
				s.fill(1_000, rows, 1)
				return nil
			})
		})
	}
}

// BenchmarkScaleWriteShards writes 10,000 rows at a time that go to so many
// shards.
func BenchmarkScaleWriteShards(b *testing.B) {
	for _, shards := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			s := openScaled(b, store.Options{})
			s.fill(1_000, 1_000*shards, shards)
			w, step := &scaleWriter{s: s}, 0
			perUnit(b, "row", 10_000, func() error {
				for range 10 {
					step++
					for n := range 1_000 {
						w.row(n, int64(step%shards)*scaleWeek+int64(step)*scaleStep)
					}
				}
				return w.send()
			})
		})
	}
}

// BenchmarkScaleWriters has so many connections write 100 rows at a time, each
// synced before it is answered.
func BenchmarkScaleWriters(b *testing.B) {
	const rows = 100
	for _, writers := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := openScaled(b, store.Options{})
			s.fill(1_000, 1_000, 1)
			all := make([]*scaleWriter, writers)
			for i := range all {
				all[i] = &scaleWriter{s: s}
			}
			step := int64(0)
			perUnit(b, "row", 640*rows, func() error {
				var left atomic.Int64
				left.Store(640)
				step++
				errs := make([]error, writers)
				var wg sync.WaitGroup
				for i, w := range all {
					wg.Go(func() {
						for errs[i] == nil {
							k := left.Add(-1)
							if k < 0 {
								return
							}
							for n := range rows {
								w.row(n*10+int(k)%10, (step*64+k/10)*scaleStep)
							}
							errs[i] = w.send()
						}
					})
				}
				wg.Wait()
				return errors.Join(errs...)
			})
		})
	}
}

// BenchmarkScaleQuerySeries asks a store of so many series for one, and for
// all, 20 rows each.
func BenchmarkScaleQuerySeries(b *testing.B) {
	for _, series := range []int{1_000, 10_000, 100_000} {
		s := openScaled(b, store.Options{})
		s.fill(series, 20*series, 1)
		b.Run(fmt.Sprintf("one of %d", series), func(b *testing.B) {
			perUnit(b, "query", 1, func() error {
				return s.ask(`SELECT mean(v) FROM m WHERE host = 'h1000777' AND time < 1h GROUP BY time(1m)`)
			})
		})
		b.Run(fmt.Sprintf("all of %d", series), func(b *testing.B) {
			perUnit(b, "series", series, func() error {
				return s.ask(`SELECT mean(v) FROM m WHERE time < 1h GROUP BY time(10m), dc`)
			})
		})
	}
}

// BenchmarkScaleQueryRows asks a store of so many rows of 100 series for an
// hour of one series, and for everything.
func BenchmarkScaleQueryRows(b *testing.B) {
	for _, rows := range []int{100_000, 1_000_000, 5_000_000} {
		s := openScaled(b, store.Options{})
		s.fill(100, rows, 1)
		b.Run(fmt.Sprintf("an hour of %d", rows), func(b *testing.B) {
			perUnit(b, "query", 1, func() error {
				return s.ask(`SELECT mean(v) FROM m WHERE host = 'h1000077' AND time < 1h GROUP BY time(1m)`)
			})
		})
		b.Run(fmt.Sprintf("all of %d", rows), func(b *testing.B) {
			perUnit(b, "row", rows, func() error {
				return s.ask(`SELECT mean(v) FROM m WHERE time < 7d GROUP BY time(10m), dc`)
			})
		})
	}
}

// BenchmarkScaleQueryShards asks for a million rows that lie in so many shards,
// and for an hour in one of them.
func BenchmarkScaleQueryShards(b *testing.B) {
	for _, shards := range []int{1, 10, 100} {
		s := openScaled(b, store.Options{})
		s.fill(100, 1_000_000, shards)
		b.Run(fmt.Sprintf("all of %d", shards), func(b *testing.B) {
			perUnit(b, "query", 1, func() error {
				return s.ask(`SELECT mean(v) FROM m WHERE time < 700d GROUP BY dc`)
			})
		})
		b.Run(fmt.Sprintf("one of %d", shards), func(b *testing.B) {
			perUnit(b, "query", 1, func() error {
				return s.ask(`SELECT mean(v) FROM m WHERE host = 'h1000077' AND time < 1h GROUP BY time(1m)`)
			})
		})
	}
}

// BenchmarkScaleQueryClients has so many clients ask at once for an hour of
// one series.
func BenchmarkScaleQueryClients(b *testing.B) {
	s := openScaled(b, store.Options{})
	s.fill(1_000, 1_000_000, 1)
	for _, clients := range []int{1, 4, 16, 64} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			perUnit(b, "query", 640, func() error {
				errs := make([]error, clients)
				var wg sync.WaitGroup
				for i := range clients {
					wg.Go(func() {
						for k := i; k < 640 && errs[i] == nil; k += clients {
							errs[i] = s.ask(fmt.Sprintf(`SELECT mean(v) FROM m WHERE host = 'h%d' AND time < 1h GROUP BY time(1m)`, 1_000_000+k))
						}
					})
				}
				wg.Wait()
				return errors.Join(errs...)
			})
		})
	}
}
