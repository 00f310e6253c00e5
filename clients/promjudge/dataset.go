package promjudge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

// Sample is a value of a series: a histogram if one of both is set, else Value.
type Sample struct {
	Time  int64 // ms
	Value float64
	Int   *histogram.Histogram
	Float *histogram.FloatHistogram
}

// Series is a series and its samples in the order of their times.
type Series struct {
	Labels  labels.Labels
	Samples []Sample
}

// Dataset is what a round of the test stores. The series are in the order of their labels,
// in which both sides get them: series come to the engine in the order in which they were
// stored first. The last bits of a sum depend on it, which of equal values topk takes, and
// which series an error names.
type Dataset struct {
	Start, End int64 // times of the first and the last sample, ms
	Interval   int64 // usual distance of samples, ms
	Series     []Series
	Metrics    []Metric
}

// Metric is what expressions must know of the series of a name.
type Metric struct {
	Name   string
	Kind   Kind
	Labels map[string][]string // of any series
}

// Kind is what the samples of a metric are.
type Kind int

// The kinds of a Metric.
const (
	Counter Kind = iota
	Gauge
	Buckets // of a classic histogram
	Native  // native histograms, of which some series may have numbers too
	Info
)

// week is the time range of a shard of tsdbd.
const week = int64(7 * 24 * time.Hour / time.Millisecond)

// NewDataset returns random series, with native histograms among them or without.
func NewDataset(r *rand.Rand, natives bool) *Dataset {
	d := &Dataset{Interval: []int64{15_000, 15_000, 60_000, 10_000, 5_000, 7_500}[r.IntN(6)]}
	switch r.IntN(4) {
	case 0: // as Prometheus' own tests
		d.Start = 0
	case 1: // across the bound of two shards
		d.Start = 1_700_006_400_000/week*week + 4*week/7*10 - d.Interval*100
	default:
		d.Start = 1_700_000_000_000 + r.Int64N(1_000_000)
	}
	steps := 100 + r.IntN(200)
	d.End = d.Start + int64(steps-1)*d.Interval
	jobs, instances := []string{"api", "db", ""}, []string{"a:1", "b:2", "c:3", "d:4"}
	instances = instances[:2+r.IntN(3)]
	for _, job := range jobs[:2+r.IntN(2)] {
		for _, instance := range instances {
			base := []string{"job", job, "instance", instance}
			with := func(more ...string) []string { return append(base[:4:4], more...) }
			for _, code := range []string{"200", "404", "500"} {
				d.add(r, steps, Counter, counter(r, true), "http_requests_total", with("code", code)...)
			}
			for _, mode := range []string{"idle", "user"} {
				d.add(r, steps, Counter, counter(r, false), "cpu_seconds_total", with("mode", mode)...)
			}
			d.add(r, steps, Gauge, gauge(r), "temperature", with("room", []string{"hall", "cellar"}[r.IntN(2)])...)
			d.add(r, steps, Gauge, integer(r), "queue_length", with()...)
			d.add(r, steps, Gauge, func(int) float64 { return float64(min(r.IntN(8), 1)) }, "up", with()...)
			d.add(r, steps, Gauge, special(r), "special", with()...)
			d.add(r, steps, Gauge, extreme(r), "extreme", with()...)
			constant := float64(r.IntN(3)) / 3
			d.add(r, steps, Gauge, func(int) float64 { return constant }, "constant", with()...)
			if r.IntN(3) > 0 {
				d.add(r, steps, Info, func(int) float64 { return 1 }, "target_info", with("version", fmt.Sprint(r.IntN(2)), "os", "linux")...)
			}
			if natives {
				d.native(r, steps, with)
			}
		}
		d.buckets(r, steps, job)
	}
	d.add(r, steps, Gauge, gauge(r), "säure.wert", "label with space", `a "b"\c,d=e`, "päth", "/x y/")
	d.add(r, steps, Gauge, gauge(r), "säure.wert", "label with space", "", "päth", "/ü,=/")
	slices.SortFunc(d.Series, func(a, b Series) int { return labels.Compare(a.Labels, b.Labels) })
	return d
}

// add adds a series. Samples may come late, be missing, and the series may end with
// a staleness marker and come back.
func (d *Dataset) add(r *rand.Rand, steps int, kind Kind, value func(step int) float64, name string, pairs ...string) {
	d.put(r, steps, kind, func(step int) Sample { return Sample{Value: value(step)} }, name, pairs...)
}

