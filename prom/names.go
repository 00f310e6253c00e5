package prom

import (
	"iter"
	"strings"
)

const (
	// NameLabel is the label that holds the name of a metric.
	NameLabel = "__name__"
	// ValueField is the field that holds the value of a sample.
	ValueField = "value"
	// HistogramField is the string field that holds a native histogram.
	HistogramField = "__histogram__"
	// StartField is the integer field that holds the start timestamp of a sample or
	// a histogram, in milliseconds. A row without it has the start timestamp 0.
	StartField = "__start__"
	// unnamed is the measurement of a series without a name.
	unnamed = "prom_metric_not_specified"
)

// MetricName returns the name of the metric that a field of a measurement has.
// ValueField and HistogramField have the name of the measurement, other fields the
// names of both, with an underscore between them. StartField is no metric and has
// the name "". The name is UTF-8 (Text).
func MetricName(measurement, field string) string {
	switch field {
	case ValueField, HistogramField:
		return Text(measurement)
	case StartField:
		return ""
	}
	return Text(measurement + "_" + field)
}

// Splits yields each pair of a measurement and a field whose names are together metric.
// The first is the measurement that has the metric's name, with ValueField, and the
// second is the same measurement with HistogramField.
func Splits(metric string) iter.Seq2[string, string] {
	return func(yield func(measurement, field string) bool) {
		if metric == "" || !yield(metric, ValueField) || !yield(metric, HistogramField) {
			return
		}
		for at := 1; at < len(metric)-1; at++ {
			next := strings.IndexByte(metric[at:len(metric)-1], '_')
			if next < 0 {
				return
			}
			at += next
			if field := metric[at+1:]; !reserved(field) && !yield(metric[:at], field) {
				return
			}
		}
	}
}

// reserved says that a field has a meaning of its own.
func reserved(field string) bool {
	return field == ValueField || field == HistogramField || field == StartField
}
