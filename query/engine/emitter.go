package engine

import (
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/engine/plan"
	"tsdbd/query/engine/read"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
	"tsdbd/query/result"
)

// emitter turns the frames of the outermost level into Results.
type emitter struct {
	*read.Budget
	level   *plan.Level
	chunk   int
	emit    func(*result.Result) error
	columns []string
	zone    string
	pending *result.Result
	held    int64 // bytes that pending is accounted for
	text    int64 // part of held: bytes of strings
}

// hold accounts for rows of f that are added to pending, and for more bytes.
func (o *emitter) hold(f *frame, lo, hi int, more int64) error {
	bytes, text := rowset.Bytes(f.cols, lo, hi)
	o.text += text
	o.held += bytes + text + more
	return o.Keep(bytes + text + more)
}

// send emits pending, and gives back what it is accounted for.
func (o *emitter) send() error {
	if err := o.emit(o.pending); err != nil {
		return err
	}
	o.pending = nil
	o.Kept.Add(-o.held)
	o.held, o.text = 0, 0
	return nil
}

func (o *emitter) frame(f *frame) error {
	n := len(f.times)
	if n == 0 {
		return nil
	}
	if o.chunk <= 0 {
		if o.pending == nil {
			o.pending = &result.Result{}
		}
		before := len(o.pending.Series)
		o.add(o.pending, f, 0, n)
		series := int64(0)
		if len(o.pending.Series) > before {
			series = 128 + 32*int64(len(o.level.Dims)) + 128*int64(len(o.columns))
		}
		return o.hold(f, 0, n, series)
	}
	// A chunk ends at chunk rows, at chunkText, or with the series. The last one
	// is held back until it is known whether more follow.
	for lo := 0; lo < n; {
		if p := o.pending; p != nil {
			s := p.Series[0]
			if same := o.sameSeries(s, f); !same || s.Rows >= o.chunk || o.text >= chunkText {
				if err := o.Check(); err != nil {
					return err
				}
				p.Partial = true
				s.Partial = same
				if err := o.send(); err != nil {
					return err
				}
			}
		}
		if o.pending == nil {
			o.pending = &result.Result{}
		}
		room := o.chunk
		if len(o.pending.Series) > 0 {
			room -= o.pending.Series[0].Rows
		}
		hi, text := f.texts(lo, min(n, lo+room), o.text)
		o.add(o.pending, f, lo, hi)
		if err := o.hold(f, lo, hi, 0); err != nil {
			return err
		}
		if lo = hi; lo < n && text > 0 {
			o.text = max(o.text, chunkText) // full, however few its rows
		}
	}
	return nil
}

func (o *emitter) sameSeries(s *result.Series, f *frame) bool {
	if s.Name != f.name {
		return false
	}
	for i, k := range o.level.Dims {
		if s.Tags[i].Key != k || s.Tags[i].Value != f.tuple[i] {
			return false
		}
	}
	return true
}

func (o *emitter) add(r *result.Result, f *frame, lo, hi int) {
	var s *result.Series
	if n := len(r.Series); n > 0 && o.sameSeries(r.Series[n-1], f) {
		s = r.Series[n-1]
	} else {
		s = &result.Series{Name: f.name, Columns: o.columns, Zone: o.zone}
		whole := lo == 0 && hi == len(f.times) && len(f.values) == len(o.columns)
		if s.Values = f.values; !whole {
			s.Values = make([]column.Vector, len(o.columns))
		}
		for i, k := range o.level.Dims {
			s.Tags = append(s.Tags, model.Tag{Key: k, Value: f.tuple[i]})
		}
		s.Values[0].Type = model.Integer
		r.Series = append(r.Series, s)
	}
	if s.Rows == 0 && lo == 0 && hi == len(f.times) {
		s.Values[0].Ints = f.times
		copy(s.Values[1:], f.cols)
		s.Rows = hi
		return
	}
	s.Values[0].Ints = append(s.Values[0].Ints[:s.Rows:s.Rows], f.times[lo:hi]...)
	for i := range f.cols {
		expr.Extend(&s.Values[i+1], s.Rows, &f.cols[i], lo, hi)
	}
	s.Rows += hi - lo
}

func (o *emitter) flush() error {
	if o.pending == nil {
		return nil
	}
	return o.send()
}
