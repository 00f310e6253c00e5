package cache

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// TestGatherRuns compares the copy of runs with the walk over single rows.
func TestGatherRuns(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 6))
	ran := 0
	for range 500 {
		fields := []column.Field{{Key: "b", Type: model.Boolean}, {Key: "f", Type: model.Float}, {Key: "i", Type: model.Integer}, {Key: "u", Type: model.Unsigned}}
		l := &point.Layout{Measurement: "m", Fields: fields[r.IntN(2) : 2+r.IntN(3)]}
		other := &point.Layout{Measurement: "m", Fields: fields[:1]}
		c := New(nil, nil)
		s := series(1)
		at, rows := int64(0), r.IntN(200)
		ordered := r.IntN(4) > 0
		for range rows {
			at += 1 + r.Int64N(5)
			row := point.Row{Series: s, Layout: l, Time: at}
			if !ordered && r.IntN(50) == 0 {
				row.Time = r.Int64N(at + 1)
			}
			if !ordered && r.IntN(50) == 0 {
				row.Layout = other
			}
			values := []uint64{r.Uint64() & 1, r.Uint64() >> 2, r.Uint64() >> 2, r.Uint64()}
			c.Apply([]point.Row{row}, values, nil)
		}
		wanted := append(slices.Clone(fields[r.IntN(3):]), column.Field{Key: "z", Type: model.Float})
		times := model.TimeRange{Min: r.Int64N(at+2) - 1, Max: math.MaxInt64}
		if r.IntN(3) > 0 {
			times.Max = times.Min + r.Int64N(at+1)
		}
		g := NewGatherer(c)
		var got, want column.Rows
		if !g.gatherRuns(&got, 1, wanted, times) {
			continue
		}
		ran++
		if st, ok := g.collect(1, times); ok {
			g.sort(st)
			g.transpose(&want, wanted, g.refs)
		}
		if !slices.Equal(got.Times, want.Times) {
			t.Fatalf("seed %d: %+v: times %v, want %v", seed, times, got.Times, want.Times)
		}
		for i := range want.Cols {
			if a, b := fmt.Sprintf("%v", got.Cols[i]), fmt.Sprintf("%v", want.Cols[i]); len(want.Times) > 0 && a != b && !reflect.DeepEqual(got.Cols[i], want.Cols[i]) {
				t.Fatalf("seed %d: column %s: %s, want %s", seed, wanted[i].Key, a, b)
			}
		}
	}
	if ran < 200 {
		t.Errorf("runs were copied %d times only", ran)
	}
}
