package otlpjudge

import (
	"fmt"
	"math"
	"math/rand/v2"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// random makes requests that Prometheus' translator takes whole. It leaves out what
// costs Prometheus more than the data point that is wrong: names of underscores only,
// bad scales and bounds, data points without time or value. It leaves out what no row of
// tsdbd can have: control characters in labels.
type random struct {
	*rand.Rand
	rejects bool // there are metrics that are rejected for their temporality
}

func pick[T any](r random, list ...T) T { return list[r.IntN(len(list))] }

var words = []string{"http", "server", "Request", "duration", "total", "bytes", "per", "second", "seconds", "ratio", "1", "9x", "_", "__", ".", "-", "é", "a:b", " ", "cpu", "usage", "\xf0\x9f\x98\x80"}

func (r random) name() string {
	s := "n"
	if r.IntN(4) == 0 {
		s = pick(r, "5", "_n", "__n", "n..", "N")
	}
	for range r.IntN(5) {
		s += pick(r, words...)
	}
	return s
}

func (r random) unit() string {
	return pick(r, "", "1", "s", "ms", "By", "By/s", "{request}", "{request}/s", "1/min", "%", "m/s", "Cel", "widgets", "By/widget", " s / m ", "_s_", "/s", "KiBy/d", "é", "__", "a__b/c__d")
}

func (r random) float() float64 {
	return pick(r, 0, 1, -1, 0.1, 1e-7, 1e21, -2.5e-300, math.Pi, math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1), r.NormFloat64())
}

func (r random) value(v pcommon.Value, depth int) {
	kinds := 6
	if depth < 3 {
		kinds = 8
	}
	switch r.IntN(kinds) {
	case 0, 1:
		v.SetStr(pick(r, "", "a", "b\"<&>", "é", "\u2028", "x"))
	case 2:
		v.SetBool(r.IntN(2) == 0)
	case 3:
		v.SetInt(pick(r, 0, -1, math.MaxInt64, math.MinInt64, r.Int64()))
	case 4:
		f := r.float()
		for depth > 0 && (math.IsNaN(f) || math.IsInf(f, 0)) { // for which Prometheus drops the list
			f = r.float()
		}
		v.SetDouble(f)
	case 5:
		v.SetEmptyBytes().FromRaw([]byte(pick(r, "", "a", "ab", "\xff\xfe\x00")))
	case 6:
		list := v.SetEmptySlice()
		for range r.IntN(4) {
			r.value(list.AppendEmpty(), depth+1)
		}
	case 7:
		m := v.SetEmptyMap()
		for range r.IntN(4) {
			r.value(m.PutEmpty(r.name()), depth+1)
		}
	}
}

func (r random) attributes(m pcommon.Map, names ...string) {
	for range r.IntN(6) {
		name := r.name()
		if r.IntN(3) == 0 {
			name = pick(r, names...)
		}
		r.value(m.PutEmpty(name), 0)
	}
}

var ownNames = []string{"job", "instance", "le", "quantile", "__name__", "a.b", "a-b", "a_b", "otel_scope_name", "host.name", "host_name"}

// The times of data points.
const (
	earliest = 1_700_000_000_000_000_000
	latest   = earliest + 1_200_000_000_000
)

func (r random) time() pcommon.Timestamp {
	return pcommon.Timestamp(earliest + r.Int64N(latest-earliest))
}

// head sets what all data points have.
func (r random) head(p interface {
	SetTimestamp(pcommon.Timestamp)
	SetStartTimestamp(pcommon.Timestamp)
	SetFlags(pmetric.DataPointFlags)
	Attributes() pcommon.Map
},
) {
	p.SetTimestamp(r.time())
	if r.IntN(2) == 0 {
		p.SetStartTimestamp(r.time())
	}
	if r.IntN(8) == 0 {
		p.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	}
	r.attributes(p.Attributes(), ownNames...)
}

func (r random) number(p pmetric.NumberDataPoint) {
	r.head(p)
	if r.IntN(2) == 0 {
		p.SetIntValue(pick(r, 0, -5, math.MaxInt64, r.Int64()))
	} else {
		p.SetDoubleValue(r.float())
	}
	for range r.IntN(3) {
		p.Exemplars().AppendEmpty().SetIntValue(1)
	}
}

