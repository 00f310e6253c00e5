package cache

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// TestInOrder holds the order against a stable sort by the library.
func TestInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	var scratch []rowRef
	for range 3000 {
		var refs []rowRef
		for len(refs) < 60 && r.IntN(8) > 0 {
			at, step := r.Int64N(40), r.Int64N(5)-2
			for range 1 + r.IntN(12) {
				refs = append(refs, rowRef{time: at, layout: uint32(len(refs))})
				at += step
			}
		}
		want := slices.Clone(refs)
		slices.SortStableFunc(want, func(a, b rowRef) int { return cmp.Compare(a.time, b.time) })
		before := fmt.Sprint(refs)
		if scratch = inOrder(refs, scratch); !slices.Equal(refs, want) {
			t.Fatalf("%s\n%v, want\n%v", before, refs, want)
		}
	}
}

// BenchmarkGatherUnsorted gathers series whose rows did not come in the order of time.
func BenchmarkGatherUnsorted(b *testing.B) {
	const n = 2400
	for _, c := range []struct {
		name string
		time func(i int) int64
	}{
		{"again", func(i int) int64 { return int64(i % 600) }},
		{"late", func(i int) int64 {
			if i%100 == 99 {
				return int64(i - 60)
			}
			return int64(i)
		}},
		{"backwards", func(i int) int64 { return int64(n - i) }},
		{"random", func(i int) int64 { return int64(i) * 7919 % 10007 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := tenFields()
			cache, s := New(nil, nil), series(1)
			values := make([]uint64, 10)
			for i := range n {
				cache.Apply([]point.Row{{Series: s, Layout: l, Time: c.time(i)}}, values, nil)
			}
			g := NewGatherer(cache)
			var rows column.Rows
			for b.Loop() {
				g.Gather(&rows, 1, l.Fields[:1], model.AllTime)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/row")
		})
	}
}
