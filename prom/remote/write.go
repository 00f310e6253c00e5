package remote

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/metadata"
	"tsdbd/prom/proto"
)

const (
	// maxLabels bounds the labels of a series. The key of a series that can be stored
	// has room for fewer.
	maxLabels = model.MaxKeyLength / 4
	// maxEntries bounds the metadata that is read of a request. A sender repeats it.
	maxEntries = 1 << 16
	// blockSamples and blockHistograms bound what of a series is decoded at a time.
	blockSamples    = 1024
	blockHistograms = 16
)

// Written is what a write request has put into a batch. Its texts are parts of the
// message.
type Written struct {
	Samples, Histograms int // rows of the batch
	Exemplars           int // that the request has; those that can be stored are in Exemplars of rows
	Metadata            []metadata.Entry
}

// writer reads a write request of any version.
type writer struct {
	rows    *prom.Rows
	written Written
	series  int // number of the present one, for errors

	labels     model.Tags
	samples    []prom.Sample
	histograms []prom.Histogram
	exemplar   model.Tags // labels of an exemplar
	// label appends what the field 1 of an exemplar has to labels.
	label func(labels model.Tags, m *proto.Member) (model.Tags, error)
}

// errLabels refuses a series.
var errLabels = fmt.Errorf("more than %d labels", maxLabels)

// numbers are the fields of a TimeSeries message of one version.
type numbers struct{ samples, histograms, exemplars protowire.Number }

// add adds the samples and histograms of a series with w.labels. rest is the message
// from its first sample or histogram on. A start that is not 0 is that of samples and
// histograms that have none. A refused series counts what it has.
func (w *writer) add(rest proto.Message, of numbers, start int64, refused error) error {
	var m proto.Member
	for {
		more, err := rest.Next(&m)
		if err != nil {
			return err
		}
		switch {
		case !more:
			if err := w.addSamples(refused); err != nil {
				return err
			}
			return w.addHistograms(refused)
		case m.Data == nil:
		case m.Field == of.samples:
			s, err := parseSample(m.Data)
			if err != nil {
				return err
			}
			if s.Start == 0 {
				s.Start = start
			}
			if w.samples = append(w.samples, s); len(w.samples) == blockSamples {
				if err := w.addSamples(refused); err != nil {
					return err
				}
			}
		case m.Field == of.histograms:
			h, err := parseHistogram(m.Data)
			if err != nil {
				return err
			}
			if h.Start == 0 {
				h.Start = start
			}
			if w.histograms = append(w.histograms, h); len(w.histograms) == blockHistograms {
				if err := w.addHistograms(refused); err != nil {
					return err
				}
			}
		case m.Field == of.exemplars:
			if err := w.addExemplar(m.Data, refused); err != nil {
				return err
			}
		}
	}
}

// addExemplar reads an Exemplar message of any version.
func (w *writer) addExemplar(b proto.Message, refused error) error {
	w.written.Exemplars++
	w.exemplar = w.exemplar[:0]
	var value float64
	var ms int64
	var bad error
	var m proto.Member
	for {
		more, err := b.Next(&m)
		switch {
		case err != nil:
			return err
		case !more:
			if refused != nil {
				return nil
			}
			if bad == nil {
				_, err = w.rows.Exemplar(w.labels, w.exemplar, ms, value)
				return err
			}
			w.blame(bad)
			return nil
		case m.Field == 1 && bad == nil && len(w.exemplar) < maxExemplarLabels:
			w.exemplar, bad = w.label(w.exemplar, &m)
		case m.Field == 2:
			value = math.Float64frombits(m.Num)
		case m.Field == 3:
			ms = int64(m.Num)
		}
	}
}

// maxExemplarLabels is more labels than an exemplar may have, so that it is refused.
const maxExemplarLabels = 256

