package remote

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model"
	"tsdbd/model/point"
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
	of      numbers
	written Written
	series  int // number of the present one, for errors

	message []byte            // of the present series
	known   bool              // the builder knows the series: labels are not read
	spelled bool              // print is the fingerprint of the labels
	print   point.Fingerprint // see fingerprint
	text    []byte            // for fingerprint

	labels     labelReader
	samples    []prom.Sample
	histograms []prom.Histogram
	exemplar   labelReader
	last       struct { // the latest metadata of 2.0; the series of a metric follow each other
		metric string
		refs   metadataRefs
	}
}

// numbers are the fields of a TimeSeries message of one version.
type numbers struct{ samples, histograms, exemplars protowire.Number }

// newWriter returns a writer. symbols are nil for version 1.0.
func newWriter(rows *prom.Rows, of numbers, symbols *symbols) *writer {
	return &writer{
		rows: rows, of: of,
		labels:   labelReader{symbols: symbols, most: maxLabels},
		exemplar: labelReader{symbols: symbols, most: maxExemplarLabels},
	}
}

// timeSeries reads a TimeSeries message.
func (w *writer) timeSeries(b []byte) error {
	w.series++
	second := w.labels.symbols != nil
	var about *metadataRefs
	var start int64
	var first []byte // from the first sample or histogram on
	end := 0         // of the labels at the beginning; behind b: there are others
	r := proto.Read(b)
	for at := b; r.Next(); at = r.Rest {
		var err error
		switch {
		case r.Field == 1:
			if len(b)-len(at) == end {
				end = len(b) - len(r.Rest)
			} else {
				end = len(b) + 1
			}
		case second && r.Field == 5 && r.Data != nil:
			if about == nil {
				about = new(metadataRefs)
			}
			err = about.read(r.Data)
		case second && r.Field == 6: // of senders before the version was final
			start = int64(r.Num)
		case first == nil:
			first = at
		}
		if err != nil {
			return err
		}
	}
	if r.Err != nil {
		return r.Err
	}
	refused, err := w.identify(b, end)
	if err != nil {
		return err
	}
	if second && refused == nil {
		metric := w.metric()
		if metric == "" {
			refused = errors.New("there is no label " + prom.NameLabel)
		} else if about != nil {
			if err := w.describe(metric, *about); err != nil {
				return err
			}
		}
	}
	return w.add(first, start, refused)
}

// identify makes the series of a message the present one, and returns why it cannot be stored.
// The labels are the members up to end, unless end is behind the message. Their bytes tell a
// series that came before.
func (w *writer) identify(message []byte, end int) (refused, err error) {
	w.message, w.known, w.spelled = message, false, false
	if end <= len(message) {
		w.spelled = w.fingerprint(message[:end])
		if w.known = w.spelled && w.rows.Builder.Known(w.print); w.known {
			return nil, nil
		}
	}
	return w.readLabels()
}

// fingerprint sets the fingerprint of labels. In version 2.0 it is that of the fingerprints of
// their symbols, as their numbers differ from request to request. It returns false if labels
// cannot be read.
func (w *writer) fingerprint(labels []byte) bool {
	if w.labels.symbols != nil {
		var ok bool
		if w.text, ok = w.labels.symbols.appendPrints(w.text[:0], labels, w.rows.Builder); !ok {
			return false
		}
		labels = w.text
	}
	w.print = w.rows.Builder.Fingerprint(labels)
	return true
}

// readLabels reads the labels of the present series, and returns why it cannot be stored.
func (w *writer) readLabels() (refused, err error) {
	w.labels.reset()
	for r := proto.Read(w.message); r.Next(); {
		if r.Field != 1 {
			continue
		}
		if err := w.labels.read(&r.Member); err != nil {
			return nil, err
		}
	}
	return w.labels.end(), nil
}

// metric returns the metric of the present series, or "".
func (w *writer) metric() string {
	if w.known {
		return w.rows.Builder.Measurement()
	}
	return w.labels.metric()
}

