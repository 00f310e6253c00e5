package encode

import (
	"errors"
	"fmt"
	"strings"

	"tsdbd/internal/parquet"
	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query"
	"tsdbd/query/result"
)

// ErrStatements says that a format has one table, and the query several statements.
var ErrStatements = errors.New("an answer in Parquet is one table: send one statement")

// A StatementError is the error of a statement as that of the whole answer, in formats that
// have no place for it.
type StatementError struct{ Err error }

// Error returns the error of the statement.
func (e *StatementError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the statement.
func (e *StatementError) Unwrap() error { return e.Err }

// The bounds of a row group of an answer, and of the rows that are encoded between two
// looks at the memory.
const (
	groupRows  = 128 << 10
	groupBytes = 8 << 20
	sliceRows  = 1024
	sliceBytes = 256 << 10
)

// parquetEncoder renders an answer as one table of Parquet. All series are in it: the
// columns are "name", the tags of GROUP BY, and the columns of all series, with NULL where
// a series lacks one. Times have nanoseconds. The footer has the types, so that a column
// may appear, or get its type, late.
type parquetEncoder struct {
	out     *Output
	w       *parquet.Writer
	columns map[source]int
	names   map[string]bool
	used    []bool // by column: the series has it
}

// source is what a column of the table has.
type source struct {
	role role
	name string
	nth  int             // of the columns of a series with one name
	kind model.FieldType // of values
}

type role uint8

const (
	nameRole role = iota
	tagRole
	timeRole
	valueRole
)

func newParquetEncoder(out *Output) *parquetEncoder {
	e := &parquetEncoder{out: out, columns: map[source]int{}, names: map[string]bool{}}
	e.w = parquet.NewWriter(answer{out}, parquet.Options{GroupRows: groupRows, GroupBytes: groupBytes, Charge: func(bytes int64) error {
		return out.Wait(func() error { return out.opt.Account.SetAnswer(bytes) })
	}})
	return e
}

// answer writes to an Output in pieces.
type answer struct{ out *Output }

func (a answer) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), spillBytes)
		a.out.buf = append(a.out.buf, rest[:n]...)
		rest = rest[n:]
		if err := a.out.spill(); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// Result adds rows. The error of a statement is that of the answer.
func (e *parquetEncoder) Result(r *result.Result) error {
	if r.Err != nil {
		return &StatementError{r.Err}
	}
	for _, s := range r.Series {
		if err := e.rows(s); err != nil {
			return err
		}
	}
	return nil
}

// column returns the number of the column of a source, which it adds to the table under its
// name. The suffix tells it from another column of that name.
func (e *parquetEncoder) column(of source, suffix string) int {
	i, ok := e.columns[of]
	if !ok {
		name := of.name
		for e.names[name] {
			name += "_" + suffix
		}
		e.names[name] = true
		i = e.w.AddColumn(parquet.Column{Name: name, Type: of.kind, Time: of.role == timeRole})
		e.columns[of] = i
		e.used = append(e.used, false)
	}
	e.used[i] = true
	return i
}

// value returns the number of the column for the values of a series, whose type may not be
// known yet. nth tells columns of one name apart.
func (e *parquetEncoder) value(name string, nth int, kind model.FieldType) int {
	untyped := source{role: valueRole, name: name, nth: nth}
	if kind == model.Unknown { // no value: any column will do
		for t := model.Unknown; t <= model.Boolean; t++ {
			if of := (source{valueRole, name, nth, t}); e.columns[of] > 0 {
				return e.column(of, "")
			}
		}
		return e.column(untyped, "value")
	}
	typed := untyped
	typed.kind = kind
	if i, ok := e.columns[untyped]; ok {
		if _, ok := e.columns[typed]; !ok {
			delete(e.columns, untyped)
			e.columns[typed] = i
			e.w.SetType(i, kind)
		}
	}
	return e.column(typed, kind.String())
}

