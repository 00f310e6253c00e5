package encode

import (
	"strconv"

	"tsdbd/query"
	"tsdbd/query/result"
)

// rowsPerSpill is how many rows are rendered between looks at the buffer.
const rowsPerSpill = 512

// jsonEncoder streams the JSON of InfluxDB 1.x. The order of keys matters: Grafana's
// parser requires name, tags and columns before values.
type jsonEncoder struct {
	out     *Output
	times   timeFormat
	chunked bool

	opened    bool           // {"results":[ is out
	statement int            // the result that is open, or -1
	start     int            // offset in out.buf of the open result, -1 when it has left
	sent      int64          // out.sent when start was set
	anySeries bool           // the open result has a series
	series    *result.Series // the series whose values are still open
	messages  []result.Message
	cells     []cell
}

func newJSONEncoder(out *Output, unit int64, chunked bool) *jsonEncoder {
	return &jsonEncoder{out: out, times: timeFormat{unit: unit}, chunked: chunked, statement: -1}
}

func (e *jsonEncoder) Result(r *result.Result) error {
	if e.chunked || e.statement != r.StatementID {
		e.closeResult(false)
		e.openResult(r.StatementID)
	}
	var err error
	if r.Err != nil {
		e.failResult(r)
	} else {
		e.messages = append(e.messages, r.Messages...)
		for i := 0; i < len(r.Series) && err == nil; i++ {
			err = e.rows(r.Series[i])
		}
	}
	if stopped := err == query.ErrStopped; e.chunked && (err == nil || stopped) {
		// A document that is stopped ends here. The error follows in the next one.
		e.closeResult(r.Partial || stopped)
		e.out.buf = append(e.out.buf, "]}\n"...)
	}
	return err
}

func (e *jsonEncoder) reset() {
	e.statement, e.start, e.anySeries, e.series, e.messages = -1, -1, false, nil, e.messages[:0]
}

func (e *jsonEncoder) openResult(id int) {
	b := e.out.buf
	if e.chunked || !e.opened {
		b = append(b, `{"results":[`...)
		e.opened = true
	} else {
		b = append(b, ',')
	}
	e.reset()
	e.statement, e.start, e.sent = id, len(b), e.out.sent
	b = append(b, `{"statement_id":`...)
	e.out.buf = appendInt(b, id)
}

// failResult makes the open result an error. It removes rows of the result that
// have not been sent.
func (e *jsonEncoder) failResult(r *result.Result) {
	if e.start >= 0 && e.sent == e.out.sent {
		e.out.buf = appendInt(append(e.out.buf[:e.start], `{"statement_id":`...), e.statement)
		e.series, e.anySeries = nil, false
	}
	e.closeSeries(false)
	if e.anySeries {
		e.out.buf = append(e.out.buf, ']')
		e.anySeries = false
	}
	e.messages = append(e.messages, r.Messages...)
	e.appendMessages()
	b := append(e.out.buf, `,"error":`...)
	e.out.buf = AppendString(b, r.Err.Error())
}

// closeResult completes the open result, if there is one.
func (e *jsonEncoder) closeResult(partial bool) {
	if e.statement < 0 {
		return
	}
	e.closeSeries(false)
	if e.anySeries {
		e.out.buf = append(e.out.buf, ']')
	}
	e.appendMessages()
	if partial {
		e.out.buf = append(e.out.buf, `,"partial":true`...)
	}
	e.out.buf = append(e.out.buf, '}')
	e.statement = -1
}

func (e *jsonEncoder) appendMessages() {
	if len(e.messages) == 0 {
		return
	}
	b := append(e.out.buf, `,"messages":[`...)
	for i, m := range e.messages {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(append(b, `{"level":`...), m.Level)
		b = AppendString(append(b, `,"text":`...), m.Text)
		b = append(b, '}')
	}
	e.out.buf = append(b, ']')
	e.messages = e.messages[:0]
}

func (e *jsonEncoder) closeSeries(partial bool) {
	if e.series == nil {
		return
	}
	if e.series.Rows > 0 {
		e.out.buf = append(e.out.buf, ']')
	}
	if partial {
		e.out.buf = append(e.out.buf, `,"partial":true`...)
	}
	e.out.buf = append(e.out.buf, '}')
	e.series = nil
}

// rows renders a series, or continues the open one.
func (e *jsonEncoder) rows(s *result.Series) error {
	goesOn := e.series != nil && e.series.Partial && e.series.Rows > 0 && s.Rows > 0 && sameSeries(e.series, s)
	if !goesOn {
		e.closeSeries(false)
		e.openSeries(s)
	}
	e.series = s
	if err := e.values(s, goesOn); err != nil {
		return err
	}
	if e.chunked || !s.Partial {
		e.closeSeries(e.chunked && s.Partial)
	}
	return nil
}

