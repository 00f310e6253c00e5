package encode

import (
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/result"
)

// Format says how an answer is rendered.
type Format struct {
	Media   string // a result of Negotiate
	Unit    int64  // nanoseconds per unit of times; 0: RFC 3339, as far as the format has it
	Chunked bool   // JSON: each result is a document
	Pretty  bool   // JSON: indented
	Texts   bool   // CSV: times are RFC 3339 if Unit is 0
}

// FormatOf returns the format that a request asks for by its Accept headers and parameters.
func FormatOf(accept []string, chunked, pretty bool) Format {
	f := Format{Media: Negotiate(accept), Chunked: chunked, Pretty: pretty}
	if chunked && f.Media == MediaMsgpack {
		// Its clients read one document, and python3-influxdb, which always asks
		// for it, reads chunks as lines of JSON.
		f.Media = MediaJSON
	}
	return f
}

func (f Format) isCSV() bool { return f.Media == MediaCSV || f.Media == mediaTextCSV }

// HasMessages reports whether the format has a place for messages of single statements.
func (f Format) HasMessages() bool {
	return !f.isCSV() && f.Media != MediaLine
}

// ErrorMedia returns the media type of Error.
func (f Format) ErrorMedia() string {
	if f.Media == MediaLine {
		return MediaJSON
	}
	return f.Media
}

// New returns the encoder of a format, which renders into out.
func New(out *Output, f Format) Encoder {
	switch {
	case f.isCSV() && f.Texts:
		return newCSVEncoder(out, f.Unit)
	case f.isCSV():
		return newCSVEncoder(out, max(f.Unit, 1)) // InfluxDB has no texts
	case f.Media == MediaMsgpack:
		return newMsgpackEncoder(out, f.Unit)
	case f.Media == MediaLine:
		return &lineEncoder{out: out}
	}
	if f.Pretty {
		out.indent = new(indenter)
	}
	return newJSONEncoder(out, f.Unit, f.Chunked)
}

// Error returns an error as a whole answer.
func Error(f Format, message string) []byte {
	switch {
	case f.isCSV():
		return appendErrorCSV(nil, message)
	case f.Media == MediaMsgpack:
		return appendErrorMsgpack(nil, message)
	}
	body := appendErrorJSON(nil, message)
	if f.Pretty {
		body = new(indenter).append(nil, body)
	}
	return body
}

// Encoder renders results into an output. Results come in the order of their
// statements; the parts of one statement follow each other.
type Encoder interface {
	// Result adds a result. In a chunked answer each result is a document.
	Result(r *result.Result) error
	// Truncate marks the last series, which has more rows, as partial.
	Truncate()
	// Finish completes the answer.
	Finish() error
	// Fail replaces the answer by an error. It returns false if a part of the answer
	// has been sent.
	Fail(err error) bool
}

// cellKind says how a column is rendered.
type cellKind uint8

const (
	cellNull cellKind = iota
	cellTime
	cellFloat
	cellInt
	cellUint
	cellString
	cellBool
	cellList
)

var cellKinds = [...]cellKind{
	model.Unknown: cellNull, model.Float: cellFloat, model.Integer: cellInt,
	model.Unsigned: cellUint, model.String: cellString, model.Boolean: cellBool,
}

// cell is a column prepared for rendering.
type cell struct {
	column.Vector
	kind  cellKind
	lists [][]string
}

// appendCells prepares the columns of s.
func appendCells(dst []cell, s *result.Series) []cell {
	for i, v := range s.Values {
		c := cell{Vector: v, kind: cellKinds[v.Type]}
		if i == s.Time && c.kind == cellInt {
			c.kind = cellTime
		}
		if list, ok := s.Lists[i]; ok {
			c = cell{kind: cellList, lists: list}
		}
		dst = append(dst, c)
	}
	return dst
}

// null reports whether row i has no value.
func (c *cell) null(i int) bool {
	return c.kind == cellNull || !c.IsValid(i)
}

// sameSeries reports whether b continues a.
func sameSeries(a, b *result.Series) bool {
	return a.Name == b.Name && slices.Equal(a.Tags, b.Tags) && slices.Equal(a.Columns, b.Columns)
}
