package result

import (
	"fmt"
	"math"
	"time"

	"tsdbd/model"
	"tsdbd/model/column"
)

// NewTable returns a table without rows. types are the columns' types.
func NewTable(name string, types []model.FieldType, columns ...string) *Series {
	s := &Series{Name: name, Columns: columns, Time: -1, Values: make([]column.Vector, len(columns))}
	for i := range s.Values {
		s.Values[i].Type = types[i]
	}
	return s
}

// StringTable returns a table of strings without rows.
func StringTable(name string, columns ...string) *Series {
	types := make([]model.FieldType, len(columns))
	for i := range types {
		types[i] = model.String
	}
	return NewTable(name, types, columns...)
}

// AddRow appends a row; the values have the Go types of the columns.
func (s *Series) AddRow(values ...any) {
	for i, value := range values {
		v := &s.Values[i]
		switch value := value.(type) {
		case string:
			v.Strings = append(v.Strings, value)
		case int64:
			v.Ints = append(v.Ints, value)
		case int:
			v.Ints = append(v.Ints, int64(value))
		case uint64:
			v.Uints = append(v.Uints, value)
		case float64:
			v.Floats = append(v.Floats, value)
		case bool:
			v.Bools = append(v.Bools, value)
		default:
			panic(fmt.Sprintf("a %T in a table", value))
		}
	}
	s.Rows++
}

// ValueTable returns a table of one row.
func ValueTable(name string, columns []string, values []any) *Series {
	types := make([]model.FieldType, len(values))
	for i, value := range values {
		switch value.(type) {
		case string:
			types[i] = model.String
		case int64, int:
			types[i] = model.Integer
		case uint64:
			types[i] = model.Unsigned
		case float64:
			types[i] = model.Float
		case bool:
			types[i] = model.Boolean
		}
	}
	s := NewTable(name, types, columns...)
	s.AddRow(values...)
	return s
}

// RowWindow returns what LIMIT and OFFSET leave of n rows; limit 0 is no limit.
func RowWindow(n, limit, offset int) (lo, hi int) {
	lo = min(max(offset, 0), n)
	hi = n
	if limit > 0 {
		hi = min(n, AddLimits(lo, limit))
	}
	return lo, hi
}

// AddLimits adds limits or offsets, each of which may be the largest integer.
func AddLimits(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// FormatTime returns a time, in nanoseconds since the epoch, as a text with seconds.
func FormatTime(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339) }
