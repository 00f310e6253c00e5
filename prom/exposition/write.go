package exposition

import (
	"math"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"tsdbd/prom"
)

// Writer writes samples as Prometheus does for its federation: without types, with
// times, and with a label "instance", which is empty if the series has none, so that the
// one who scrapes does not add its own. Only Escaping may be set.
type Writer struct {
	// Escaping is what becomes of names with other characters than letters, digits,
	// underscores and colons.
	Escaping model.EscapingScheme
	family   family
}

// family is what the samples below one comment have in common.
type family struct {
	name             string
	histogram, gauge bool
}

// Append appends a sample. Those of a metric should follow each other. A histogram, which
// must have buckets of its own, becomes a classic one. Samples without a name are left out.
func (w *Writer) Append(b []byte, s *promql.Sample) []byte {
	h := s.H
	of := family{s.Metric.Get(prom.NameLabel), h != nil, h != nil && h.CounterResetHint == histogram.GaugeType}
	if of.name == "" {
		return b
	}
	name := w.escape(of.name)
	if of != w.family {
		w.family = of
		b = appendName(append(b, "# TYPE "...), name)
		if h != nil {
			b = append(b, " histogram\n"...)
		} else {
			b = append(b, " untyped\n"...)
		}
	}
	if h == nil {
		return w.sample(b, name, s, "", s.F)
	}
	buckets := h.PositiveBucketIterator()
	more := buckets.Next()
	count := 0.0 // of the buckets up to le
	for i, le := range h.CustomValues {
		for ; more && int(buckets.At().Index) <= i; more = buckets.Next() {
			count += buckets.At().Count
		}
		b = w.sample(b, name+"_bucket", s, string(appendFloat(nil, le)), count)
	}
	b = w.sample(b, name+"_bucket", s, "+Inf", h.Count)
	b = w.sample(b, name+"_sum", s, "", h.Sum)
	return w.sample(b, name+"_count", s, "", h.Count)
}

// sample appends a line. le is the value of a further label, unless it is "".
func (w *Writer) sample(b []byte, name string, s *promql.Sample, le string, value float64) []byte {
	open := byte('{')
	if !model.LegacyValidation.IsValidMetricName(name) {
		b, open = append(b, '{'), ','
	}
	b = appendName(b, name)
	label := func(name, value string) {
		b = appendName(append(b, open), w.escape(name))
		b = append(appendEscaped(append(b, `="`...), value), '"')
		open = ','
	}
	instance := false
	s.Metric.Range(func(l labels.Label) {
		if l.Name != prom.NameLabel && l.Value != "" {
			label(l.Name, l.Value)
			instance = instance || l.Name == model.InstanceLabel
		}
	})
	if !instance {
		label(model.InstanceLabel, "")
	}
	if le != "" {
		label(model.BucketLabel, le)
	}
	b = appendFloat(append(b, "} "...), value)
	return append(strconv.AppendInt(append(b, ' '), s.T, 10), '\n')
}

// escape returns a name as it is written.
func (w *Writer) escape(name string) string {
	if model.LegacyValidation.IsValidMetricName(name) {
		return name
	}
	return model.EscapeName(name, w.Escaping)
}

// appendName appends a name, in quotes if it needs them.
func appendName(b []byte, name string) []byte {
	if model.LegacyValidation.IsValidMetricName(name) {
		return append(b, name...)
	}
	return append(appendEscaped(append(b, '"'), name), '"')
}

var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func appendEscaped(b []byte, text string) []byte { return append(b, escapes.Replace(text)...) }

// appendFloat appends a value.
func appendFloat(b []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(b, "+Inf"...)
	case v == 0: // also -0
		return append(b, '0')
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}
