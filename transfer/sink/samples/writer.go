package samples

import (
	"encoding/json"
	"io"
	"math"
	"slices"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/prom"
	"tsdbd/prom/jsonline"
	"tsdbd/prom/metadata"
)

// Bounds of the samples of a line, of those in memory, and of the text in memory.
const (
	lineSamples = 10_000
	heldSamples = 200_000
	writeBlock  = 256 << 10
)

// staleNaN are the bits of the value that says that a series has ended.
const staleNaN = 0x7ff0000000000002

// Writer is a rows.Writer of series.
type Writer struct {
	w       io.Writer
	json    bool
	metrics []metric // by field of the latest table
	ignored bool     // the table has no samples
	key     string
	tags    model.Tags
	name    string // the measurement of the series
	held    int
	skipped int64
	labels  model.Tags
	b       []byte
}

// metric is a field with the samples of the latest series that are not written.
type metric struct {
	field   column.Field
	skip    bool
	samples []prom.Sample
}

// NewLines returns a writer of VictoriaMetrics' lines.
func NewLines(w io.Writer) *Writer { return &Writer{w: w, json: true} }

// NewOpenMetrics returns a writer of OpenMetrics text.
func NewOpenMetrics(w io.Writer) *Writer { return &Writer{w: w} }

// Skipped returns the number of values that were no samples.
func (w *Writer) Skipped() int64 { return w.skipped }

// Define implements rows.Writer.
func (w *Writer) Define([]string) error { return nil }

// Table implements rows.Writer.
func (w *Writer) Table(t *rows.Table) error {
	if err := w.endSeries(); err != nil {
		return err
	}
	w.metrics, w.ignored = w.metrics[:0], t.Measurement == metadata.Measurement
	for _, f := range t.Fields {
		skip := f.Type == model.String || f.Key == prom.StartField || f.Key == prom.HistogramField
		w.metrics = append(w.metrics, metric{field: f, skip: skip})
	}
	return nil
}

// Run implements rows.Writer.
func (w *Writer) Run(r *rows.Run) error {
	if w.ignored {
		return nil
	}
	if r.Key != w.key {
		if err := w.endSeries(); err != nil {
			return err
		}
		w.key = r.Key
		w.name, w.tags = model.ParseSeriesKey(r.Key, w.tags[:0])
	}
	for i := range w.metrics {
		m, v := &w.metrics[i], &r.Cols[i]
		for row, at := range r.Times {
			if !v.IsValid(row) {
				continue
			}
			if m.skip {
				if m.field.Key != prom.StartField {
					w.skipped++
				}
				continue
			}
			if err := w.add(m, prom.Sample{Time: prom.Milliseconds(at), Value: prom.Number(v, row)}); err != nil {
				return err
			}
		}
	}
	return nil
}

// add holds a sample. The latest one of a metric is held until the next, which may replace
// it.
func (w *Writer) add(m *metric, s prom.Sample) error {
	if n := len(m.samples); n > 0 && m.samples[n-1].Time == s.Time {
		m.samples[n-1] = s
		return nil
	}
	if len(m.samples) >= lineSamples {
		if err := w.write(m, len(m.samples)); err != nil {
			return err
		}
	}
	for i := 0; i < len(w.metrics) && w.held >= heldSamples; i++ {
		if err := w.write(&w.metrics[i], max(0, len(w.metrics[i].samples)-1)); err != nil {
			return err
		}
	}
	m.samples = append(m.samples, s)
	w.held++
	return nil
}

// endSeries writes what is held.
func (w *Writer) endSeries() error {
	for i := range w.metrics {
		if err := w.write(&w.metrics[i], len(w.metrics[i].samples)); err != nil {
			return err
		}
	}
	w.key = ""
	return nil
}

// write writes the first n samples of a metric.
func (w *Writer) write(m *metric, n int) error {
	if n == 0 {
		return nil
	}
	now := m.samples[:n]
	of := append(w.labels[:0], model.Tag{Key: prom.NameLabel, Value: prom.MetricName(w.name, m.field.Key)})
	for _, t := range w.tags {
		if t.Key != prom.NameLabel { // remote write stores it
			of = append(of, model.Tag{Key: prom.Text(t.Key), Value: prom.Text(t.Value)})
		}
	}
	of.Sort()
	w.labels = of
	if w.json {
		// VictoriaMetrics 1.79 refuses a line with a value that is no number.
		numbers := slices.DeleteFunc(slices.Clone(now), isSpecial)
		w.appendLine(of, numbers)
		if len(numbers) < n {
			w.appendLine(of, slices.DeleteFunc(slices.Clone(now), func(s prom.Sample) bool { return !isSpecial(s) }))
		}
	} else {
		w.appendText(of, now)
	}
	w.held -= n
	m.samples = slices.Delete(m.samples, 0, n)
	if len(w.b) < writeBlock {
		return nil
	}
	return w.flush()
}

// isSpecial reports that JSON has no number for the value of a sample.
func isSpecial(s prom.Sample) bool { return s.Value-s.Value != 0 }

// appendLine appends samples as a line of VictoriaMetrics, if there are any.
func (w *Writer) appendLine(of model.Tags, samples []prom.Sample) {
	if len(samples) == 0 {
		return
	}
	w.b = jsonline.Append(w.b, appendJSON, func(yield func(string, string) bool) {
		for _, l := range of {
			if !yield(l.Key, l.Value) {
				return
			}
		}
	}, samples)
}

// appendText appends samples as lines of OpenMetrics.
func (w *Writer) appendText(of model.Tags, samples []prom.Sample) {
	series := appendSeries(nil, of)
	for _, s := range samples {
		if math.Float64bits(s.Value) == staleNaN {
			w.skipped++
			continue
		}
		w.b = append(append(w.b, series...), ' ')
		w.b = appendFloat(w.b, s.Value)
		w.b = append(w.b, ' ')
		w.b = append(appendSeconds(w.b, s.Time), '\n')
	}
}

func (w *Writer) flush() error {
	_, err := w.w.Write(w.b)
	w.b = w.b[:0]
	return err
}

// Close implements rows.Writer.
func (w *Writer) Close() error {
	if err := w.endSeries(); err != nil {
		return err
	}
	if !w.json {
		w.b = append(w.b, "# EOF\n"...)
	}
	return w.flush()
}

// Abort implements rows.Writer. OpenMetrics has no end then.
func (w *Writer) Abort() {}

// appendJSON appends a text as JSON.
func appendJSON(b []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // a string is always JSON
	return append(b, quoted...)
}

// appendFloat appends a number as OpenMetrics has it.
func appendFloat(b []byte, f float64) []byte {
	if math.IsNaN(f) {
		return append(b, "NaN"...)
	}
	return appendNumber(b, f)
}
