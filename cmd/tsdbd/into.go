package main

import (
	"context"
	"math"
	"slices"

	"tsdbd/column"
	"tsdbd/model"
	"tsdbd/query"
)

// intoBatchRows bounds the rows that SELECT INTO writes at once.
const intoBatchRows = 10_000

// writeInto writes the rows of a SELECT INTO as a client's points would be. A
// partial write is the statement's error; its good points are stored.
func (e engine) writeInto(ctx context.Context, in *query.IntoBatch) error {
	table, err := e.Table(in.Database)
	if err != nil {
		return err
	}
	w := intoWriter{in: in, table: table}
	w.batch.Database = table.Database()
	for row := range in.Times {
		w.add(row)
		if len(w.batch.Rows) == intoBatchRows {
			if err := e.Write(ctx, in.Database, in.RetentionPolicy, &w.batch); err != nil {
				return err
			}
			w.batch.Reset()
			w.batch.Database = table.Database()
		}
	}
	if len(w.batch.Rows) == 0 {
		return nil
	}
	return e.Write(ctx, in.Database, in.RetentionPolicy, &w.batch)
}

// intoWriter turns columns into the rows of a batch.
type intoWriter struct {
	in     *query.IntoBatch
	table  *column.Table
	batch  column.Batch
	series *column.Series // of the rows without tags of their own
	layout *column.Layout // of the latest row
	fields []column.Field // of the latest row
	next   []column.Field
	tags   model.Tags
	key    []byte
}

// add adds a row; nulls are left out, and a row of nothing else is none.
func (w *intoWriter) add(row int) {
	first := len(w.batch.Values)
	w.next = w.next[:0]
	for i := range w.in.Columns {
		v := &w.in.Columns[i]
		if v.Type == model.Unknown || !v.IsValid(row) {
			continue
		}
		word, ok := w.word(v, row)
		if !ok {
			continue
		}
		w.next = append(w.next, column.Field{Key: w.in.Fields[i], Type: v.Type})
		w.batch.Values = append(w.batch.Values, word)
	}
	if len(w.next) == 0 {
		return
	}
	if w.layout == nil || !slices.Equal(w.fields, w.next) {
		w.layout = w.table.Layout(w.in.Measurement, w.next)
		w.fields = append(w.fields[:0], w.next...)
	}
	w.batch.Rows = append(w.batch.Rows, column.Row{
		Series: w.seriesOf(row), Layout: w.layout, Time: w.in.Times[row], First: uint32(first),
	})
}

// word returns a value as Batch.Values holds it. Floats that line protocol
// cannot say are not stored.
func (w *intoWriter) word(v *column.Vector, row int) (uint64, bool) {
	switch v.Type {
	case model.Float:
		f := v.Floats[row]
		return math.Float64bits(f), !math.IsNaN(f) && !math.IsInf(f, 0)
	case model.Integer:
		return uint64(v.Ints[row]), true
	case model.Unsigned:
		return v.Uints[row], true
	case model.Boolean:
		if v.Bools[row] {
			return 1, true
		}
		return 0, true
	case model.String:
		s := v.Strings[row]
		word := column.StringWord(len(w.batch.Strings), len(s))
		w.batch.Strings = append(w.batch.Strings, s...)
		return word, true
	}
	return 0, false
}

// seriesOf returns the series of a row: the group's tags and those that top
// and bottom took from the row.
func (w *intoWriter) seriesOf(row int) *column.Series {
	if len(w.in.TagColumns) == 0 && w.series != nil {
		return w.series
	}
	w.tags = append(w.tags[:0], w.in.Tags...)
	for name, v := range w.in.TagColumns {
		if v.Type == model.String && v.IsValid(row) && v.Strings[row] != "" {
			w.tags = append(w.tags, model.Tag{Key: name, Value: v.Strings[row]})
		}
	}
	w.tags.Sort()
	w.key = model.AppendSeriesKey(w.key[:0], w.in.Measurement, w.tags)
	w.series = w.table.Series(string(w.key))
	return w.series
}