// add adds the samples, histograms and exemplars in the rest of a series with w.labels. A start that is not 0 is that of samples and
// histograms that have none. A refused series counts what it has.
func (w *writer) add(rest []byte, start int64, refused error) error {
	r := proto.Read(rest)
	for r.Next() {
		var err error
		switch {
		case r.Data == nil:
		case r.Field == w.of.samples:
			var s prom.Sample
			if s, err = parseSample(r.Data); err != nil {
				return err
			}
			if s.Start == 0 {
				s.Start = start
			}
			if w.samples = append(w.samples, s); len(w.samples) == blockSamples {
				err = w.addSamples(refused)
			}
		case r.Field == w.of.histograms:
			var h prom.Histogram
			if h, err = parseHistogram(r.Data); err != nil {
				return err
			}
			if h.Start == 0 {
				h.Start = start
			}
			if w.histograms = append(w.histograms, h); len(w.histograms) == blockHistograms {
				err = w.addHistograms(refused)
			}
		case r.Field == w.of.exemplars:
			err = w.addExemplar(r.Data, refused)
		}
		if err != nil {
			return err
		}
	}
	if r.Err != nil {
		return r.Err
	}
	if err := w.addSamples(refused); err != nil {
		return err
	}
	return w.addHistograms(refused)
}

// addExemplar reads an Exemplar message.
func (w *writer) addExemplar(b []byte, refused error) error {
	w.written.Exemplars++
	w.exemplar.reset()
	if w.known { // not to an exemplar, which takes the labels
		w.known = false
		if _, err := w.readLabels(); err != nil {
			return err
		}
	}
	var value float64
	var ms int64
	var bad error
	r := proto.Read(b)
	for r.Next() {
		switch {
		case r.Field == 1 && bad == nil:
			bad = w.exemplar.read(&r.Member)
		case r.Field == 2:
			value = math.Float64frombits(r.Num)
		case r.Field == 3:
			ms = int64(r.Num)
		}
	}
	if bad == nil {
		bad = w.exemplar.end()
	}
	switch {
	case r.Err != nil || refused != nil || errors.Is(bad, errLabels): // it is too long
		return r.Err
	case bad != nil:
		w.blame(fmt.Errorf("exemplar: %w", bad))
		return nil
	}
	_, err := w.rows.Exemplar(w.labels.tags, w.exemplar.tags, ms, value)
	return err
}

// maxExemplarLabels is more labels than an exemplar may have.
const maxExemplarLabels = 256

// addSamples puts the decoded samples into the batch.
func (w *writer) addSamples(refused error) error {
	n, err := w.put(w.samples, nil, refused)
	w.written.Samples += n
	w.samples = w.samples[:0]
	return err
}

// addHistograms puts the decoded histograms into the batch.
func (w *writer) addHistograms(refused error) error {
	n, err := w.put(nil, w.histograms, refused)
	w.written.Histograms += n
	clear(w.histograms)
	w.histograms = w.histograms[:0]
	return err
}

// put returns how many rows it has put into the batch.
func (w *writer) put(samples []prom.Sample, histograms []prom.Histogram, refused error) (rows int, err error) {
	n := len(samples) + len(histograms)
	switch {
	case n == 0:
		return 0, nil
	case refused != nil:
		w.rows.Refused += n
		w.blame(refused)
		return 0, nil
	}
	before := w.rows.Refused
	switch {
	case w.known:
		err = w.rows.AddKnown(samples, histograms)
	case w.spelled:
		err = w.rows.AddAs(w.print, w.labels.tags, samples, histograms)
	default:
		err = w.rows.Add(w.labels.tags, samples, histograms)
	}
	return n - (w.rows.Refused - before), err
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
	w := newWriter(rows, numbers{samples: 2, exemplars: 3, histograms: 4}, nil)
	r := proto.Read(b)
	for r.Next() {
		var err error
		switch {
		case r.Data == nil:
		case r.Field == 1:
			err = w.timeSeries(r.Data)
		case r.Field == 3:
			err = w.metricMetadata(r.Data)
		case w.series == 0 && (r.Field == 4 || r.Field == 5):
			err = errors.New("the message is one of remote write 2.0, but its Content-Type is that of 1.0")
		}
		if err != nil {
			return Written{}, err
		}
	}
	return w.written, r.Err
}

// metricMetadata reads a MetricMetadata message.
func (w *writer) metricMetadata(b []byte) error {
	e := metadata.Entry{Type: metadata.Unknown}
	r := proto.Read(b)
	for r.Next() {
		switch r.Field {
		case 1:
			e.Type = metadata.Type(r.Num)
		case 2:
			e.Metric = proto.Text(r.Data)
		case 4:
			e.Help = proto.Text(r.Data)
		case 5:
			e.Unit = proto.Text(r.Data)
		}
	}
	if r.Err == nil {
		w.entry(e)
	}
	return r.Err
}

// entry keeps metadata, unless it says nothing or there is too much of it.
func (w *writer) entry(e metadata.Entry) {
	if e.Metric != "" && len(w.written.Metadata) < maxEntries {
		w.written.Metadata = append(w.written.Metadata, e)
	}
}
