package prom

import (
	"fmt"
	"math"
	"unicode/utf8"

	"tsdbd/model"
	"tsdbd/model/point"
)

// Sample is a value of a series at a time. The value may have any bits: NaN, the
// stale marker among them, and infinities.
type Sample struct {
	Value       float64
	Time, Start int64 // ms since the epoch; a Start of 0 is unknown
}

// NoTime is the Time of a sample that gets that of the node which stores it, if the
// Untimed of the batch allows it.
const NoTime = math.MinInt64

// Rows turns time series into the rows of a batch.
type Rows struct {
	Builder *point.Builder
	Refused int    // samples and histograms that cannot be stored
	Reason  string // of the first
	// Charge takes memory for rows. nil: the caller knows that they take no more than
	// the request. An error of Charge ends the translation of the request.
	Charge func(bytes int) error
	// Exemplars are those of the request.
	Exemplars []model.Exemplar
	// Credit is how many bytes of rows need no charge.
	Credit int

	text []byte
	key  string // of the series of the latest exemplar
}

const (
	// rowBytes is about what a row takes in addition to the key of its series.
	rowBytes = 64
	// chargeBytes is the least that Rows charges at a time.
	chargeBytes = 64 << 10
)

// Measurement returns the measurement of a series with these labels.
func Measurement(labels model.Tags) string {
	for _, l := range labels {
		if l.Key == NameLabel && l.Value != "" {
			return l.Value
		}
	}
	return unnamed
}

// Pay charges memory that the caller takes for a part of the request.
func (p *Rows) Pay(bytes int) error {
	if p.Credit -= bytes; p.Credit >= 0 || p.Charge == nil {
		return nil
	}
	n := max(-p.Credit, chargeBytes)
	p.Credit += n
	return p.Charge(n)
}

// Add adds the samples and histograms of a series. Labels come in any order; a sender should
// keep it, as a series is known by its labels in their order. Add returns only errors of Charge.
func (p *Rows) Add(labels model.Tags, samples []Sample, histograms []Histogram) error {
	var f point.Fingerprint
	size := 0
	for _, l := range labels {
		size += len(l.Key) + len(l.Value)
	}
	if size <= model.MaxKeyLength { // else no key has room for them, nor is their memory paid for
		if f = p.Builder.FingerprintOf("", labels); p.Builder.Known(f) {
			return p.AddKnown(samples, histograms)
		}
	}
	return p.AddAs(f, labels, samples, histograms)
}

// AddAs is Add for a series that is not known. From now on it is, by the fingerprint.
func (p *Rows) AddAs(f point.Fingerprint, labels model.Tags, samples []Sample, histograms []Histogram) error {
	size, invalid := 0, ""
	for _, l := range labels {
		size += len(l.Key) + len(l.Value) + 2
		if !utf8.ValidString(l.Key) || !utf8.ValidString(l.Value) {
			invalid = l.Key
		}
	}
	if err := p.Pay(size); err != nil {
		return err
	}
	if invalid != "" { // the store would take it; the protocols have texts only
		p.refuse(fmt.Errorf("label %q is not valid UTF-8", invalid), len(samples)+len(histograms))
		return nil
	}
	if err := p.Builder.Series(Measurement(labels), labels); err != nil {
		p.refuse(err, len(samples)+len(histograms))
		return nil
	}
	before := p.Refused
	err := p.AddKnown(samples, histograms)
	if err == nil && p.Refused-before < len(samples)+len(histograms) {
		p.Builder.Spell(f)
	}
	return err
}

// AddKnown is Add for the present series of Builder.
func (p *Rows) AddKnown(samples []Sample, histograms []Histogram) error {
	if err := p.Pay(rowBytes * (len(samples) + len(histograms))); err != nil {
		return err
	}
	for _, s := range samples {
		p.Builder.AnyFloat(ValueField, s.Value)
		p.row(s.Time, s.Start)
	}
	for _, h := range histograms {
		text, err := StoredHistogram(p.text[:0], &h)
		if err != nil {
			p.refuse(err, 1)
			continue
		}
		p.text = text
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
	switch {
	case ms == NoTime:
		at = point.NoTime
	case Milliseconds(at) != ms:
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