func (r random) histogram(p pmetric.HistogramDataPoint) {
	r.head(p)
	p.SetCount(r.Uint64N(1000))
	if r.IntN(4) > 0 {
		p.SetSum(r.float())
	}
	if r.IntN(5) == 0 {
		return
	}
	bound := r.NormFloat64()
	p.BucketCounts().Append(r.Uint64N(10))
	for range r.IntN(8) {
		p.ExplicitBounds().Append(bound)
		p.BucketCounts().Append(r.Uint64N(10))
		bound = max(bound+pick(r, 0.1, 1, 100, 1e-9, 1e12), math.Nextafter(bound, math.Inf(1)))
	}
}

func (r random) exponential(p pmetric.ExponentialHistogramDataPoint) {
	r.head(p)
	p.SetScale(r.Int32N(25) - 4)
	total := r.Uint64N(3)
	p.SetZeroCount(total)
	for _, b := range []pmetric.ExponentialHistogramDataPointBuckets{p.Positive(), p.Negative()} {
		if r.IntN(3) == 0 {
			continue
		}
		b.SetOffset(r.Int32N(400) - 200)
		for range r.IntN(40) {
			n := pick(r, 0, 0, 0, 1, r.Uint64N(100))
			if p.Scale() > 8 {
				// When Prometheus reduces the scale, it moves what follows an empty
				// bucket into the bucket before.
				n++
			}
			b.BucketCounts().Append(n)
			total += n
		}
	}
	p.SetCount(total)
	if r.IntN(4) > 0 {
		p.SetSum(pick(r, 0, 1.5, -7e9))
	}
}

func (r random) temporality() pmetric.AggregationTemporality {
	if r.rejects && r.IntN(5) == 0 {
		return pick(r, pmetric.AggregationTemporalityDelta, pmetric.AggregationTemporalityUnspecified)
	}
	return pmetric.AggregationTemporalityCumulative
}

func (r random) metric(m pmetric.Metric) {
	m.SetName(r.name())
	m.SetUnit(r.unit())
	m.SetDescription(pick(r, "", "Help.", "Help\nin lines"))
	points := r.IntN(4)
	switch r.IntN(5) {
	case 0:
		g := m.SetEmptyGauge()
		for range points {
			r.number(g.DataPoints().AppendEmpty())
		}
	case 1:
		s := m.SetEmptySum()
		s.SetIsMonotonic(r.IntN(2) == 0)
		s.SetAggregationTemporality(r.temporality())
		for range points {
			r.number(s.DataPoints().AppendEmpty())
		}
	case 2:
		h := m.SetEmptyHistogram()
		h.SetAggregationTemporality(r.temporality())
		for range points {
			r.histogram(h.DataPoints().AppendEmpty())
		}
	case 3:
		h := m.SetEmptyExponentialHistogram()
		h.SetAggregationTemporality(r.temporality())
		for range points {
			r.exponential(h.DataPoints().AppendEmpty())
		}
	case 4:
		s := m.SetEmptySummary()
		for range points {
			p := s.DataPoints().AppendEmpty()
			r.head(p)
			p.SetCount(r.Uint64N(1000))
			p.SetSum(r.float())
			for i := range r.IntN(4) {
				q := p.QuantileValues().AppendEmpty()
				q.SetQuantile(float64(i) / 3)
				q.SetValue(r.float())
			}
		}
	}
}

func (r random) request() pmetric.Metrics {
	all := pmetric.NewMetrics()
	for i := range 1 + r.IntN(2) {
		resource := all.ResourceMetrics().AppendEmpty()
		r.attributes(resource.Resource().Attributes(), "host.name", "host_name", "job", "__name__", "zone")
		for _, name := range []string{"service.name", "service.namespace", "service.instance.id"} {
			if r.IntN(2) == 0 {
				r.value(resource.Resource().Attributes().PutEmpty(name), 2)
			}
		}
		for j := range 1 + r.IntN(2) {
			scope := resource.ScopeMetrics().AppendEmpty()
			scope.SetSchemaUrl(pick(r, "", "http://schema"))
			scope.Scope().SetName(pick(r, "", fmt.Sprintf("lib%d.%d", i, j)))
			scope.Scope().SetVersion(pick(r, "", "v1"))
			r.attributes(scope.Scope().Attributes(), "name", "x")
			if r.rejects && j == 0 {
				// The times of rejected data points have a part in target_info of
				// Prometheus, but not of tsdbd.
				g := scope.Metrics().AppendEmpty()
				g.SetName("bounds")
				points := g.SetEmptyGauge().DataPoints()
				for _, at := range []pcommon.Timestamp{earliest, latest} {
					p := points.AppendEmpty()
					p.SetIntValue(1)
					p.SetTimestamp(at)
				}
			}
			for range r.IntN(4) {
				r.metric(scope.Metrics().AppendEmpty())
			}
		}
	}
	return all
}
