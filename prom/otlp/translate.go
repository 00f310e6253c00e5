package otlp

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/otlptranslator"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model"
	"tsdbd/prom"
)

// Sink takes the series of a translation.
type Sink struct {
	// Rows takes the samples, and charges them beyond the size of the request. The
	// translation resets its count of refused samples.
	Rows *prom.Rows
	// Metadata takes what is known of a metric, once for each name. nil: nobody wants it.
	Metadata func(m Metadata) error
}

// Metadata is what is known of a metric.
type Metadata struct {
	Metric           string
	Type, Help, Unit string
}

// Request translates an ExportMetricsServiceRequest in protobuf. An error means that
// the body is no such message, or is an error of ctx or the sink. The caller then must
// not write the rows. Data points that cannot be stored are not an error.
//
// The rows share memory with the body until Request returns.
func Request(ctx context.Context, body []byte, opt Options, sink Sink) (Result, error) {
	t := &translation{ctx: ctx, opt: opt, sink: sink}
	sink.Rows.Credit = len(body)
	t.namer = otlptranslator.MetricNamer{WithMetricSuffixes: !opt.NoSuffixes, UTF8Allowed: opt.UTF8}
	t.names, t.labels = make(map[metricKey]string), make(map[string]string)
	t.known, t.targets = make(map[string]bool), make(map[target]bool)
	t.numbers = make(map[float64]string)
	err := each(body, "ExportMetricsServiceRequest", 1, t.resource)
	return t.result, err
}

// translation is the state of a Request.
type translation struct {
	ctx    context.Context
	opt    Options
	sink   Sink
	namer  otlptranslator.MetricNamer
	result Result
	turn   int // data points since the context was asked

	names   map[metricKey]string // of metrics
	labels  map[string]string    // names by the key of the attribute
	numbers map[float64]string   // texts of bounds and quantiles
	known   map[string]bool      // metrics whose metadata was given
	targets map[target]bool      // the samples of target_info that were written

	// Of the resource. first and last are the times of its data points in ms.
	origin        attributes
	job, instance string
	promoted      model.Tags
	first, last   int64

	scope model.Tags // labels of the scope

	// Of the data point. refused is why it cannot be stored, or why all of its
	// metric, scope or resource cannot.
	point      point
	refused    error
	base       model.Tags
	series     model.Tags
	samples    [1]prom.Sample
	histograms [1]prom.Histogram
}

// metricKey is what the name of a metric depends on.
type metricKey struct {
	name, unit string
	kind       otlptranslator.MetricType
}

// resource translates a ResourceMetrics.
func (t *translation) resource(b []byte) error {
	t.origin.reset()
	err := each(b, "ResourceMetrics", 1, func(b []byte) error { return each(b, "Resource", 1, t.origin.add) })
	if err != nil {
		return err
	}
	t.first, t.last = math.MaxInt64, math.MinInt64
	t.refused = t.enterResource()
	if err := each(b, "ResourceMetrics", 2, t.scopeMetrics); err != nil {
		return err
	}
	return t.targetInfo()
}

// enterResource sets the labels that all series of a resource have.
func (t *translation) enterResource() (err error) {
	t.job, t.instance = "", ""
	if name, ok := t.origin.get(serviceName); ok {
		t.job = name
		if namespace, ok := t.origin.get(serviceNamespace); ok {
			t.job = namespace + "/" + name
		}
	}
	t.instance, _ = t.origin.get(serviceInstance)
	t.promoted = t.promoted[:0]
	for _, a := range t.origin.list {
		if t.opt.promotes(a.key) {
			label, err := t.label(a.key)
			if err != nil {
				return fmt.Errorf("resource: %w", err)
			}
			t.promoted = set(t.promoted, label, a.value)
		}
	}
	return nil
}

// scopeMetrics translates a ScopeMetrics.
func (t *translation) scopeMetrics(b []byte) error {
	refused := t.refused
	defer func() { t.refused = refused }()
	if t.opt.PromoteScope {
		bad, err := t.enterScope(b)
		if err != nil {
			return err
		}
		if t.refused == nil {
			t.refused = bad
		}
	}
	return each(b, "ScopeMetrics", 2, t.metric)
}

