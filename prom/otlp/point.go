package otlp

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/prometheus/otlptranslator"
	"github.com/prometheus/prometheus/model/value"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model"
	"tsdbd/prom"
)

// maxBuckets bounds the buckets of a histogram.
const maxBuckets = 10_000

// The reasons for which data points are refused that have no details.
var (
	errDelta        = errors.New("delta temporality is not supported, send cumulative temporality or let a collector convert it (processor deltatocumulative)")
	errNoName       = errors.New("metric without a name")
	errNoTime       = errors.New("data point without a time")
	errNoValue      = errors.New("data point without a value")
	errBounds       = errors.New("the bounds of the buckets are not in increasing order")
	errQuantilesMax = fmt.Errorf("more than %d quantiles", maxBuckets)
	errBucketsMax   = fmt.Errorf("more than %d buckets", maxBuckets)
)

// flagNoRecordedValue marks a data point that says that its series ended.
const flagNoRecordedValue = 1

// staleMarker is the value of a sample that says that its series ended.
var staleMarker = math.Float64frombits(value.StaleNaN)

// point is a data point of any kind.
type point struct {
	attributes  attributes
	start, time uint64 // ns since the epoch
	stale       bool
	exemplars   [][]byte // messages

	value           float64 // of a gauge or sum
	hasValue        bool
	count           uint64
	sum             float64
	hasSum          bool
	counts, bounds  []uint64     // of a histogram; bounds are the bits of floats
	quantiles       [][2]float64 // of a summary: quantile, value
	scale           int32
	zeroCount       uint64
	zeroThreshold   float64
	positive, minus buckets
}

// buckets are those of one sign of an exponential histogram.
type buckets struct {
	offset int32
	counts []uint64
}

func (p *point) ms() int64      { return int64(p.time / 1e6) }
func (p *point) startMs() int64 { return int64(p.start / 1e6) }

// kind is what kinds of metrics differ in.
type kind struct {
	// On the wire. Data points have the same fields for their times, and most for their
	// count and their sum.
	message                      string
	attributes, exemplars, flags protowire.Number
	read                         func(*point, *fields) error // reads the other fields
	// In Prometheus.
	name  string
	namer otlptranslator.MetricType
}

// kinds are by the field of the Metric that has the data points.
var kinds = map[protowire.Number]kind{
	gauge:       {"NumberDataPoint", 7, 5, 8, (*point).readNumber, "gauge", otlptranslator.MetricTypeGauge},
	sum:         {"NumberDataPoint", 7, 5, 8, (*point).readNumber, "counter", otlptranslator.MetricTypeMonotonicCounter},
	histogram:   {"HistogramDataPoint", 9, 8, 10, (*point).readHistogram, "histogram", otlptranslator.MetricTypeHistogram},
	exponential: {"ExponentialHistogramDataPoint", 1, 11, 10, (*point).readExponential, "histogram", otlptranslator.MetricTypeExponentialHistogram},
	summary:     {"SummaryDataPoint", 7, none, 8, (*point).readSummary, "summary", otlptranslator.MetricTypeSummary},
}

// prometheus returns the type of a metric, and that on which its name depends. A sum that
// may fall is a gauge.
func (m *metric) prometheus() (name string, namer otlptranslator.MetricType) {
	if m.kind == sum && !m.monotonic {
		return "gauge", otlptranslator.MetricTypeNonMonotonicCounter
	}
	return kinds[m.kind].name, kinds[m.kind].namer
}

const none protowire.Number = -1

// read reads a data point of a kind. It returns an error if b is no message.
func (p *point) read(m *metric, b []byte) error {
	p.attributes.reset()
	*p = point{
		attributes: p.attributes, exemplars: p.exemplars[:0], counts: p.counts[:0], bounds: p.bounds[:0], quantiles: p.quantiles[:0],
		positive: buckets{counts: p.positive.counts[:0]}, minus: buckets{counts: p.minus.counts[:0]},
	}
	of := kinds[m.kind]
	f := read(b, of.message)
	for f.Next() {
		var err error
		switch f.Field {
		case of.attributes:
			err = p.attributes.add(f.message())
		case of.exemplars:
			if b := f.message(); len(p.exemplars) < maxExemplars {
				p.exemplars = append(p.exemplars, b)
			}
		case of.flags:
			p.stale = f.varint()&flagNoRecordedValue != 0
		case 2:
			p.start = f.fixed()
		case 3:
			p.time = f.fixed()
		default:
			err = of.read(p, &f)
		}
		if err != nil {
			return err
		}
	}
	return f.Err
}

// maxExemplars bounds the exemplars of a data point.
const maxExemplars = 1000

func (p *point) readNumber(f *fields) error {
	switch f.Field {
	case 4:
		p.value, p.hasValue = f.double(), true
	case 6:
		p.value, p.hasValue = float64(int64(f.fixed())), true
	}
	return nil
}

// readTotals reads the count and the sum.
func (p *point) readTotals(f *fields) {
	switch f.Field {
	case 4:
		p.count = f.fixed()
	case 5:
		p.sum, p.hasSum = f.double(), true
	}
}

func (p *point) readHistogram(f *fields) error {
	switch f.Field {
	case 6:
		p.counts = f.appendFixed(p.counts)
	case 7:
		p.bounds = f.appendFixed(p.bounds)
	default:
		p.readTotals(f)
	}
	return nil
}

func (p *point) readExponential(f *fields) error {
	switch f.Field {
	case 6:
		p.scale = f.sint()
	case 7:
		p.zeroCount = f.fixed()
	case 8:
		return p.positive.read(f.message())
	case 9:
		return p.minus.read(f.message())
	case 14:
		p.zeroThreshold = f.double()
	default:
		p.readTotals(f)
	}
	return nil
}

