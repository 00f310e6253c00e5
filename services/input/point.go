package input

import (
	"errors"

	"tsdbd/model"
	"tsdbd/model/point"
)

// Point is a decoded point. All its fields are floats, like the values of the
// protocols.
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

// add appends p to the builder's batch, or returns why it cannot be stored.
func add(b *point.Builder, p *Point) error {
	if p.Measurement == "" || len(p.Fields) == 0 {
		return errors.New("point without a measurement or without fields")
	}
	series := b.FingerprintOf(p.Measurement, p.Tags)
	known := b.Known(series)
	if !known {
		if err := b.Series(p.Measurement, p.Tags); err != nil {
			return err
		}
	}
	for _, f := range p.Fields {
		b.Float(f.Key, f.Value)
	}
	err := b.Row(p.Time)
	if err == nil && !known {
		b.Spell(series)
	}
	return err
}