func (d *Dataset) put(r *rand.Rand, steps int, kind Kind, sample func(step int) Sample, name string, pairs ...string) {
	s := Series{Labels: labels.FromStrings(append([]string{labels.MetricName, name}, pairs...)...)}
	s.Labels = s.Labels.WithoutEmpty()
	jitter, phase, missing := int64(0), int64(0), 0
	if r.IntN(2) == 0 {
		phase = r.Int64N(d.Interval)
	}
	if r.IntN(3) == 0 {
		jitter = d.Interval / 20
	}
	if r.IntN(3) == 0 {
		missing = 3 + r.IntN(20)
	}
	from, to := 0, steps
	if r.IntN(5) == 0 {
		from = r.IntN(steps / 2)
	}
	if r.IntN(5) == 0 {
		to = steps - r.IntN(steps/2)
	}
	every := 1
	if r.IntN(8) == 0 {
		every = 2 + r.IntN(8)
	}
	down := 0
	for step := from; step < to; step += every {
		one := sample(step) // a counter counts on while it is not scraped
		one.Time = d.Start + int64(step)*d.Interval + phase
		if jitter > 0 {
			one.Time += r.Int64N(jitter)
		}
		switch {
		case down > 0:
			down--
			continue
		case missing > 0 && r.IntN(missing) == 0:
			continue
		case r.IntN(60) == 0:
			one = Sample{Time: one.Time, Value: math.Float64frombits(valueStale)}
			down = r.IntN(30)
		}
		if one.Time <= d.End {
			s.Samples = append(s.Samples, one)
		}
	}
	if len(s.Samples) > 0 {
		d.Series = append(d.Series, s)
		d.know(kind, s.Labels)
	}
}

const valueStale = value.StaleNaN

// know takes a series into what expressions know.
func (d *Dataset) know(kind Kind, ls labels.Labels) {
	name := ls.Get(labels.MetricName)
	at := -1
	for i := range d.Metrics {
		if d.Metrics[i].Name == name {
			at = i
		}
	}
	if at < 0 {
		at = len(d.Metrics)
		d.Metrics = append(d.Metrics, Metric{Name: name, Kind: kind, Labels: map[string][]string{}})
	}
	ls.Range(func(l labels.Label) {
		if l.Name != labels.MetricName {
			values := d.Metrics[at].Labels[l.Name]
			for _, v := range values {
				if v == l.Value {
					return
				}
			}
			d.Metrics[at].Labels[l.Name] = append(values, l.Value)
		}
	})
}

// counter goes up, and sometimes begins again.
func counter(r *rand.Rand, whole bool) func(int) float64 {
	v, resets, pace := 0.0, 20+r.IntN(400), math.Pow(10, float64(r.IntN(5)-1))
	if r.IntN(3) == 0 {
		v = 1e6 * r.Float64()
	}
	return func(int) float64 {
		switch {
		case r.IntN(resets) == 0:
			v = 0
		case r.IntN(5) > 0:
			v += pace * r.Float64()
		}
		if whole {
			return math.Floor(v)
		}
		return v
	}
}

func gauge(r *rand.Rand) func(int) float64 {
	v, digits := 20.0, math.Pow(10, float64(r.IntN(4)))
	exact := r.IntN(2) == 0
	return func(int) float64 {
		if v += r.NormFloat64(); exact {
			return v
		}
		return math.Round(v*digits) / digits
	}
}

func integer(r *rand.Rand) func(int) float64 {
	v := r.IntN(1000) - 500
	return func(int) float64 {
		v += r.IntN(21) - 10
		return float64(v)
	}
}

// special has the values that arithmetic treats in a way of its own.
func special(r *rand.Rand) func(int) float64 {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, math.Float64frombits(0x7ff8000000000042), 1}
	share := 2 + r.IntN(40)
	return func(int) float64 {
		if r.IntN(share) == 0 {
			return odd[r.IntN(len(odd))]
		}
		return r.NormFloat64()
	}
}

// extreme has values whose sums overflow or lose digits.
func extreme(r *rand.Rand) func(int) float64 {
	scales := []float64{1, 1e16, 1e-300, 1e300, 1e308, math.SmallestNonzeroFloat64, 9007199254740993}
	scales = scales[:1+r.IntN(len(scales))]
	return func(int) float64 {
		v := scales[r.IntN(len(scales))] * (1 + r.Float64()/2)
		if r.IntN(2) == 0 {
			v = -v
		}
		return v
	}
}

