package cache

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

func tenFields() *point.Layout {
	l := &point.Layout{Measurement: "cpu"}
	for i := range 10 {
		l.Fields = append(l.Fields, column.Field{Key: fmt.Sprintf("f%d", i), Type: model.Float})
	}
	return l
}

func BenchmarkApply(b *testing.B) {
	for _, tc := range []struct {
		series, fields int
		random         bool
	}{{10_000, 10, false}, {100_000, 10, false}, {1_000_000, 10, true}, {1_000_000, 1, false}} {
		b.Run(fmt.Sprintf("series=%d/fields=%d/random=%v", tc.series, tc.fields, tc.random), func(b *testing.B) {
			l := tenFields()
			l.Fields = l.Fields[:tc.fields]
			handles := make([]*point.Series, tc.series)
			for i := range handles {
				handles[i] = series(model.SeriesID(i + 1))
			}
			r := rand.New(rand.NewPCG(1, 2))
			const batch = 10000
			rows := make([]point.Row, batch)
			values := make([]uint64, batch*tc.fields)
			kept := NewSlabs(1 << 30) // so that no page is touched for the first time
			c := New(nil, kept)
			next, n := 0, 0
			b.ResetTimer()
			for b.Loop() {
				if c.Bytes() > 48<<20 {
					b.StopTimer()
					c.Release()
					c = New(nil, kept)
					b.StartTimer()
				}
				b.StopTimer()
				for i := range rows {
					s := next % tc.series
					if tc.random {
						s = r.IntN(tc.series)
					}
					rows[i] = point.Row{Series: handles[s], Layout: l, Time: int64(next / tc.series), First: uint32(i * tc.fields)}
					next++
				}
				b.StartTimer()
				c.Apply(rows, values, nil)
				n += batch
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*tc.fields), "ns/value")
			b.ReportMetric(float64(c.mu.arena.bytes)/float64(c.Rows())/float64(tc.fields), "bytes/value")
		})
	}
}

func BenchmarkGather(b *testing.B) {
	l := tenFields()
	c := New(nil, nil)
	const n, per = 100, 1000
	handles := make([]*point.Series, n)
	for i := range handles {
		handles[i] = series(model.SeriesID(i + 1))
	}
	values := make([]uint64, 10)
	for t := range per {
		for _, s := range handles {
			c.Apply([]point.Row{{Series: s, Layout: l, Time: int64(t)}}, values, nil)
		}
	}
	g := NewGatherer(c)
	var rows column.Rows
	i := 0
	for b.Loop() {
		g.Gather(&rows, model.SeriesID(i%n+1), l.Fields, model.AllTime)
		i++
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*per*10), "ns/value")
}
