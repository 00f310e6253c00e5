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
	// Hidden says which samples of the present series were deleted. nil: none.
	Hidden func(ms int64) bool
}

// Rows turns the chunks of one series after the other into runs. All series have the same three fields;
// most rows have one of them. It belongs to one goroutine.
type Rows struct {
	opt  Options
	tags model.Tags
	name string // of the present series, for reports
	text []byte
	run  rows.Run

	open     func(i int) (chunkenc.Chunk, error)
	at, left int // the present chunk, and how many follow it

	it   chunkenc.Iterator  // of the present chunk; nil: there is none
	kind chunkenc.ValueType // of the sample that it is at
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

// Series begins a series of n chunks, which open returns. If the series cannot be stored,
// its samples are refused.
func (r *Rows) Series(set labels.Labels, n int, open func(i int) (chunkenc.Chunk, error)) {
	r.name, r.open, r.at, r.left, r.it = set.String(), open, -1, n, nil
	reason := r.key(set)
	if reason == "" {
		return
	}
	samples := 0
	for i := range n {
		samples += r.count(i)
	}
	r.opt.Refused(r.name, samples, reason)
	r.End()
}

// End leaves the rest of the series.
func (r *Rows) End() { r.left, r.it = 0, nil }

// count returns the samples of a chunk, 0 if it cannot be read.
func (r *Rows) count(i int) (n int) {
	var damage error
	defer Guard(&damage)()
	if c, err := r.open(i); err == nil {
		n = c.NumSamples()
	}
	return n
}

// key sets the key of the series. It returns why the series cannot be stored.
func (r *Rows) key(set labels.Labels) (refused string) {
	r.tags = r.tags[:0]
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

// At returns the number of the chunk that Next was at.
func (r *Rows) At() int { return r.at }

// Next returns the next rows of the series, which are valid until the next call, and nil
// at its end. An error is that of a chunk; the rows before it are good, and Next goes on
// with the chunk behind it.
func (r *Rows) Next() (run *rows.Run, err error) {
	for r.it != nil || r.left > 0 {
		r.reset()
		if r.it == nil {
			err = r.begin()
		}
		more := false
		if err == nil {
			more, err = r.fill()
		}
		if !more {
			r.it = nil
		}
		if r.run.Len() > 0 {
			return &r.run, err
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// begin begins the next chunk.
func (r *Rows) begin() (err error) {
	defer Guard(&err)()
	r.at++
	r.left--
	c, err := r.open(r.at)
	if err != nil {
		return err
	}
	it := c.Iterator(nil)
	r.kind = it.Next()
	r.it = it
	return nil
}

func (r *Rows) fill() (more bool, err error) {
	defer Guard(&err)()
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
		case !r.opt.Range.Contains(at) || r.opt.Hidden != nil && r.opt.Hidden(t):
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