func (p *point) readSummary(f *fields) error {
	if f.Field == 6 {
		return p.readQuantile(f.message())
	}
	p.readTotals(f)
	return nil
}

// readQuantile reads a ValueAtQuantile.
func (p *point) readQuantile(b []byte) error {
	var pair [2]float64
	f := read(b, "ValueAtQuantile")
	for f.Next() {
		switch f.Field {
		case 1, 2:
			pair[f.Field-1] = f.double()
		}
	}
	if len(p.quantiles) < maxElements {
		p.quantiles = append(p.quantiles, pair)
	}
	return f.Err
}

// read reads the Buckets of an exponential histogram.
func (b *buckets) read(message []byte) error {
	f := read(message, "Buckets")
	for f.Next() {
		switch f.Field {
		case 1:
			b.offset = f.sint()
		case 2:
			b.counts = f.appendVarints(b.counts)
		}
	}
	return f.Err
}

// check returns why a data point cannot be stored.
func (p *point) check(kind protowire.Number) error {
	if p.time == 0 {
		return errNoTime
	}
	switch kind {
	case gauge, sum:
		if !p.hasValue && !p.stale {
			return errNoValue
		}
	case histogram:
		return p.checkHistogram()
	case exponential:
		if max(len(p.positive.counts), len(p.minus.counts)) > maxBuckets {
			return errBucketsMax
		}
	case summary:
		if len(p.quantiles) > maxBuckets {
			return errQuantilesMax
		}
	}
	return nil
}

func (p *point) checkHistogram() error {
	if len(p.counts) > maxBuckets || len(p.bounds) > maxBuckets {
		return errBucketsMax
	}
	if n := len(p.bounds); len(p.counts) != n+1 && len(p.counts)+n > 0 {
		return fmt.Errorf("%d buckets with %d bounds, there must be one bucket more than bounds", len(p.counts), n)
	}
	last := math.Inf(-1)
	for i, bits := range p.bounds {
		bound := math.Float64frombits(bits)
		if i > 0 && !(bound > last) || math.IsNaN(bound) {
			return errBounds
		}
		last = bound
	}
	return nil
}

// emit adds the samples of a data point. bad is why it cannot be stored, another error
// is not its fault. What Rows refuses is counted there.
func (t *translation) emit(m *metric) (bad, err error) {
	p := &t.point
	switch m.kind {
	case histogram:
		return nil, t.emitHistogram(m)
	case summary:
		return nil, t.emitSummary(m)
	case exponential:
		h, bad := p.native()
		if bad != nil {
			return bad, nil
		}
		t.histograms[0] = prom.Histogram{Time: p.ms(), Start: p.startMs(), Int: h}
		err = t.addSeries(m.family, model.Tag{}, nil, t.histograms[:])
	default:
		err = t.add(m.family, model.Tag{}, p.sample(p.value))
	}
	if err != nil {
		return nil, err
	}
	return nil, t.addAllExemplars()
}

// sample returns a sample of the data point.
func (p *point) sample(v float64) prom.Sample {
	if p.stale {
		v = staleMarker
	}
	return prom.Sample{Value: v, Time: p.ms(), Start: p.startMs()}
}

// emitTotals adds the sum and the count. A histogram may have no sum.
func (t *translation) emitTotals(m *metric) error {
	p := &t.point
	if p.hasSum || m.kind == summary {
		if err := t.add(m.family+"_sum", model.Tag{}, p.sample(p.sum)); err != nil {
			return err
		}
	}
	return t.add(m.family+"_count", model.Tag{}, p.sample(float64(p.count)))
}

// emitHistogram adds the sum, the count and the cumulative buckets of a histogram. An
// exemplar is one of the bucket that it fell into.
func (t *translation) emitHistogram(m *metric) error {
	p := &t.point
	if err := t.emitTotals(m); err != nil {
		return err
	}
	examples, err := p.readExemplars()
	if err != nil {
		return err
	}
	if p.stale {
		examples = nil
	}
	name, total, below := m.family+"_bucket", uint64(0), math.Inf(-1)
	for i, bits := range p.bounds {
		total += p.counts[i]
		if bound := math.Float64frombits(bits); !math.IsInf(bound, 1) { // the bucket below is the same
			if err := t.add(name, model.Tag{Key: "le", Value: t.number(bound)}, p.sample(float64(total))); err != nil {
				return err
			}
			if err := t.addExemplars(examples, below, bound); err != nil {
				return err
			}
			below = bound
		}
	}
	if err := t.add(name, model.Tag{Key: "le", Value: "+Inf"}, p.sample(float64(p.count))); err != nil {
		return err
	}
	return t.addExemplars(examples, below, math.Inf(1))
}

// emitSummary adds the sum, the count and the quantiles of a summary.
func (t *translation) emitSummary(m *metric) error {
	if err := t.emitTotals(m); err != nil {
		return err
	}
	p := &t.point
	for _, q := range p.quantiles {
		if err := t.add(m.family, model.Tag{Key: "quantile", Value: t.number(q[0])}, p.sample(q[1])); err != nil {
			return err
		}
	}
	return nil
}

// maxNumbers bounds the texts of numbers that a translation keeps.
const maxNumbers = 1000

// number returns the text of the bound of a bucket or of a quantile.
func (t *translation) number(v float64) string {
	if s, ok := t.numbers[v]; ok {
		return s
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if len(t.numbers) < maxNumbers {
		t.numbers[v] = s
	}
	return s
}
