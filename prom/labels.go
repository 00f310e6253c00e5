package prom

import (
	"iter"
	"math"
	"time"

	"tsdbd/model"
	"tsdbd/model/point"
)

const (
	// NameLabel is the label that holds the name of a metric.
	NameLabel = "__name__"
	// ValueField is the field that holds the value of a sample.
	ValueField = "value"
	// unnamed is the measurement of a series without a name.
	unnamed = "prom_metric_not_specified"
)

// Labels yields the labels of a series in the order of their names. Tags must be
// in the order of their keys.
func Labels(measurement string, tags model.Tags) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		named := false
		for _, t := range tags {
			if !named && t.Key >= NameLabel {
				named = true
				if (t.Key != NameLabel || t.Value == "") && !yield(NameLabel, measurement) { // written by line protocol
					return
				}
			}
			if t.Value != "" && !yield(t.Key, t.Value) {
				return
			}
		}
		if !named {
			yield(NameLabel, measurement)
		}
	}
}

// Milliseconds returns the time of a sample of a row at ns.
func Milliseconds(ns int64) int64 {
	return time.Unix(0, ns).UnixMilli()
}

// Nanoseconds returns the time of the row of a sample at ms, or the legal time
// next to it.
func Nanoseconds(ms int64) int64 {
	const unit = int64(time.Millisecond)
	return max(min(ms, model.MaxTime/unit), model.MinTime/unit) * unit
}

// Sample is a value of a series at a time.
type Sample struct {
	Value float64
	Time  int64 // ms since the epoch
}

// Rows turns time series into the rows of a batch.
type Rows struct {
	Builder *point.Builder
	Refused int    // samples that cannot be stored
	Reason  string // of the first
}

// Add adds the samples of a series. It leaves out values that are not a number
// or infinite, staleness markers among them. Labels come in any order.
func (p *Rows) Add(labels model.Tags, samples []Sample) error {
	name := unnamed
	for _, l := range labels {
		if l.Key == NameLabel && l.Value != "" {
			name = l.Value
		}
	}
	if err := p.Builder.Series(name, labels); err != nil {
		p.refuse(err, len(samples))
		return nil
	}
	for _, s := range samples {
		if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			continue
		}
		at := Nanoseconds(s.Time)
		if Milliseconds(at) != s.Time {
			at = math.MaxInt64 // which no row may have
		}
		p.Builder.Float(ValueField, s.Value)
		if err := p.Builder.Row(at); err != nil {
			p.refuse(err, 1)
		}
	}
	return nil
}

func (p *Rows) refuse(err error, samples int) {
	if p.Reason == "" && samples > 0 {
		p.Reason = err.Error()
	}
	p.Refused += samples
}
