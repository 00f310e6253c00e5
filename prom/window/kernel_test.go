package window

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"tsdbd/internal/testkit/testseed"
)

// series is one of a test.
type series struct {
	labels labels.Labels
	t      []int64
	v      []float64
}

type sample struct {
	t int64
	v float64
}

func (s sample) ST() int64                     { return 0 }
func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
func (s series) samples() (out []chunks.Sample) {
	for i, t := range s.t {
		out = append(out, sample{t, s.v[i]})
	}
	return out
}

// memory is a storage.Queryable of series that match every selector.
type memory []series

func (m memory) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(bool, *storage.SelectHints, ...*labels.Matcher) storage.SeriesSet {
		var all []storage.Series
		for _, s := range m {
			all = append(all, storage.NewListSeries(s.labels, s.samples()))
		}
		return &listSet{series: all}
	}}, nil
}

type listSet struct {
	series []storage.Series
	at     int
}

func (s *listSet) Next() bool                        { s.at++; return s.at <= len(s.series) }
func (s *listSet) At() storage.Series                { return s.series[s.at-1] }
func (s *listSet) Err() error                        { return nil }
func (s *listSet) Warnings() annotations.Annotations { return nil }

// engine returns Prometheus' engine.
var engine = sync.OnceValue(func() *promql.Engine {
	return promql.NewEngine(promql.EngineOpts{
		MaxSamples: math.MaxInt, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return 2000 },
		Parser:                   parser.NewParser(parser.Options{EnableExperimentalFunctions: true}),
	})
})

// reference evaluates a query with Prometheus' own engine.
func reference(t *testing.T, m memory, query string, g Grid, lookback int64, instant bool) map[string][]float64 {
	t.Helper()
	ctx, engine := context.Background(), engine()
	opts := promql.NewPrometheusQueryOpts(false, time.Duration(lookback)*time.Millisecond)
	var q promql.Query
	var err error
	if instant {
		q, err = engine.NewInstantQuery(ctx, m, opts, query, time.UnixMilli(g.Start))
	} else {
		q, err = engine.NewRangeQuery(ctx, m, opts, query, time.UnixMilli(g.Start), time.UnixMilli(g.End), time.Duration(g.Step)*time.Millisecond)
	}
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		t.Fatalf("%s: %v", query, result.Err)
	}
	out := map[string][]float64{}
	switch value := result.Value.(type) {
	case promql.Matrix:
		for _, s := range value {
			steps := make([]float64, g.Steps())
			for i := range steps {
				steps[i] = Absent()
			}
			for _, p := range s.Floats {
				steps[(p.T-g.Start)/g.Step] = p.F
			}
			out[s.Metric.String()] = steps
		}
	case promql.Vector:
		for _, s := range value {
			out[s.Metric.String()] = []float64{s.F}
		}
	default:
		t.Fatalf("%s: %T", query, value)
	}
	return out
}

// same reports whether two steps are equal to the last bit. NaN has only one
// meaning.
func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || a != a && b != b && IsAbsent(a) == IsAbsent(b)
}

func sameSteps(a, b []float64) bool { return slices.EqualFunc(a, b, same) }

// randomSeries returns samples with what makes kernels fail: resets, gaps, markers,
// NaN, infinities, zeros of both signs, values that overflow, negative times.
func randomSeries(r *rand.Rand, start, span int64) (s series) {
	spacing := []int64{1, 7, 1000, 15_000}[r.IntN(4)]
	spacing = max(spacing, span/500)
	kind, value := r.IntN(9), 0.0
	first, constant := start+r.Int64N(spacing), []float64{3.25, 3.25, math.Inf(1)}[r.IntN(3)]
	if spacing >= 1000 && r.IntN(2) == 0 { // whole seconds
		first, spacing = start, spacing-spacing%1000
	}
	for at := first; at < start+span; at += spacing {
		if r.IntN(20) == 0 {
			at += r.Int64N(span/5 + 1)
		}
		if r.IntN(2) == 0 && kind%2 == 0 {
			at += r.Int64N(spacing)
		}
		switch kind {
		case 0, 1: // a counter of integers
			if value += float64(r.IntN(100)); r.IntN(15) == 0 {
				value = float64(r.IntN(3))
			}
		case 2: // a counter
			if value += r.Float64(); r.IntN(15) == 0 {
				value = r.Float64() / 3
			}
		case 3: // few values
			value = []float64{0, 1, 1.5, -2, math.Copysign(0, -1)}[r.IntN(5)]
		case 4:
			value = r.NormFloat64() * math.Pow(10, float64(r.IntN(20)))
		case 5: // constant
			value = constant
		case 6: // decimals
			value = float64(r.IntN(20_000)-3000) / 100
		case 7: // bytes
			value = float64((r.Int64N(1<<27) - 1<<22) * 4096)
		case 8: // full doubles, of which few differ much
			value = r.NormFloat64() * math.Pow(2, float64(r.IntN(12)))
		}
		out := value
		if r.IntN(12) == 0 {
			out = []float64{Absent(), Absent(), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.Copysign(0, -1), 5e-324}[r.IntN(9)]
			if kind >= 5 || kind == 1 {
				out = Absent()
			}
		}
		s.t, s.v = append(s.t, at), append(s.v, out)
	}
	return s
}

