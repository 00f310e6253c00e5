package encode

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"tsdbd/model"
	"tsdbd/query/result"
)

// csvEncoder renders comma-separated values. Each statement and each change of
// columns has a header. Times are integers, unless the unit is 0. As in InfluxDB, errors and messages of
// single statements are not part of the format.
type csvEncoder struct {
	out       *Output
	times     timeFormat
	statement int
	columns   []string // of the header in force, nil before the first
	cells     []cell
	row       []byte // "name,tags" of the series
}

func newCSVEncoder(out *Output, unit int64) *csvEncoder {
	return &csvEncoder{out: out, times: timeFormat{unit: unit}, statement: -1}
}

func (e *csvEncoder) Result(r *result.Result) error {
	for _, s := range r.Series {
		if r.StatementID != e.statement || !slices.Equal(e.columns, s.Columns) {
			e.header(s.Columns)
			e.statement = r.StatementID
		}
		if err := e.rows(s); err != nil {
			return err
		}
	}
	return nil
}

// Truncate does nothing: the format has no partial series.
func (e *csvEncoder) Truncate() {}

func (e *csvEncoder) header(columns []string) {
	b := e.out.buf
	if e.columns != nil {
		b = append(b, '\n')
	}
	b = append(b, "name,tags"...)
	for _, c := range columns {
		b = appendCSVString(append(b, ','), c)
	}
	e.out.buf = append(b, '\n')
	e.columns = columns
}

func (e *csvEncoder) rows(s *result.Series) error {
	e.row = appendCSVString(e.row[:0], s.Name)
	e.row = append(e.row, ',')
	e.row = appendCSVString(e.row, csvTags(s.Tags))
	e.cells = appendCells(e.cells[:0], s)
	e.times.setZone(s.Zone)
	defer clear(e.cells)
	return e.out.eachRow(s.Rows, e.appendRow)
}

// csvTags returns the text of the tags column: the tags that have a value, with
// nothing escaped.
func csvTags(tags model.Tags) string {
	var b strings.Builder
	for _, tag := range tags {
		if tag.Value == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(tag.Key)
		b.WriteByte('=')
		b.WriteString(tag.Value)
	}
	return b.String()
}

// appendRow appends a row. It spills the output, also inside of a row.
func (e *csvEncoder) appendRow(i int) error {
	b := append(e.out.buf, e.row...)
	for j := range e.cells {
		c := &e.cells[j]
		b = append(b, ',')
		if c.null(i) {
			continue
		}
		switch c.kind {
		case cellTime:
			b = e.times.append(b, c.Ints[i])
		case cellFloat:
			if !math.IsNaN(c.Floats[i]) {
				b = strconv.AppendFloat(b, c.Floats[i], 'f', -1, 64)
			}
		case cellInt:
			b = appendInt(b, c.Ints[i])
		case cellUint:
			b = appendUint(b, c.Uints[i])
		case cellString:
			text := c.Strings[i]
			if len(text) <= longText {
				b = appendCSVString(b, text)
				break
			}
			quoted := csvNeedsQuotes(text)
			if quoted {
				b = append(b, '"')
			}
			for piece := range pieces(text) {
				if quoted {
					b = appendCSVText(b, piece)
				} else {
					b = append(b, piece...)
				}
				e.out.buf = b
				if err := e.out.spill(); err != nil {
					return err
				}
				b = e.out.buf
			}
			if quoted {
				b = append(b, '"')
			}
		case cellList:
			b = appendCSVString(b, strings.Join(c.lists[i], ","))
		case cellBool:
			b = strconv.AppendBool(b, c.Bools[i])
		}
		if len(b) >= 4*spillBytes {
			e.out.buf = b
			if err := e.out.spill(); err != nil {
				return err
			}
			b = e.out.buf
		}
	}
	e.out.buf = append(b, '\n')
	return e.out.spill()
}

func (e *csvEncoder) Finish() error { return nil }

func (e *csvEncoder) Fail(err error) bool { return e.out.fail(appendErrorCSV, err) }

func appendErrorCSV(dst []byte, message string) []byte {
	dst = appendCSVString(append(dst, "error\n"...), message)
	return append(dst, '\n')
}

// appendCSVString appends a cell by the rules of encoding/csv: quoted when it
// holds a comma, a quote or a line break, or begins with white space.
func appendCSVString(dst []byte, s string) []byte {
	if !csvNeedsQuotes(s) {
		return append(dst, s...)
	}
	return append(appendCSVText(append(dst, '"'), s), '"')
}

// appendCSVText appends the text of a quoted cell, its quotes doubled.
func appendCSVText(dst []byte, s string) []byte {
	for {
		i := strings.IndexByte(s, '"')
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		dst = append(dst, '"', '"')
		s = s[i+1:]
	}
}

func csvNeedsQuotes(s string) bool {
	if s == "" {
		return false
	}
	if s == `\.` || strings.ContainsAny(s, ",\"\r\n") {
		return true
	}
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsSpace(r)
}
