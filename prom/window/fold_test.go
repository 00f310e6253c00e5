package window

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"tsdbd/internal/testkit/testseed"
)

// group is random series of one metric with the label g, which is the same in some.
func group(r *rand.Rand, start, span int64) (m memory) {
	for i := range 1 + r.IntN(12) {
		s := randomSeries(r, start, span)
		if r.IntN(3) == 0 && i > 0 {
			s.v = append([]float64(nil), m[0].v...) // ties
			s.t = append([]int64(nil), m[0].t...)
		}
		s.labels = labels.FromStrings("__name__", "m", "g", fmt.Sprint(r.IntN(3)), "i", fmt.Sprint(i))
		m = append(m, s)
	}
	return m
}

// TestFoldsEqualPromQL compares aggregations with Prometheus' engine to the last
// bit.
func TestFoldsEqualPromQL(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 2))
	ops := []string{"sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "quantile"}
	for round := range 300 {
		const span = 50_000
		start := []int64{1_700_000_000_123, -span / 2}[r.IntN(2)]
		spec := randomSpec(r, start, span)
		spec.Func = []string{"", "rate", "sum_over_time"}[r.IntN(3)]
		m := group(r, start, span)
		op, param, argument := ops[round%len(ops)], 0.0, ""
		if op == "quantile" {
			param = []float64{0, 0.5, 0.99, 1}[r.IntN(4)]
			argument = fmt.Sprintf("%v, ", param)
		}
		query := fmt.Sprintf("%s by (g) (%s%s)", op, argument, spec.query())
		want := reference(t, m, query, spec.Grid, spec.Lookback, false)
		k := newKernel(spec)
		f := newFold(op, spec.Steps(), param)
		for g := range 3 {
			f.Reset()
			steps := make([]float64, spec.Steps())
			for _, s := range m {
				if s.labels.Get("g") == fmt.Sprint(g) {
					_, _ = k.Run(steps, s.t, s.v)
					f.Add(steps)
				}
			}
			got, n := f.Steps()
			key := labels.FromStrings("g", fmt.Sprint(g)).String()
			if n == 0 && want[key] == nil {
				continue
			}
			if !sameSteps(got, want[key]) {
				t.Fatalf("seed %d round %d: %s over %+v, group %d:\ngot  %v\nwant %v", seed, round, query, spec.Grid, g, got, want[key])
			}
		}
	}
}

// TestTopEqualsPromQL compares topk and bottomk with Prometheus' engine.
func TestTopEqualsPromQL(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 3))
	for round := range 300 {
		const span = 50_000
		start := int64(-span / 2)
		spec := randomSpec(r, start, span)
		spec.Func = []string{"", "increase", "changes"}[r.IntN(3)]
		m := group(r, start, span)
		bottom, n, instant := r.IntN(2) == 0, 1+r.IntN(5), r.IntN(3) == 0
		if instant {
			spec.End = spec.Start
		}
		query := fmt.Sprintf("topk by (g) (%d, %s)", n, spec.query())
		if bottom {
			query = strings.Replace(query, "topk", "bottomk", 1)
		}
		want := reference(t, m, query, spec.Grid, spec.Lookback, instant)
		k := newKernel(spec)
		top := newTop(bottom, n, spec.Steps())
		got := map[string][]float64{}
		name := func(i int) string {
			if spec.KeepsName() {
				return m[i].labels.String()
			}
			return m[i].labels.DropReserved(IsReserved).String()
		}
		for g := range 3 {
			top.Reset()
			steps := make([]float64, spec.Steps())
			for i, s := range m {
				if s.labels.Get("g") == fmt.Sprint(g) {
					_, _ = k.Run(steps, s.t, s.v)
					top.Add(i, steps)
				}
			}
			for _, p := range top.Places(nil, false) {
				if got[name(p.Series)] == nil {
					got[name(p.Series)] = make([]float64, spec.Steps())
					for i := range spec.Steps() {
						got[name(p.Series)][i] = Absent()
					}
				}
				got[name(p.Series)][p.Step] = p.Value
			}
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d round %d: %s over %+v: %d series, want %d", seed, round, query, spec.Grid, len(got), len(want))
		}
		for name, steps := range got {
			if !sameSteps(steps, want[name]) {
				t.Fatalf("seed %d round %d: %s over %+v, %s:\ngot  %v\nwant %v", seed, round, query, spec.Grid, name, steps, want[name])
			}
		}
	}
}

// TestTopOfInstantOrder compares the order of the best with that of Prometheus.
func TestTopOfInstantOrder(t *testing.T) {
	for _, bottom := range []bool{false, true} {
		top := newTop(bottom, 3, 1)
		for i, v := range []float64{4, 1, 8, 9, 2} {
			top.Add(i, []float64{v})
		}
		var got []string
		for _, p := range top.Places(nil, true) {
			got = append(got, fmt.Sprint(p.Series, ":", p.Value))
		}
		want := "[3:9 2:8 0:4]"
		if bottom {
			want = "[1:1 4:2 0:4]"
		}
		if fmt.Sprint(got) != want {
			t.Errorf("bottom %v: %v, want %v", bottom, got, want)
		}
	}
}
