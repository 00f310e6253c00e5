package prom

import (
	"math"

	"tsdbd/model"
	"tsdbd/model/point"
)

// Sample is a value of a series at a time. The value may have any bits: NaN, the
// stale marker among them, and infinities.
type Sample struct {
	Value       float64
	Time, Start int64 // ms since the epoch; a Start of 0 is unknown
}

// Rows turns time series into the rows of a batch.
type Rows struct {
	Builder *point.Builder
	Refused int    // samples and histograms that cannot be stored
	Reason  string // of the first

	text []byte
}

// Add adds the samples and histograms of a series. Labels come in any order. An
// error is no fault of the series.
func (p *Rows) Add(labels model.Tags, samples []Sample, histograms []Histogram) error {
	name := unnamed
	for _, l := range labels {
		if l.Key == NameLabel && l.Value != "" {
			name = l.Value
		}
	}
	if err := p.Builder.Series(name, labels); err != nil {
		p.refuse(err, len(samples)+len(histograms))
		return nil
	}
	for _, s := range samples {
		p.Builder.AnyFloat(ValueField, s.Value)
		p.row(s.Time, s.Start)
	}
	for _, h := range histograms {
		err := h.reduce()
		if err == nil {
			err = h.validate()
		}
		if err != nil {
			p.refuse(err, 1)
			continue
		}
		p.text = AppendHistogram(p.text[:0], &h)
		p.Builder.String(HistogramField, string(p.text))
		p.row(h.Time, h.Start)
	}
	return nil
}

// row ends a row at ms.
func (p *Rows) row(ms, start int64) {
	if start != 0 {
		p.Builder.Integer(StartField, start)
	}
	at := Nanoseconds(ms)
	if Milliseconds(at) != ms {
		at = math.MaxInt64 // which no row may have
	}
	if err := p.Builder.Row(at); err != nil {
		p.refuse(err, 1)
	}
}

func (p *Rows) refuse(err error, samples int) {
	if p.Reason == "" && samples > 0 {
		p.Reason = err.Error()
	}
	p.Refused += samples
}