var kernelFunctions = []string{
	"", "rate", "increase", "delta", "irate", "idelta", "changes", "resets", "deriv", "predict_linear",
	"sum_over_time", "avg_over_time", "count_over_time", "present_over_time", "first_over_time", "last_over_time",
	"min_over_time", "max_over_time", "stddev_over_time", "stdvar_over_time", "quantile_over_time", "mad_over_time",
}

// query returns the text of a spec over the metric m.
func (s *spec) query() string {
	modifier := fmt.Sprintf(" offset %dms", s.Offset)
	if s.Offset < 0 {
		modifier = fmt.Sprintf(" offset -%dms", -s.Offset)
	}
	selector := fmt.Sprintf("m[%dms]%s", s.Range, modifier)
	switch s.Func {
	case "":
		return "m" + modifier
	case "quantile_over_time":
		return fmt.Sprintf("quantile_over_time(%v, %s)", s.Param, selector)
	case "predict_linear":
		return fmt.Sprintf("predict_linear(%s, %v)", selector, s.Param)
	}
	return fmt.Sprintf("%s(%s)", s.Func, selector)
}

// randomSpec returns a spec whose windows lie about where samples are.
func randomSpec(r *rand.Rand, start, span int64) spec {
	g := Grid{Start: start + r.Int64N(span) - span/4, Step: 1 + r.Int64N(span/8)}
	g.End = g.Start + r.Int64N(span)
	if r.IntN(2) == 0 { // whole seconds between the samples and the steps
		g.Start += (start - g.Start) % 1000
		g.Step += 1000 - g.Step%1000
	}
	s := spec{Grid: g, Range: 1 + r.Int64N(span/2), Lookback: 1 + r.Int64N(span/10)}
	if r.IntN(3) == 0 {
		s.Range = 1 + r.Int64N(g.Step)
	}
	if r.IntN(2) == 0 {
		s.Offset = r.Int64N(span) - span/2
	}
	s.Func = kernelFunctions[r.IntN(len(kernelFunctions))]
	switch s.Func {
	case "quantile_over_time":
		s.Param = []float64{0, 0.5, 0.9, 0.99, 1, r.Float64()}[r.IntN(6)]
	case "predict_linear":
		s.Param = float64(r.IntN(1000)) / 8
	}
	return s
}

// TestKernelsEqualPromQL compares kernels with Prometheus' engine to the last bit.
func TestKernelsEqualPromQL(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	values := map[string]int{}
	for range 1500 {
		span := []int64{100, 50_000, 3_600_000}[r.IntN(3)]
		start := []int64{1_700_000_000_123, -span / 2, 0}[r.IntN(3)]
		spec := randomSpec(r, start, span)
		k := newKernel(spec)
		for range 2 { // the second must not see the first
			s := randomSeries(r, start, span)
			s.labels = labels.FromStrings("__name__", "m")
			got := make([]float64, spec.Steps())
			found, _ := k.Run(got, slices.Clone(s.t), slices.Clone(s.v))
			want := reference(t, memory{s}, spec.query(), spec.Grid, spec.Lookback, false)
			values[spec.Func] += found
			if found == 0 && len(want) == 0 {
				continue
			}
			if len(want) != 1 {
				t.Fatalf("seed %d: %s over %+v: %d series, want %d", seed, spec.query(), spec.Grid, found, len(want))
			}
			for _, steps := range want {
				if !sameSteps(got, steps) {
					t.Fatalf("seed %d: %s over %+v of\n%v\n%v\ngot  %v\nwant %v", seed, spec.query(), spec.Grid, s.t, s.v, got, steps)
				}
				n := 0
				for _, v := range steps {
					if !IsAbsent(v) {
						n++
					}
				}
				if n != found {
					t.Fatalf("seed %d: %s: found %d, want %d", seed, spec.query(), found, n)
				}
			}
		}
	}
	for _, f := range kernelFunctions {
		if values[f] < 50 {
			t.Errorf("%q: only %d values were compared", f, values[f])
		}
	}
}

// TestSortRuns sorts long slices in runs, and gives up when it is told to.
func TestSortRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 9))
	for range 200 {
		values := make([]float64, r.IntN(2000))
		for i := range values {
			values[i] = float64(r.IntN(500))
		}
		want := slices.Sorted(slices.Values(values))
		sortRuns(values, make([]float64, len(values)), 1+r.IntN(100), func() bool { return false })
		if !slices.Equal(values, want) {
			t.Fatalf("%d values are not sorted", len(values))
		}
		calls := 0
		sortRuns(values, make([]float64, len(values)), 7, func() bool { calls++; return calls == 3 })
		if calls > 3 {
			t.Fatalf("%d calls of stop", calls)
		}
	}
	k := &kernel{check: func() error { return context.Canceled }}
	k.sort(make([]float64, checkedSamples+1))
	if k.failed != context.Canceled {
		t.Errorf("a sort that should end: %v", k.failed)
	}
}
