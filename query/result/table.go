package result

import (
	"fmt"
	"math"
	"time"

	"tsdbd/model"
	"tsdbd/model/column"
)

// NewTable returns a table without rows.
func NewTable(name string, columns ...string) *Series {
	return &Series{Name: name, Columns: columns, Time: -1, Values: make([]column.Vector, len(columns))}
}

// AddRow appends a row. The values of a column are all of one Go type, which gives the
// column its type.
func (s *Series) AddRow(values ...any) {
	for i, value := range values {
		v := &s.Values[i]
		switch value := value.(type) {
		case string:
			v.Type, v.Strings = model.String, append(v.Strings, value)
		case int64:
			v.Type, v.Ints = model.Integer, append(v.Ints, value)
		case int:
			v.Type, v.Ints = model.Integer, append(v.Ints, int64(value))
		case uint64:
			v.Type, v.Uints = model.Unsigned, append(v.Uints, value)
		case float64:
			v.Type, v.Floats = model.Float, append(v.Floats, value)
		case bool:
			v.Type, v.Bools = model.Boolean, append(v.Bools, value)
		default:
			panic(fmt.Sprintf("a %T in a table", value))
		}
	}
	s.Rows++
}

// ValueTable returns a table of one row.
func ValueTable(name string, columns []string, values []any) *Series {
	s := NewTable(name, columns...)
	s.AddRow(values...)
	return s
}

// WrittenTable returns the answer of a statement that writes: counts at the time 0.
func WrittenTable(columns []string, counts ...any) *Series {
	s := ValueTable("result", append([]string{"time"}, columns...), append([]any{int64(0)}, counts...))
	s.Time = 0
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