// addSamples puts the decoded samples into the batch.
func (w *writer) addSamples(refused error) error {
	n := len(w.samples)
	if n == 0 {
		return nil
	}
	before := w.rows.Refused
	if err := w.put(w.samples, nil, refused); err != nil {
		return err
	}
	w.written.Samples += n - (w.rows.Refused - before)
	w.samples = w.samples[:0]
	return nil
}

// addHistograms puts the decoded histograms into the batch.
func (w *writer) addHistograms(refused error) error {
	n := len(w.histograms)
	if n == 0 {
		return nil
	}
	before := w.rows.Refused
	if err := w.put(nil, w.histograms, refused); err != nil {
		return err
	}
	w.written.Histograms += n - (w.rows.Refused - before)
	clear(w.histograms)
	w.histograms = w.histograms[:0]
	return nil
}

func (w *writer) put(samples []prom.Sample, histograms []prom.Histogram, refused error) error {
	if refused == nil {
		return w.rows.Add(w.labels, samples, histograms)
	}
	w.rows.Refused += len(samples) + len(histograms)
	w.blame(refused)
	return nil
}

// blame keeps the first reason why a part of the request is not stored.
func (w *writer) blame(err error) {
	if w.rows.Reason == "" {
		w.rows.Reason = fmt.Sprintf("series %d: %v", w.series, err)
	}
}

// Write reads a WriteRequest of remote write 1.0 into rows. An error refuses the
// request. What of a good request cannot be stored is in Refused and Reason of rows.
func Write(b []byte, rows *prom.Rows) (Written, error) {
	w := writer{rows: rows}
	w.label = func(labels model.Tags, m *proto.Member) (model.Tags, error) { return appendLabel(labels, m.Data) }
	rest := proto.Message(b)
	var m proto.Member
	for {
		more, err := rest.Next(&m)
		switch {
		case err != nil:
			return Written{}, err
		case !more:
			return w.written, nil
		case m.Data == nil:
		case m.Field == 1:
			w.series++
			err = w.timeSeries(m.Data)
		case m.Field == 3:
			err = w.metricMetadata(m.Data)
		case w.series == 0 && (m.Field == 4 || m.Field == 5):
			err = errors.New("the message is one of remote write 2.0, but its Content-Type is that of 1.0")
		}
		if err != nil {
			return Written{}, err
		}
	}
}

// timeSeries reads a TimeSeries message of version 1.0.
func (w *writer) timeSeries(b proto.Message) error {
	w.labels = w.labels[:0]
	var refused error
	var m proto.Member
	first := proto.Message(nil)
	for rest := b; ; {
		at := rest
		more, err := rest.Next(&m)
		if err != nil {
			return err
		}
		switch {
		case !more:
			return w.add(first, numbers{samples: 2, exemplars: 3, histograms: 4}, 0, refused)
		case m.Field != 1:
			if first == nil {
				first = at
			}
		case m.Data == nil:
		case len(w.labels) == maxLabels:
			refused = errLabels
		default:
			if w.labels, err = appendLabel(w.labels, m.Data); err != nil {
				return err
			}
		}
	}
}

// metricMetadata reads a MetricMetadata message.
func (w *writer) metricMetadata(b proto.Message) error {
	e := metadata.Entry{Type: metadata.Unknown}
	var m proto.Member
	for {
		more, err := b.Next(&m)
		if err != nil {
			return err
		}
		switch {
		case !more:
			w.entry(e)
			return nil
		case m.Field == 1:
			e.Type = metadata.Type(m.Num)
		case m.Field == 2:
			e.Metric = proto.Text(m.Data)
		case m.Field == 4:
			e.Help = proto.Text(m.Data)
		case m.Field == 5:
			e.Unit = proto.Text(m.Data)
		}
	}
}

// entry keeps metadata, unless it says nothing or there is too much of it.
func (w *writer) entry(e metadata.Entry) {
	if e.Metric != "" && len(w.written.Metadata) < maxEntries {
		w.written.Metadata = append(w.written.Metadata, e)
	}
}