// rows adds the rows of a series.
func (e *parquetEncoder) rows(s *result.Series) error {
	if len(e.columns) == 0 {
		e.begin(s)
	}
	clear(e.used)
	name := e.column(source{role: nameRole, name: "name", kind: model.String}, "measurement")
	tags := make([]int, len(s.Tags))
	for i, t := range s.Tags {
		tags[i] = e.column(source{role: tagRole, name: t.Key, kind: model.String}, "tag")
	}
	values := make([]int, len(s.Columns))
	count := make(map[string]int, len(s.Columns))
	for i, c := range s.Columns {
		nth := count[c]
		count[c]++
		switch kind := s.Values[i].Type; {
		case i == s.Time:
			values[i] = e.column(source{role: timeRole, name: c, kind: model.Integer}, "time")
		case s.Lists[i] != nil:
			values[i] = e.value(c, nth, model.String)
		default:
			values[i] = e.value(c, nth, kind)
		}
	}
	for lo := 0; lo < s.Rows; {
		if e.out.ended() {
			return query.ErrStopped
		}
		n := sliceOf(s, lo)
		e.w.Text(name, s.Name, n)
		for i, t := range s.Tags {
			if t.Value == "" {
				e.w.Nulls(tags[i], n)
			} else {
				e.w.Text(tags[i], t.Value, n)
			}
		}
		for i := range s.Columns {
			v := column.Vector{}
			if list := s.Lists[i]; list != nil {
				v.Type = model.String
				for _, texts := range list[lo : lo+n] {
					v.Strings = append(v.Strings, strings.Join(texts, ","))
				}
			} else if s.Values[i].Len() > 0 { // a column of nulls has no values
				v = s.Values[i].Slice(lo, lo+n)
			}
			if v.Type == model.Unknown || v.Len() == 0 {
				e.w.Nulls(values[i], n)
			} else {
				dropNaN(&v)
				e.w.Vector(values[i], &v, n)
			}
		}
		for i, used := range e.used {
			if !used {
				e.w.Nulls(i, n)
			}
		}
		if err := e.w.Rows(n); err != nil {
			return err
		}
		lo += n
	}
	return nil
}

// dropNaN makes NaN, which is no value in InfluxQL, null. It does not change the values
// that v shares.
func dropNaN(v *column.Vector) {
	if !vector.HasNaN(v.Floats) {
		return
	}
	valid := column.NewBitmap(len(v.Floats))
	for i, f := range v.Floats {
		if v.IsValid(i) && f == f {
			valid.Set(i)
		}
	}
	v.Valid = valid
}

// begin adds the columns that come first, and keeps the names of the columns of the first
// series for them.
func (e *parquetEncoder) begin(s *result.Series) {
	for _, c := range s.Columns {
		e.names[c] = true
	}
	e.columns = map[source]int{}
	e.column(source{role: nameRole, name: "name", kind: model.String}, "measurement")
	for _, t := range s.Tags {
		e.column(source{role: tagRole, name: t.Key, kind: model.String}, "tag")
	}
	for _, c := range s.Columns {
		delete(e.names, c)
	}
}

// sliceOf returns how many rows from lo on are encoded at once.
func sliceOf(s *result.Series, lo int) int {
	most, bytes := min(s.Rows-lo, sliceRows), 0
	for n := range most {
		for i := range s.Values {
			if texts := s.Values[i].Strings; s.Values[i].Type == model.String && lo+n < len(texts) {
				bytes += len(texts[lo+n])
			}
		}
		if bytes > sliceBytes {
			return n + 1
		}
	}
	return most
}

// Truncate does nothing: the format has no partial series.
func (e *parquetEncoder) Truncate() {}

// Finish writes the footer. A table needs a column, so that an answer without series has
// those of a SELECT.
func (e *parquetEncoder) Finish() error {
	if len(e.columns) == 0 {
		e.begin(&result.Series{})
		e.column(source{role: timeRole, name: "time", kind: model.Integer}, "time")
	}
	return e.w.Close()
}

// Fail returns false: an error is an answer of another format.
func (e *parquetEncoder) Fail(error) bool { return false }

// CheckStatements refuses a number of statements that the format has no place for.
func (f Format) CheckStatements(n int) error {
	if f.Media == MediaParquet && n > 1 {
		return fmt.Errorf("%w, not %d", ErrStatements, n)
	}
	return nil
}
