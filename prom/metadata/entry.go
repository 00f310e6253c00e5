package metadata

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"tsdbd/model"
	"tsdbd/model/point"
)

const (
	// Measurement has the rows of metadata. It is not a metric.
	Measurement = "__metadata__"
	// Unknown is the type of a metric that has no other.
	Unknown = "unknown"

	metricTag = "metric"
	// maxText bounds the help text and the unit.
	maxText = 64 << 10
)

// fields are the fields of a row in the order of an Entry.
var fields = []string{"type", "help", "unit"}

// Entry is what is known of a metric.
type Entry struct {
	Metric string
	Type   string // counter, gauge, histogram, gaugehistogram, summary, info, stateset or Unknown
	Help   string
	Unit   string
}

// types are the types in the order of their numbers in all versions of remote write.
var types = []string{Unknown, "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset"}

// Type returns the name of a type that remote write has numbered.
func Type(number uint64) string {
	if number >= uint64(len(types)) {
		return Unknown
	}
	return types[number]
}

// TypeNamed returns the type with a name. Other names, such as untyped, are Unknown.
func TypeNamed(name string) string {
	if slices.Contains(types, name) {
		return name
	}
	return Unknown
}

// Append adds the row of an entry at a time in nanoseconds, or returns why it cannot
// be stored.
func Append(b *point.Builder, e *Entry, at int64) error {
	if err := b.Series(Measurement, model.Tags{{Key: metricTag, Value: e.Metric}}); err != nil {
		return err
	}
	if !utf8.ValidString(e.Metric) {
		return fmt.Errorf("name of metric %q is not valid UTF-8", e.Metric)
	}
	texts := []string{e.Type, e.Help, e.Unit}
	for i, text := range texts {
		switch {
		case len(text) > maxText:
			return fmt.Errorf("%s of metric %q is longer than %d bytes", fields[i], e.Metric, maxText)
		case !utf8.ValidString(text):
			return fmt.Errorf("%s of metric %q is not valid UTF-8", fields[i], e.Metric)
		}
	}
	for i, text := range texts {
		b.String(fields[i], text)
	}
	return b.Row(at)
}
