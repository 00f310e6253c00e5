package point

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"tsdbd/model"
	"tsdbd/model/column"
)

// ErrNotFinite refuses a row with a float that is not a number or is infinite.
var ErrNotFinite = errors.New("value is not a number or infinite")

var (
	errNoFields    = errors.New("point without fields")
	errTimeOutside = fmt.Errorf("time outside range %d - %d", model.MinTime, model.MaxTime)
)

// Builder appends points to a batch, for every source of points except line
// protocol, which has a parser of its own. It refuses what a write of line
// protocol refuses, so that everything stored can be exported and written
// again. AnyFloat is the exception: see its comment.
//
// The caller calls Series for each run of points of a series, then, for each
// point, a method per field and Row. Strings must not change until the next
// Series. A Builder is used by one goroutine at a time.
type Builder struct {
	table *Table
	batch *Batch

	measurement string
	tags        model.Tags
	key         []byte  // of a series of Series
	keyLength   int     // of any series
	refused     error   // why the series cannot be stored
	series      *Series // nil before the first row of a series of Series
	number      uint32  // of its entry; 0: it has none, it is new, or it is known
	text        []byte  // for FingerprintOf
	known       struct {
		view  *View
		entry *Entry // of the latest series that was spelled
		here  bool   // that is the present series
		next  uint32 // number of the entry that followed it last time
	}

	layout *Layout // of the latest row
	row    struct {
		fields      []column.Field
		values      int // length of batch.Values before the row
		stringBytes int // length of batch.Strings before the row
		err         error
	}
}

// NewBuilder returns a builder that appends to batch, which becomes a batch of
// the table's database. The caller may reset the batch after any Row.
func NewBuilder(table *Table, batch *Batch) *Builder {
	batch.Database = table.Database()
	return &Builder{table: table, batch: batch}
}

// Series sets the series of the rows that follow. Tags come in any order; tags
// without a value are left out. Series returns the reason if the series cannot
// be stored. Row returns the same error then.
func (b *Builder) Series(measurement string, tags model.Tags) error {
	b.tags = b.tags[:0]
	for _, t := range tags {
		if t.Value != "" {
			b.tags = append(b.tags, t)
		}
	}
	b.tags.Sort()
	n := len(b.key)
	b.key = model.AppendSeriesKey(b.key, measurement, b.tags)
	if n > 0 && b.measurement == measurement && bytes.Equal(b.key[:n], b.key[n:]) {
		b.key = b.key[:n]
		return b.refused
	}
	b.key = append(b.key[:0], b.key[n:]...)
	b.measurement, b.series, b.number, b.refused, b.keyLength, b.known.here = measurement, nil, 0, nil, len(b.key), false
	if reason := model.Unstorable(measurement, b.tags); reason != "" {
		b.refused = errors.New(reason)
	} else if len(b.key) > model.MaxKeyLength {
		b.refused = keyTooLong(len(b.key))
	}
	return b.refused
}

// Measurement returns the measurement of the series.
func (b *Builder) Measurement() string { return b.measurement }

// Key returns the key of a series of Series. It is valid until the next Series or Known.
func (b *Builder) Key() []byte { return b.key }

func keyTooLong(n int) error {
	return fmt.Errorf("max key length exceeded: %d > %d", n, model.MaxKeyLength)
}

// Float adds a field to the row. Row refuses a value that is not a number or is
// infinite.
func (b *Builder) Float(key string, v float64) {
	b.AnyFloat(key, v)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		b.refuse(ErrNotFinite)
	}
}

// AnyFloat adds a field to the row. The value may have any bits.
func (b *Builder) AnyFloat(key string, v float64) { b.add(key, model.Float, math.Float64bits(v)) }

// Integer adds a field to the row.
func (b *Builder) Integer(key string, v int64) { b.add(key, model.Integer, uint64(v)) }

// Unsigned adds a field to the row.
func (b *Builder) Unsigned(key string, v uint64) { b.add(key, model.Unsigned, v) }

// Boolean adds a field to the row.
func (b *Builder) Boolean(key string, v bool) {
	word := uint64(0)
	if v {
		word = 1
	}
	b.add(key, model.Boolean, word)
}

// String adds a field to the row.
func (b *Builder) String(key, v string) {
	at := len(b.batch.Strings)
	b.add(key, model.String, column.StringWord(at, len(v)))
	if len(v) > column.MaxStringLength {
		b.refuse(fmt.Errorf("input field %q on measurement %q is too long, %d > %d", key, b.measurement, len(v), column.MaxStringLength))
		return
	}
	b.batch.Strings = append(b.batch.Strings, v...)
}

func (b *Builder) add(key string, t model.FieldType, word uint64) {
	if len(b.row.fields) == 0 {
		b.row.values, b.row.stringBytes = len(b.batch.Values), len(b.batch.Strings)
	}
	b.row.fields = append(b.row.fields, column.Field{Key: key, Type: t})
	b.batch.Values = append(b.batch.Values, word)
}

func (b *Builder) refuse(err error) {
	if b.row.err == nil {
		b.row.err = err
	}
}

// Row appends a row of the fields that were added since the last Row, or
// returns the reason why the point cannot be stored.
func (b *Builder) Row(time int64) error {
	if len(b.row.fields) == 0 {
		return errNoFields
	}
	err := b.check(time)
	if err != nil {
		b.batch.Values, b.batch.Strings = b.batch.Values[:b.row.values], b.batch.Strings[:b.row.stringBytes]
	} else {
		if b.series == nil {
			b.series, b.number = b.table.series(unsafe.String(unsafe.SliceData(b.key), len(b.key)))
		}
		b.batch.Rows = append(b.batch.Rows, Row{Series: b.series, Layout: b.layout, Time: time, First: uint32(b.row.values)})
	}
	clear(b.row.fields)
	b.row.fields, b.row.err = b.row.fields[:0], nil
	return err
}

// check returns why the row cannot be stored. It sets the row's layout.
func (b *Builder) check(time int64) error {
	switch {
	case b.refused != nil:
		return b.refused
	case b.row.err != nil:
		return b.row.err
	case time == NoTime && b.batch.Untimed > 0:
	case time < model.MinTime || time > model.MaxTime:
		return errTimeOutside
	}
	longest := 0
	for i := range b.row.fields {
		longest = max(longest, len(b.row.fields[i].Key))
	}
	if n := b.keyLength + model.FieldSeparatorLength + longest; n > model.MaxKeyLength {
		return keyTooLong(n)
	}
	if b.layout != nil && b.layout.Measurement == b.measurement && slices.Equal(b.layout.Fields, b.row.fields) {
		return nil
	}
	for i, f := range b.row.fields {
		if reason := model.UnstorableField(f.Key); reason != "" {
			return fmt.Errorf("field %q of %q %s", f.Key, b.measurement, reason)
		}
		if slices.ContainsFunc(b.row.fields[:i], func(g column.Field) bool { return g.Key == f.Key }) {
			return fmt.Errorf("field %q of %q occurs twice", f.Key, b.measurement)
		}
	}
	b.layout = b.table.Layout(b.measurement, b.row.fields)
	if b.known.here {
		b.known.entry.SetLayout(b.layout)
	}
	return nil
}
