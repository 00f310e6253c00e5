package encode

import (
	"errors"
	"math"
	"slices"

	"tsdbd/lineproto/wire"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/result"
)

// A StatementError is the error of a statement as that of the whole answer, in formats that
// have no place for it.
type StatementError struct{ Err error }

// Error returns the error of the statement.
func (e *StatementError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the statement.
func (e *StatementError) Unwrap() error { return e.Err }

// errNoLine says that rows have no form in line protocol.
var errNoLine = errors.New("line protocol needs rows with a measurement and a time")

// lineEncoder renders line protocol: a line for each row, with the types of the values and
// times in nanoseconds. The tags are those of the series. A column that has the name of a
// tag is the tag once more, and left out.
type lineEncoder struct {
	out      *Output
	series   []byte // as it begins a line
	columns  []*column.Vector
	prefixes []string
}

// Result adds rows. The error of a statement is that of the answer.
func (e *lineEncoder) Result(r *result.Result) error {
	if r.Err != nil {
		return &StatementError{r.Err}
	}
	for _, s := range r.Series {
		if s.Time < 0 || s.Name == "" {
			return &StatementError{errNoLine}
		}
		if err := e.rows(s); err != nil {
			return err
		}
	}
	return nil
}

func (e *lineEncoder) rows(s *result.Series) error {
	var tags model.Tags
	for _, tag := range s.Tags {
		if tag.Value != "" {
			tags = append(tags, tag)
		}
	}
	e.series = wire.AppendSeries(e.series[:0], string(model.AppendSeriesKey(nil, s.Name, tags)))
	e.columns, e.prefixes = e.columns[:0], e.prefixes[:0]
	defer clear(e.columns)
	for i, name := range s.Columns {
		isTag := slices.ContainsFunc(s.Tags, func(tag model.Tag) bool { return tag.Key == name })
		if v := &s.Values[i]; i != s.Time && v.Type != model.Unknown && v.Len() > 0 && !isTag {
			e.columns, e.prefixes = append(e.columns, v), append(e.prefixes, wire.FieldPrefix(name))
		}
	}
	times := s.Values[s.Time].Ints
	return e.out.eachRow(s.Rows, func(i int) error {
		e.row(i, times[i])
		return e.out.spill()
	})
}

// row appends the line of a row, or nothing if the row has no value.
func (e *lineEncoder) row(i int, at int64) {
	b, separator := append(e.out.buf, e.series...), byte(' ')
	for k, v := range e.columns {
		if !v.IsValid(i) || v.Type == model.Float && math.IsNaN(v.Floats[i]) {
			continue
		}
		b = wire.AppendValue(append(append(b, separator), e.prefixes[k]...), v, i)
		separator = ','
	}
	if separator == ',' {
		e.out.buf = wire.AppendTime(b, at)
	}
}

// Truncate does nothing: the format has no partial series.
func (e *lineEncoder) Truncate() {}

// Finish does nothing: the last line is complete.
func (e *lineEncoder) Finish() error { return nil }

// Fail returns false: the error is the status of the answer, or breaks the connection.
func (e *lineEncoder) Fail(error) bool { return false }
