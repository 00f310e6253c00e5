package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/influxdata/influxql"

	"tsdbd/exchange"
	"tsdbd/model"
)

// Server is what Ask asks; an exchange.Client is one.
type Server interface {
	// Tables runs a statement of InfluxQL.
	Tables(ctx context.Context, database, statement string) ([]exchange.Table, error)
}

// Halver is an optional interface of a Server that cannot count much at once.
type Halver interface {
	// TooLarge reports whether a query failed because of how much it reads.
	TooLarge(err error) bool
}

// shortest is the shortest range of times that is halved.
const shortest = int64(2e6)

// fieldsPerQuery bounds the columns of one SELECT.
const fieldsPerQuery = 100

// Ask has a server count what a retention policy has within times of the measurements that
// are wanted; nil: all. It counts series only for all time, and -1 where the server cannot. A
// field that has two types is counted as Unknown.
func Ask(ctx context.Context, server Server, database, policy string, times model.TimeRange, wanted func(measurement string) bool) (Totals, error) {
	fields, err := fieldsOf(ctx, server, database, policy)
	if err != nil {
		return nil, err
	}
	totals := Totals{}
	for _, f := range fields {
		if wanted != nil && !wanted(f.measurement) {
			continue
		}
		name := Name{database, policy, f.measurement}
		m, err := ask(ctx, server, name, f.fields, times)
		if err != nil {
			return nil, fmt.Errorf("count %s.%s.%s: %w", database, policy, f.measurement, err)
		}
		if len(m.Fields) == 0 {
			continue // of another policy, or of another time
		}
		if times == model.AllTime {
			m.askSeries(ctx, server, name)
		}
		totals[name] = m
	}
	return totals, ctx.Err()
}

// measured is a measurement with its fields.
type measured struct {
	measurement string
	fields      []typed
}

// typed is a field and its type, Unknown if it has several.
type typed struct {
	key     string
	of      model.FieldType
	columns []string // what counts its values
}

// fieldsOf returns the fields of all measurements of a retention policy. Without FROM,
// servers show those of the default policy.
func fieldsOf(ctx context.Context, server Server, database, policy string) (out []measured, err error) {
	q := "SHOW FIELD KEYS ON " + influxql.QuoteIdent(database)
	if policy != "" {
		q += " FROM " + influxql.QuoteIdent(policy) + "./.*/"
	}
	a, err := server.Tables(ctx, database, q)
	if err != nil {
		return nil, err
	}
	for _, s := range a {
		m := measured{measurement: s.Name}
		place := map[string]int{}
		for _, row := range s.Values {
			if len(row) < 2 {
				return nil, errors.New("SHOW FIELD KEYS: an answer without types")
			}
			key, _ := row[0].(string)
			of, _ := row[1].(string)
			kind := fieldType(of)
			// A field has one type in a shard. A query takes all numbers together, and the
			// other types each for itself.
			column := influxql.QuoteIdent(key)
			if kind == model.String || kind == model.Boolean {
				column += "::" + kind.String()
			}
			at, twice := place[key]
			if !twice {
				place[key] = len(m.fields)
				m.fields = append(m.fields, typed{key, kind, []string{column}})
				continue
			}
			f := &m.fields[at]
			if f.of = model.Unknown; !slices.Contains(f.columns, column) {
				f.columns = append(f.columns, column)
			}
		}
		for i := range m.fields {
			if f := &m.fields[i]; len(f.columns) == 1 {
				f.columns[0] = influxql.QuoteIdent(f.key)
			}
		}
		out = append(out, m)
	}
	return out, nil
}

func fieldType(name string) model.FieldType {
	for t := model.Float; t.Valid(); t++ {
		if t.String() == name {
			return t
		}
	}
	return model.Unknown
}

// ask counts the values of fields and adds them up, by halves if the server cannot otherwise.
func ask(ctx context.Context, server Server, name Name, fields []typed, times model.TimeRange) (*Measurement, error) {
	m := &Measurement{Series: -1, Fields: map[string]*Field{}}
	var err error
	for part := range slices.Chunk(fields, fieldsPerQuery) {
		if err = m.askPart(ctx, server, name, part, times, true); err != nil {
			break
		}
	}
	length := times.Max - times.Min // of all time it is negative
	if h, ok := server.(Halver); err == nil || !ok || !h.TooLarge(err) || length >= 0 && length < shortest {
		return m, err
	}
	middle := times.Min + int64(uint64(length)/2)
	sum := Totals{}
	for _, half := range []model.TimeRange{{Min: times.Min, Max: middle}, {Min: middle + 1, Max: times.Max}} {
		m, err := ask(ctx, server, name, fields, half)
		if err != nil {
			return nil, err
		}
		sum.Merge(Totals{name: m})
	}
	return sum[name], nil
}