// enterScope sets the labels that all series of a scope with a name have. bad is why
// they cannot be labels.
func (t *translation) enterScope(b []byte) (bad, err error) {
	var name, version, schema string
	var own attributes
	f := read(b, "ScopeMetrics")
	for f.Next() {
		switch f.Field {
		case 1:
			s := read(f.message(), "InstrumentationScope")
			for s.Next() {
				switch s.Field {
				case 1:
					name = s.text()
				case 2:
					version = s.text()
				case 3:
					if err := own.add(s.message()); err != nil {
						return nil, err
					}
				}
			}
			if s.Err != nil {
				return nil, s.Err
			}
		case 3:
			schema = f.text()
		}
	}
	t.scope = t.scope[:0]
	if f.Err != nil || name == "" {
		return nil, f.Err
	}
	for _, a := range own.list {
		label, err := t.label("otel_scope_" + a.key)
		if err != nil {
			return fmt.Errorf("scope: %w", err), nil
		}
		t.scope = set(t.scope, label, a.value)
	}
	t.scope = set(t.scope, "otel_scope_name", name)
	t.scope = set(t.scope, "otel_scope_version", version)
	t.scope = set(t.scope, "otel_scope_schema_url", schema)
	if own.bad != nil {
		return fmt.Errorf("scope: %w", own.bad), nil
	}
	return nil, nil
}

// The fields of a Metric that have data points.
const (
	gauge       = 5
	sum         = 7
	histogram   = 9
	exponential = 10
	summary     = 11
)

// metric translates a Metric.
func (t *translation) metric(b []byte) error {
	m := metric{}
	f := read(b, "Metric")
	for f.Next() {
		switch f.Field {
		case 1:
			m.name = f.text()
		case 2:
			m.help = f.text()
		case 3:
			m.unit = f.text()
		case gauge, sum, histogram, exponential, summary:
			m.kind = f.Field // the last one is in force
		}
	}
	if f.Err != nil {
		return f.Err
	}
	if m.kind == 0 {
		t.result.warn(m.name, "no data of a known kind")
	}
	return each(b, "Metric", m.kind, func(b []byte) error { return t.data(&m, b) })
}

// metric is a Metric without its data points.
type metric struct {
	name, help, unit string
	kind             protowire.Number // the field that has the data points; 0: none
	monotonic        bool
	family           string // the name in PromQL
}

// The temporalities of data points.
const (
	delta      = 1
	cumulative = 2
)

// data translates a Gauge, Sum, Histogram, ExponentialHistogram or Summary.
func (t *translation) data(m *metric, b []byte) error {
	points, temporality := 0, uint64(0)
	f := read(b, "Metric.data")
	for f.Next() {
		switch {
		case f.Field == 1:
			points++
		case m.kind == gauge || m.kind == summary:
		case f.Field == 2:
			temporality = f.varint()
		case f.Field == 3 && m.kind == sum:
			m.monotonic = f.varint() != 0
		}
	}
	if f.Err != nil || points == 0 {
		return f.Err
	}
	if m.kind == gauge || m.kind == summary {
		temporality = cumulative
	}
	refused := t.refused
	defer func() { t.refused = refused }()
	t.enterMetric(m, temporality)
	return each(b, "Metric.data", 1, func(b []byte) error {
		t.turn++
		if t.turn%128 == 0 && t.ctx.Err() != nil {
			return t.ctx.Err()
		}
		return t.dataPoint(m, b)
	})
}

// enterMetric gives a metric its name. It sets why all data points of the metric are
// refused.
func (t *translation) enterMetric(m *metric, temporality uint64) {
	switch {
	case t.refused != nil:
	case temporality == delta:
		t.refused = errDelta
	case temporality != cumulative:
		t.refused = fmt.Errorf("unknown aggregation temporality %d", temporality)
	}
	if t.refused != nil {
		return
	}
	_, namer := m.prometheus()
	key := metricKey{m.name, m.unit, namer}
	if m.family = t.names[key]; m.family != "" {
		return
	}
	if m.family, t.refused = t.namer.Build(otlptranslator.Metric{Name: m.name, Unit: m.unit, Type: key.kind}); t.refused != nil {
		return
	}
	if m.family == "" {
		t.refused = errNoName
		return
	}
	t.names[key] = m.family
}

// describe gives the metadata of a metric to the sink once.
func (t *translation) describe(m Metadata) error {
	if t.sink.Metadata == nil || t.known[m.Metric] {
		return nil
	}
	t.known[m.Metric] = true
	return t.sink.Metadata(m)
}

