// Package chunk turns the chunks in which Prometheus keeps samples into rows, in the
// mapping of package prom.
package chunk

import (
	"fmt"
	"runtime/debug"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/prom"
)

// Options say which samples become rows, and what is called for the others.
type Options struct {
	Range model.TimeRange // of the rows, in nanoseconds
	// Refused is called with a series and how many of its samples cannot be stored.
	Refused func(series string, samples int, reason string)
}

// Rows turns one chunk after the other into runs. All series have the same three fields;
// most rows have one of them. It belongs to one goroutine.
type Rows struct {
	opt  Options
	tags model.Tags
	name string // of the present series, for reports
	text []byte
	run  rows.Run

	it     chunkenc.Iterator  // of the present chunk; nil: there is none
	kind   chunkenc.ValueType // of the sample that it is at
	hidden func(ms int64) bool
}

const (
	histogramColumn = iota
	startColumn
	valueColumn
)

// New returns Rows without a series.
func New(opt Options) *Rows {
	fields := []column.Field{
		{Key: prom.HistogramField, Type: model.String},
		{Key: prom.StartField, Type: model.Integer},
		{Key: prom.ValueField, Type: model.Float},
	}
	r := &Rows{opt: opt}
	r.run.Fields, r.run.Cols = fields, make([]column.Vector, len(fields))
	for i, f := range fields {
		r.run.Cols[i] = column.Vector{Type: f.Type, Valid: column.NewBitmap(rows.MaxRows)}
	}
	return r
}

// Series begins a series. It returns why the series cannot be stored, "" if it can.
func (r *Rows) Series(set labels.Labels) (refused string) {
	r.tags, r.name, r.it = r.tags[:0], set.String(), nil
	set.Range(func(l labels.Label) {
		if l.Value != "" {
			r.tags = append(r.tags, model.Tag{Key: l.Name, Value: l.Value})
		}
	})
	measurement := prom.Measurement(r.tags)
	r.text = model.AppendSeriesKey(r.text[:0], measurement, r.tags)
	if reason := model.Unstorable(measurement, r.tags); reason != "" {
		return reason
	}
	if len(r.text) > model.MaxKeyLength {
		return fmt.Sprintf("the key of the series has %d bytes, more than %d", len(r.text), model.MaxKeyLength)
	}
	r.run.Key = string(r.text)
	return ""
}

// Name returns the labels of the present series.
func (r *Rows) Name() string { return r.name }

// Chunk begins a chunk of the present series. hidden says which of its samples were
// deleted; nil: none.
func (r *Rows) Chunk(c chunkenc.Chunk, hidden func(ms int64) bool) (err error) {
	defer Guard(&err)()
	r.it, r.hidden = nil, hidden
	it := c.Iterator(nil)
	r.kind = it.Next()
	r.it = it
	return nil
}

// Next returns the next rows of the chunk, which are valid until the next call, and
// whether there may be more. An error is that of the chunk; the rows before it are good.
func (r *Rows) Next() (run *rows.Run, more bool, err error) {
	r.reset()
	more, err = r.fill()
	if !more || err != nil {
		r.it, more = nil, false
	}
	if r.run.Len() > 0 {
		run = &r.run
	}
	return run, more, err
}

func (r *Rows) fill() (more bool, err error) {
	defer Guard(&err)()
	if r.it == nil {
		return false, nil
	}
	for ; r.run.Len() < rows.MaxRows; r.kind = r.it.Next() {
		if r.kind == chunkenc.ValNone {
			return false, r.it.Err()
		}
		t := r.it.AtT()
		at := prom.Nanoseconds(t)
		if n := r.run.Len(); n > 0 && at <= r.run.Times[n-1] {
			return false, fmt.Errorf("the sample at %d ms is not behind the one before", t)
		}
		switch {
		case !r.opt.Range.Contains(at) || r.hidden != nil && r.hidden(t):
		case prom.Milliseconds(at) != t:
			r.opt.Refused(r.name, 1, fmt.Sprintf("time of %d ms is out of range", t))
		case r.kind == chunkenc.ValFloat:
			_, v := r.it.At()
			r.append(at, v, "")
		default:
			text, err := r.histogram()
			if err != nil {
				r.opt.Refused(r.name, 1, err.Error())
				continue
			}
			r.append(at, 0, text)
		}
	}
	return true, nil
}

// Guard makes errors of the panics of Prometheus' decoders, which trust lengths, and of
// faults of mapped files that were cut. Call what it returns at the end.
func Guard(err *error) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			*err = fmt.Errorf("damaged: %v", p)
		}
	}
}

func (r *Rows) histogram() (string, error) {
	var h prom.Histogram
	if r.kind == chunkenc.ValHistogram {
		_, h.Int = r.it.AtHistogram(nil)
	} else {
		_, h.Float = r.it.AtFloatHistogram(nil)
	}
	text, err := prom.StoredHistogram(r.text[:0], &h)
	r.text = text
	return string(text), err
}

// reset empties the run.
func (r *Rows) reset() {
	r.run.Times = r.run.Times[:0]
	for i := range r.run.Cols {
		v := &r.run.Cols[i]
		v.Strings, v.Ints, v.Floats = v.Strings[:0], v.Ints[:0], v.Floats[:0]
		clear(v.Valid)
	}
}

// append adds a row with a histogram or, if its text is empty, a value.
func (r *Rows) append(at int64, value float64, histogram string) {
	i := len(r.run.Times)
	start := r.it.AtST()
	r.run.Times = append(r.run.Times, at)
	c := r.run.Cols
	c[histogramColumn].Strings = append(c[histogramColumn].Strings, histogram)
	c[startColumn].Ints = append(c[startColumn].Ints, start)
	c[valueColumn].Floats = append(c[valueColumn].Floats, value)
	if histogram != "" {
		c[histogramColumn].Valid.Set(i)
	} else {
		c[valueColumn].Valid.Set(i)
	}
	if start != 0 {
		c[startColumn].Valid.Set(i)
	}
}