// askPart sends one query. If the server cannot write a sum, the part is halved until the
// field of that sum is alone, and is only counted.
func (m *Measurement) askPart(ctx context.Context, server Server, name Name, part []typed, times model.TimeRange, sums bool) error {
	var columns []string
	for i, f := range part {
		for n, c := range f.columns {
			columns = append(columns, fmt.Sprintf("count(%s) AS %c%d", c, countNames[n], i))
		}
		if sums && f.of.Numeric() {
			columns = append(columns, fmt.Sprintf("sum(%s) AS s%d", influxql.QuoteIdent(f.key), i))
		}
	}
	q := fmt.Sprintf("SELECT %s FROM %s", strings.Join(columns, ", "), source(name))
	if times != model.AllTime {
		q += fmt.Sprintf(" WHERE time >= %d AND time <= %d", times.Min, times.Max)
	}
	a, err := server.Tables(ctx, name.Database, q)
	switch {
	case sums && unwritable(err) && len(part) > 1:
		for half := range slices.Chunk(part, (len(part)+1)/2) {
			if err := m.askPart(ctx, server, name, half, times, true); err != nil {
				return err
			}
		}
		return nil
	case sums && unwritable(err):
		return m.askPart(ctx, server, name, part, times, false)
	case err != nil:
		return err
	}
	for _, s := range a {
		for _, row := range s.Values {
			if err := m.take(part, s.Columns, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// unwritable reports that a server cannot write an answer, because a sum is infinite.
// InfluxDB writes the error of its JSON encoder in place of the answer.
func unwritable(err error) bool {
	var syntax *json.SyntaxError
	return errors.As(err, &syntax) || err != nil && strings.Contains(err.Error(), "unsupported value")
}

// countNames begin the names of the columns that count a field.
const countNames = "cde"

// take takes the row of an answer. Columns are named c, d, e and s and the number of a field.
func (m *Measurement) take(fields []typed, columns []string, row []any) error {
	if len(row) != len(columns) {
		return errors.New("the answer has another number of columns than names")
	}
	for i, column := range columns {
		number, ok := row[i].(json.Number)
		if column == "" || !strings.Contains(countNames+"s", column[:1]) || !ok {
			continue
		}
		at, err := strconv.Atoi(column[1:])
		if err != nil || at < 0 || at >= len(fields) {
			continue // time
		}
		of := fields[at]
		switch {
		case column[0] != 's':
			count, err := number.Float64()
			if err != nil {
				return fmt.Errorf("count of field %q: %w", of.key, err)
			}
			if count == 0 {
				continue // an answer of 3.x
			}
			f := m.field(of.key)
			f.Count, f.Type = f.Count+int64(count), of.of
			if f.Type == model.Float {
				f.Float = math.NaN() // until the sum comes: null if it is not finite
			}
		case m.Fields[of.key] != nil: // counts come first
			f := m.Fields[of.key]
			if err := f.parse(number.String()); err != nil {
				return fmt.Errorf("sum of field %q: %w", of.key, err)
			}
		}
	}
	return nil
}

// parse takes a sum as a server writes it.
func (f *Field) parse(number string) (err error) {
	switch f.Type {
	case model.Integer:
		var n int64
		n, err = strconv.ParseInt(number, 10, 64)
		f.Integer = uint64(n)
	case model.Unsigned:
		f.Integer, err = strconv.ParseUint(number, 10, 64)
	default:
		f.Float, err = strconv.ParseFloat(number, 64)
	}
	return err
}

// source returns what FROM names. A place without policies has none.
func source(name Name) string {
	if name.Policy == "" {
		return influxql.QuoteIdent(name.Measurement)
	}
	return influxql.QuoteIdent(name.Policy, name.Measurement)
}

// askSeries counts the series. Not every server can.
func (m *Measurement) askSeries(ctx context.Context, server Server, name Name) {
	q := fmt.Sprintf("SHOW SERIES EXACT CARDINALITY ON %s FROM %s", influxql.QuoteIdent(name.Database), source(name))
	a, err := server.Tables(ctx, name.Database, q)
	if err != nil {
		return
	}
	n := int64(0)
	for _, s := range a {
		for _, row := range s.Values {
			if len(row) > 0 {
				number, _ := row[len(row)-1].(json.Number)
				count, err := number.Int64()
				if err != nil {
					return
				}
				n += count
			}
		}
	}
	m.Series = n
}