// dataPoint translates a data point. It counts one that cannot be stored.
func (t *translation) dataPoint(m *metric, b []byte) error {
	p := &t.point
	if err := p.read(m, b); err != nil {
		return err
	}
	t.result.Points++
	t.result.Exemplars += len(p.exemplars)
	t.sink.Rows.Refused, t.sink.Rows.Reason = 0, ""
	bad := t.refused
	if bad == nil {
		bad = p.check(m.kind)
	}
	if bad == nil {
		bad = t.labelPoint()
	}
	if bad == nil {
		var err error
		if bad, err = t.emit(m); err != nil {
			return err
		}
	}
	if bad != nil {
		t.result.refuse(m.name, bad.Error())
		return nil
	}
	if n := t.sink.Rows.Refused; n > 0 {
		t.result.refuse(m.name, t.sink.Rows.Reason)
		return nil
	}
	t.first, t.last = min(t.first, p.ms()), max(t.last, p.ms())
	if t.sink.Metadata == nil || t.known[m.family] {
		return nil
	}
	name, _ := m.prometheus()
	unit := otlptranslator.UnitNamer{}
	return t.describe(Metadata{Metric: m.family, Type: name, Help: m.help, Unit: unit.Build(m.unit)})
}

// labelPoint sets the labels of the data point. They lack the name of the metric.
func (t *translation) labelPoint() error {
	var err error
	if t.base, err = t.appendLabels(t.base[:0], &t.point.attributes); err != nil {
		return err
	}
	for _, l := range t.promoted {
		if _, found := find(t.base, l.Key); !found {
			t.base = set(t.base, l.Key, l.Value)
		}
	}
	t.enterOrigin()
	for _, l := range t.scope {
		t.base = set(t.base, l.Key, l.Value)
	}
	return nil
}

// enterOrigin adds the labels job and instance.
func (t *translation) enterOrigin() {
	if t.job != "" {
		t.base = set(t.base, jobLabel, t.job)
	}
	if t.instance != "" {
		t.base = set(t.base, instanceLabel, t.instance)
	}
}

// add adds a sample of a series with the labels of the data point, a name, and one
// more label if it has one.
func (t *translation) add(name string, extra model.Tag, s prom.Sample) error {
	t.samples[0] = s
	return t.addSeries(name, extra, t.samples[:], nil)
}

func (t *translation) addSeries(name string, extra model.Tag, samples []prom.Sample, histograms []prom.Histogram) error {
	t.series = append(t.series[:0], t.base...)
	if extra.Key != "" {
		t.series = set(t.series, extra.Key, extra.Value)
	}
	t.series = set(t.series, prom.NameLabel, name)
	return t.sink.Rows.Add(t.series, samples, histograms)
}

// targetInfoMetric is the metric that has the attributes of a resource as labels.
const targetInfoMetric = "target_info"

// The samples of target_info are half as far apart as PromQL looks back, or further
// apart if a resource would have more than maxTargetInfo.
const (
	targetInfoStep = 150_000 // ms
	maxTargetInfo  = 1000
)

// targetInfo adds the samples of target_info for a resource, from its first data point
// to its last.
func (t *translation) targetInfo() error {
	if t.first > t.last {
		return nil // nothing was stored
	}
	others := slices.DeleteFunc(slices.Clone(t.origin.list), func(a attribute) bool { return slices.Contains(identifying, a.key) })
	if len(others) == 0 && t.origin.bad == nil {
		return nil
	}
	if !t.opt.KeepIdentifying {
		t.origin.list = others
	}
	var bad error
	if t.base, bad = t.appendLabels(t.base[:0], &t.origin); bad != nil {
		t.result.warn(targetInfoMetric, bad.Error())
		return nil
	}
	t.enterOrigin()
	_, job := find(t.base, jobLabel)
	_, instance := find(t.base, instanceLabel)
	if !job && !instance {
		return nil
	}
	key := string(model.AppendSeriesKey(nil, targetInfoMetric, t.base))
	step := max(targetInfoStep, (t.last-t.first)/maxTargetInfo)
	t.sink.Rows.Refused, t.sink.Rows.Reason = 0, ""
	for at := t.first; ; at = min(at+step, t.last) {
		if sample := (target{key, at}); !t.targets[sample] { // the request may have had it before
			t.targets[sample] = true
			if err := t.add(targetInfoMetric, model.Tag{}, prom.Sample{Value: 1, Time: at}); err != nil {
				return err
			}
		}
		if at == t.last {
			break
		}
	}
	if t.sink.Rows.Refused > 0 {
		t.result.warn(targetInfoMetric, t.sink.Rows.Reason)
		return nil
	}
	return t.describe(Metadata{Metric: targetInfoMetric, Type: "gauge", Help: "Target metadata"})
}

// target is a sample of target_info: the key of its series and its time in ms.
type target struct {
	series string
	ms     int64
}
