package input

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"tsdbd/column"
	"tsdbd/model"
)

// Point is what a decoder makes. All its fields are floats, as the protocols'
// values are.
type Point struct {
	Measurement string
	Tags        model.Tags // in any order; those without a value are left out
	Fields      []Field    // one or more
	Time        int64      // ns
}

// Field is a field of a Point.
type Field struct {
	Key   string
	Value float64
}

// errNotANumber refuses a point with a value that cannot be stored.
var errNotANumber = errors.New("value is not a number or infinite")

// builder appends points to a batch. The zero value is ready.
type builder struct {
	layout *column.Layout // of the latest point
	fields []column.Field // of the latest point
	tags   model.Tags
	key    []byte
}

// add appends p, or returns why it cannot be stored. The table is that of the
// batch's database.
func (b *builder) add(batch *column.Batch, table *column.Table, p *Point) error {
	if p.Measurement == "" || len(p.Fields) == 0 {
		return errors.New("point without a measurement or without fields")
	}
	if p.Time < model.MinTime || p.Time > model.MaxTime {
		return errors.New("time outside range")
	}
	b.tags = b.tags[:0]
	for _, t := range p.Tags {
		if t.Value != "" {
			b.tags = append(b.tags, t)
		}
	}
	b.tags.Sort()
	if reason := model.Unstorable(p.Measurement, b.tags); reason != "" {
		return errors.New(reason)
	}
	b.key = model.AppendSeriesKey(b.key[:0], p.Measurement, b.tags)
	for i, f := range p.Fields {
		if math.IsNaN(f.Value) || math.IsInf(f.Value, 0) {
			return errNotANumber
		}
		if reason := model.UnstorableName(f.Key); reason != "" {
			return fmt.Errorf("field %q of %q %s", f.Key, p.Measurement, reason)
		}
		if n := len(b.key) + model.FieldSeparatorLength + len(f.Key); n > model.MaxKeyLength {
			return fmt.Errorf("max key length exceeded: %d > %d", n, model.MaxKeyLength)
		}
		if slices.ContainsFunc(p.Fields[:i], func(g Field) bool { return g.Key == f.Key }) {
			return fmt.Errorf("field %q of %q stands twice", f.Key, p.Measurement)
		}
	}
	same := func(a column.Field, f Field) bool { return a.Key == f.Key }
	if b.layout == nil || b.layout.Measurement != p.Measurement || !slices.EqualFunc(b.fields, p.Fields, same) {
		b.fields = b.fields[:0]
		for _, f := range p.Fields {
			b.fields = append(b.fields, column.Field{Key: f.Key, Type: model.Float})
		}
		b.layout = table.Layout(p.Measurement, b.fields)
	}
	batch.Rows = append(batch.Rows, column.Row{
		Series: table.Series(string(b.key)), Layout: b.layout, Time: p.Time, First: uint32(len(batch.Values)),
	})
	for _, f := range p.Fields {
		batch.Values = append(batch.Values, math.Float64bits(f.Value))
	}
	return nil
}
