// Package points reads back what a store holds, for tests that know what they wrote.
package points

import (
	"context"
	"fmt"
	"math"
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// Key names a value: the key of its series, its time and its field.
func Key(series string, t int64, field string) string {
	return fmt.Sprintf("%s %d %s", series, t, field)
}

// Read returns all values of a view as text, by their keys. A value that comes twice is an
// error, and so is a NaN that its chunk does not announce.
func Read(v scan.View, descending bool) (map[string]string, error) {
	out := map[string]string{}
	for _, shard := range v.Shards() {
		for _, m := range shard.Measurements() {
			if err := measurement(out, v, shard, m, descending); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// measurement adds the values of a measurement in a shard.
func measurement(out map[string]string, v scan.View, shard scan.Shard, m string, descending bool) error {
	var fields []string
	for _, f := range shard.Fields(m) {
		fields = append(fields, f.Key)
	}
	set, err := shard.Select(context.Background(), m, nil)
	if err != nil {
		return err
	}
	c, err := shard.Scan(context.Background(), scan.Request{Measurement: m, Series: set, Fields: fields, Range: model.AllTime, Descending: descending})
	if err != nil {
		return err
	}
	defer c.Close()
	for id, ok := c.NextSeries(); ok; id, ok = c.NextSeries() {
		series, err := v.SeriesKey(id)
		if err != nil {
			return err
		}
		for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
			if err := chunk(out, ch, series, fields); err != nil {
				return err
			}
		}
	}
	return c.Err()
}

// chunk adds the values of a chunk.
func chunk(out map[string]string, ch scan.Chunk, series string, fields []string) error {
	times, err := ch.Times()
	if err != nil {
		return err
	}
	for i, f := range fields {
		values, err := ch.Column(i)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(values.Floats, math.IsNaN) && !ch.MayHaveNaN(i) {
			return fmt.Errorf("%s of %s: a NaN is not announced", f, series)
		}
		for row, t := range times {
			if !values.IsValid(row) {
				continue
			}
			key := Key(series, t, f)
			if _, twice := out[key]; twice {
				return fmt.Errorf("%s comes twice", key)
			}
			out[key] = text(values, row)
		}
	}
	return nil
}

// text prints a value as line protocol has it, and a NaN or infinity by its bits.
func text(v *column.Vector, i int) string {
	switch v.Type {
	case model.Float:
		if x := v.Floats[i]; x-x != 0 {
			return fmt.Sprintf("0x%016x", math.Float64bits(x))
		}
		return fmt.Sprint(v.Floats[i])
	case model.Integer:
		return fmt.Sprintf("%di", v.Ints[i])
	case model.Unsigned:
		return fmt.Sprintf("%du", v.Uints[i])
	case model.String:
		return fmt.Sprintf("%q", v.Strings[i])
	}
	return fmt.Sprint(v.Bools[i])
}
