package prom

import (
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tsdbd/model"
)

// Labels returns the labels of a metric with a name. Tags must be in the order of their
// keys. A tag with the name of the name, which remote write stores, is left out.
func Labels(b *labels.ScratchBuilder, name string, tags model.Tags) labels.Labels {
	b.Reset()
	named, sorted := false, true
	for _, t := range tags {
		if !named && t.Key >= NameLabel {
			b.Add(NameLabel, name)
			named = true
		}
		if t.Key != NameLabel {
			key := Text(t.Key)
			sorted = sorted && len(key) == len(t.Key)
			b.Add(key, Text(t.Value))
		}
	}
	if !named {
		b.Add(NameLabel, name)
	}
	if !sorted {
		b.Sort()
	}
	return b.Labels()
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