func (e *jsonEncoder) openSeries(s *result.Series) {
	b := e.out.buf
	if e.anySeries {
		b = append(b, ",{"...)
	} else {
		b = append(b, `,"series":[{`...)
		e.anySeries = true
	}
	if s.Name != "" {
		b = AppendString(append(b, `"name":`...), s.Name)
		b = append(b, ',')
	}
	if len(s.Tags) > 0 {
		b = append(b, `"tags":{`...)
		for i := range s.Tags {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(AppendString(b, s.Tags[i].Key), ':')
			b = AppendString(b, s.Tags[i].Value)
		}
		b = append(b, "},"...)
	}
	b = append(b, `"columns":[`...)
	for i, c := range s.Columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(b, c)
	}
	b = append(b, ']')
	if s.Rows > 0 {
		b = append(b, `,"values":[`...)
	}
	e.out.buf = b
}

func (e *jsonEncoder) values(s *result.Series, goesOn bool) error {
	e.times.setZone(s.Zone)
	e.cells = appendCells(e.cells[:0], s)
	defer clear(e.cells) // the rows belong to the query
	if s.Rows > 0 && goesOn {
		e.out.buf = append(e.out.buf, ',')
	}
	for lo := 0; lo < s.Rows; {
		hi := min(lo+rowsPerSpill, s.Rows)
		e.out.reserve(min((hi-lo)*(2+32*len(e.cells)), 4*spillBytes))
		b, next := appendRows(e.out.buf, e.cells, &e.times, lo, hi)
		e.out.buf = b
		if next == lo {
			if err := e.long(lo); err != nil {
				return err
			}
			next++
		}
		lo = next
		ended := e.out.ended()
		if lo == s.Rows || ended {
			e.out.buf = e.out.buf[:len(e.out.buf)-1] // the comma after the last row
		}
		if ended {
			return query.ErrStopped
		}
		if err := e.out.spill(); err != nil {
			return err
		}
	}
	return nil
}

// long appends a row with long texts, at which appendRows stops. It spills the
// output inside of the row.
func (e *jsonEncoder) long(row int) error {
	e.out.buf = append(e.out.buf, '[')
	for j := range e.cells {
		if j > 0 {
			e.out.buf = append(e.out.buf, ',')
		}
		c := &e.cells[j]
		if c.kind == cellString && !c.null(row) {
			e.out.buf = append(e.out.buf, '"')
			for piece := range pieces(c.Strings[row]) {
				e.out.buf = appendJSONText(e.out.buf, piece)
				if err := e.out.spill(); err != nil {
					return err
				}
			}
			e.out.buf = append(e.out.buf, '"')
			continue
		}
		at := len(e.out.buf)
		b, _ := appendRows(e.out.buf, e.cells[j:j+1], &e.times, row, row+1)
		e.out.buf = append(b[:at], b[at+1:len(b)-2]...) // without the row's brackets and comma
	}
	e.out.buf = append(e.out.buf, ']', ',')
	return nil
}

// appendRows appends rows [lo, hi), each followed by a comma. It returns the row
// after the last one that it appended. It stops before a row with long texts, and when
// the buffer is large. NaN and infinities, which JSON cannot express, are null.
func appendRows(b []byte, cells []cell, times *timeFormat, lo, hi int) ([]byte, int) {
	enough := len(b) + 4*spillBytes
	for i := lo; i < hi; i++ {
		start := len(b)
		if start > enough {
			return b, i
		}
		b = append(b, '[')
		for j := range cells {
			if j > 0 {
				b = append(b, ',')
			}
			c := &cells[j]
			if c.null(i) {
				b = append(b, "null"...)
				continue
			}
			switch c.kind {
			case cellFloat:
				f := c.Floats[i]
				if f-f != 0 { // NaN or infinite
					b = append(b, "null"...)
					continue
				}
				b = AppendFloat(b, f)
			case cellTime:
				if times.unit == 0 {
					b = append(b, '"')
					b = times.appendRFC3339(b, c.Ints[i])
					b = append(b, '"')
				} else {
					b = times.append(b, c.Ints[i])
				}
			case cellInt:
				b = appendInt(b, c.Ints[i])
			case cellUint:
				b = appendUint(b, c.Uints[i])
			case cellString:
				text := c.Strings[i]
				if len(b)-start+len(text) > longRow {
					return b[:start], i
				}
				b = AppendString(b, text)
			case cellList:
				b = append(b, '[')
				for k, text := range c.lists[i] {
					if k > 0 {
						b = append(b, ',')
					}
					b = AppendString(b, text)
				}
				b = append(b, ']')
			case cellBool:
				b = strconv.AppendBool(b, c.Bools[i])
			}
		}
		b = append(b, ']', ',')
	}
	return b, hi
}

func (e *jsonEncoder) Truncate() { e.closeSeries(true) }

func (e *jsonEncoder) Finish() error {
	if e.chunked {
		return nil
	}
	if !e.opened {
		e.out.buf = append(e.out.buf, "{}\n"...)
		return nil
	}
	e.closeResult(false)
	e.out.buf = append(e.out.buf, "]}\n"...)
	return nil
}

func (e *jsonEncoder) Fail(err error) bool {
	if !e.out.fail(appendErrorJSON, err) {
		return false
	}
	e.reset()
	e.opened = true
	return true
}

// appendErrorJSON appends the error body of the 1.x API.
func appendErrorJSON(dst []byte, message string) []byte {
	dst = AppendString(append(dst, `{"error":`...), message)
	return append(dst, "}\n"...)
}
