package jsonline

import (
	"iter"
	"math"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"tsdbd/prom"
)

// defaultRows is how many samples a line has at most.
const defaultRows = 10_000

// Writer writes series as lines.
type Writer struct {
	write   func(line []byte) error
	quote   func(dst []byte, text string) []byte
	most    int
	line    []byte
	samples []prom.Sample
}

// NewWriter returns a Writer of lines with at most rows samples, 10,000 if rows is 0 or
// more than that. It calls write with each line, which write must not keep. quote
// appends a text as JSON.
func NewWriter(rows int, quote func(dst []byte, text string) []byte, write func(line []byte) error) *Writer {
	if rows <= 0 || rows > defaultRows {
		rows = defaultRows
	}
	return &Writer{write: write, quote: quote, most: rows}
}

// Add writes a series. It leaves out native histograms.
func (w *Writer) Add(s storage.Series) error {
	w.samples = w.samples[:0]
	it := s.Iterator(nil)
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		if kind != chunkenc.ValFloat {
			continue
		}
		t, v := it.At()
		w.samples = append(w.samples, prom.Sample{Value: v, Time: t})
		if len(w.samples) == w.most {
			if err := w.flush(s.Labels()); err != nil {
				return err
			}
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return w.flush(s.Labels())
}

// flush writes the samples as a line.
func (w *Writer) flush(of labels.Labels) error {
	if len(w.samples) == 0 {
		return nil
	}
	w.line = Append(w.line[:0], w.quote, pairs(of), w.samples)
	w.samples = w.samples[:0]
	return w.write(w.line)
}

// pairs yields the labels of a series.
func pairs(of labels.Labels) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		of.Range(func(l labels.Label) { yield(l.Name, l.Value) })
	}
}

// Append appends samples of the series with these labels as a line. quote appends a text
// as JSON.
func Append(b []byte, quote func(dst []byte, text string) []byte, labels iter.Seq2[string, string], samples []prom.Sample) []byte {
	b = append(b, `{"metric":{`...)
	first := true
	for name, value := range labels {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(quote(b, name), ':')
		b = quote(b, value)
	}
	b = append(b, `},"values":[`...)
	for i, s := range samples {
		if i > 0 {
			b = append(b, ',')
		}
		switch {
		case math.IsNaN(s.Value):
			b = append(b, "null"...)
		case math.IsInf(s.Value, 1):
			b = append(b, `"Infinity"`...)
		case math.IsInf(s.Value, -1):
			b = append(b, `"-Infinity"`...)
		default:
			b = strconv.AppendFloat(b, s.Value, 'g', -1, 64)
		}
	}
	b = append(b, `],"timestamps":[`...)
	for i, s := range samples {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, s.Time, 10)
	}
	return append(b, "]}\n"...)
}
