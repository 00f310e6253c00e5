package prom

import (
	"iter"
	"time"

	"tsdbd/model"
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
