// Package csv writes exported rows as annotated CSV of InfluxDB 2.x. A reader of package
// source/csv returns the same points, bit for bit, and the databases that they belong to: the
// texts of values, and the comments that name databases, are those that it reads.
package csv

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/model/column"
)

// statementComment stands before the statements that make databases.
const statementComment = "# TSDBD STATEMENT: "

// timeLayout has a fixed width, so that readers find one format for all times.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// writeBlock is the size at which a Writer writes.
const writeBlock = 256 << 10

// canonicalNaN is the NaN that the text NaN stands for.
const canonicalNaN = 0x7ff8000000000001

// Writer is a rows.Writer of annotated CSV. Each measurement of a retention policy is one
// table with all its tags and fields. A field that changes its type from shard to shard
// begins another table.
type Writer struct {
	w                io.Writer
	bare             bool
	database, policy string
	table            *rows.Table
	columns          []column.Field // of the table
	b                []byte
	places           []int // of the columns in the runs of the latest table, -1: none
	key              string
	series           []byte // the cells of measurement and tags
}

// NewWriter returns a Writer to w. A bare one writes no comments that name databases.
func NewWriter(w io.Writer, bare bool) *Writer { return &Writer{w: w, bare: bare} }

// Define implements rows.Writer.
func (w *Writer) Define(statements []string) error {
	if !w.bare {
		for _, s := range statements {
			w.b = append(append(append(w.b, statementComment...), s...), '\n')
		}
	}
	return nil
}

// Table implements rows.Writer.
func (w *Writer) Table(t *rows.Table) error {
	columns, places := t.Columns()
	w.places, w.key = places, ""
	moved := t.Database != w.database || t.Policy != w.policy
	if !moved && w.table != nil && w.table.Measurement == t.Measurement && slices.Equal(columns, w.columns) {
		return nil
	}
	if moved && !w.bare {
		header, err := rows.Header(t.Database, t.Policy)
		if err != nil {
			return err
		}
		w.b = append(w.b, header...)
	}
	w.database, w.policy, w.columns = t.Database, t.Policy, columns
	w.table = &rows.Table{Measurement: t.Measurement, AllTagKeys: slices.Clone(t.AllTagKeys)}
	w.b = append(w.b, "#datatype measurement"...)
	for range t.AllTagKeys {
		w.b = append(w.b, ",tag"...)
	}
	w.b = append(w.b, ",dateTime:RFC3339Nano"...)
	for _, f := range columns {
		w.b = append(append(w.b, ','), typeNames[f.Type]...)
	}
	w.b = append(w.b, "\nmeasurement"...)
	for _, key := range t.AllTagKeys {
		w.b = appendCell(append(w.b, ','), key)
	}
	w.b = append(w.b, ",time"...)
	for _, f := range columns {
		w.b = appendCell(append(w.b, ','), f.Key)
	}
	w.b = append(w.b, '\n')
	return nil
}

// typeNames are the types of fields in annotations.
var typeNames = map[model.FieldType]string{
	model.Float: "double", model.Integer: "long", model.Unsigned: "unsignedLong", model.Boolean: "boolean", model.String: "string",
}

// Run implements rows.Writer.
func (w *Writer) Run(r *rows.Run) error {
	if r.Key != w.key {
		w.key = r.Key
		measurement, tags := model.ParseSeriesKey(r.Key, nil)
		w.series = appendCell(w.series[:0], measurement)
		for _, key := range w.table.AllTagKeys {
			w.series = append(w.series, ',')
			for len(tags) > 0 && tags[0].Key < key {
				tags = tags[1:]
			}
			if len(tags) > 0 && tags[0].Key == key {
				w.series = appendCell(w.series, tags[0].Value)
			}
		}
		w.series = append(w.series, ',')
	}
	for row, at := range r.Times {
		w.b = append(w.b, w.series...)
		w.b = time.Unix(0, at).UTC().AppendFormat(w.b, timeLayout)
		for _, place := range w.places {
			w.b = append(w.b, ',')
			if place >= 0 && r.Cols[place].IsValid(row) {
				w.b = appendField(w.b, &r.Cols[place], row)
			}
		}
		w.b = append(w.b, '\n')
		if len(w.b) >= writeBlock {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Writer) flush() error {
	_, err := w.w.Write(w.b)
	w.b = w.b[:0]
	return err
}

// Close implements rows.Writer.
func (w *Writer) Close() error { return w.flush() }

// Abort implements rows.Writer.
func (w *Writer) Abort() {}

// appendField appends the cell of a value.
func appendField(b []byte, v *column.Vector, row int) []byte {
	switch v.Type {
	case model.Integer:
		return strconv.AppendInt(b, v.Ints[row], 10)
	case model.Unsigned:
		return strconv.AppendUint(b, v.Uints[row], 10)
	case model.Boolean:
		return strconv.AppendBool(b, v.Bools[row])
	case model.String:
		if v.Strings[row] == "" {
			return append(b, `""`...)
		}
		return appendCell(b, v.Strings[row])
	}
	f := v.Floats[row]
	if bits := math.Float64bits(f); math.IsNaN(f) && bits != canonicalNaN {
		return fmt.Appendf(b, "0x%016x", bits)
	}
	return strconv.AppendFloat(b, f, 'g', -1, 64) // also NaN, +Inf and -Inf
}

// appendCell appends a text, in quotes if it contains what a reader of CSV may change or
// take for something else: separators, quotes, comments, white space at its ends.
func appendCell(b []byte, s string) []byte {
	if !strings.ContainsAny(s, ",;\t\"\r\n#") && strings.TrimSpace(s) == s {
		return append(b, s...)
	}
	b = append(b, '"')
	for {
		head, tail, found := strings.Cut(s, `"`)
		b = append(b, head...)
		if !found {
			return append(b, '"')
		}
		b = append(b, `""`...)
		s = tail
	}
}