// buckets adds a classic histogram; sometimes a bucket is missing or decreases.
func (d *Dataset) buckets(r *rand.Rand, steps int, job string) {
	bounds := []string{"0.1", "0.5", "1", "2.5", "+Inf"}
	counts := make([][]float64, steps)
	var sum float64
	sums := make([]float64, steps)
	now := make([]float64, len(bounds))
	for step := range counts {
		for range r.IntN(10) {
			v := r.ExpFloat64()
			sum += v
			for b, bound := range []float64{0.1, 0.5, 1, 2.5, math.Inf(1)} {
				if v <= bound {
					now[b]++
				}
			}
		}
		if r.IntN(100) == 0 {
			clear(now)
			sum = 0
		}
		counts[step], sums[step] = append([]float64(nil), now...), sum
	}
	for b, bound := range bounds {
		d.add(r, steps, Buckets, func(step int) float64 { return counts[step][b] }, "latency_bucket", "job", job, "le", bound)
	}
	d.add(r, steps, Counter, func(step int) float64 { return counts[step][len(bounds)-1] }, "latency_count", "job", job)
	d.add(r, steps, Counter, func(step int) float64 { return sums[step] }, "latency_sum", "job", job)
}

// native adds series of native histograms.
func (d *Dataset) native(r *rand.Rand, steps int, with func(...string) []string) {
	growing := grower(r, false)
	d.put(r, steps, Native, func(int) Sample { return Sample{Int: growing()} }, "native", with()...)
	floats := grower(r, false)
	d.put(r, steps, Native, func(int) Sample { return Sample{Float: floats().ToFloat(nil)} }, "native_float", with()...)
	custom := grower(r, true)
	d.put(r, steps, Native, func(int) Sample { return Sample{Int: custom()} }, "native_custom", with()...)
	mixed, number := grower(r, false), counter(r, false)
	share := 2 + r.IntN(40)
	floating := false
	d.put(r, steps, Native, func(step int) Sample {
		if r.IntN(share) == 0 {
			floating = !floating
		}
		h, v := mixed(), number(step)
		if floating {
			return Sample{Value: v}
		}
		return Sample{Int: h}
	}, "native_mixed", with()...)
	gauges := r.IntN(2) == 0
	d.put(r, steps, Native, func(int) Sample {
		h := grower(r, false)()
		if gauges {
			h.CounterResetHint = histogram.GaugeType
		}
		return Sample{Int: h}
	}, "native_gauge", with()...)
}

// grower returns histograms of which each holds what the one before it held, and
// more; sometimes they begin again.
func grower(r *rand.Rand, custom bool) func() *histogram.Histogram {
	schema := int32(r.IntN(7)) - 2
	var bounds []float64
	if custom {
		schema = histogram.CustomBucketsSchema
		bounds = []float64{0.1, 0.5, 1, 2.5, 5}[:2+r.IntN(4)]
	}
	const width = 5
	var positive, negative [width]int64
	var zero uint64
	var sum float64
	return func() *histogram.Histogram {
		if r.IntN(80) == 0 {
			clear(positive[:])
			clear(negative[:])
			zero, sum = 0, 0
		}
		n := width
		if custom {
			n = len(bounds) + 1
		}
		for range r.IntN(8) {
			if at := r.IntN(min(n, width)); custom || r.IntN(3) > 0 {
				positive[at]++
			} else {
				negative[at]++
			}
			sum += r.Float64() * 3
		}
		h := &histogram.Histogram{Schema: schema, Sum: sum, CustomValues: bounds}
		if !custom {
			zero += uint64(r.IntN(2))
			h.ZeroThreshold, h.ZeroCount = 0.001, zero
			h.NegativeSpans, h.NegativeBuckets = spans(negative[:], -1)
		}
		h.PositiveSpans, h.PositiveBuckets = spans(positive[:min(n, width)], 0)
		h.Count = h.ZeroCount
		for _, all := range [][]int64{positive[:], negative[:]} {
			for _, v := range all {
				h.Count += uint64(v)
			}
		}
		return h
	}
}

// spans returns the buckets that are not empty as spans and deltas.
func spans(counts []int64, offset int32) (out []histogram.Span, deltas []int64) {
	before, gap := int64(0), offset
	open := false
	for _, v := range counts {
		if v == 0 {
			gap++
			open = false
			continue
		}
		if !open {
			out = append(out, histogram.Span{Offset: gap})
			gap, open = 0, true
		}
		out[len(out)-1].Length++
		deltas = append(deltas, v-before)
		before = v
	}
	return out, deltas
}
