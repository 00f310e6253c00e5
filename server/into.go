package server

import (
	"context"
	"errors"
	"slices"

	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/query/result"
)

// intoBatchRows bounds the rows that SELECT INTO writes at once.
const intoBatchRows = 10_000

// writeInto writes a batch as writeBatches does.
func (e engine) writeInto(ctx context.Context, in *result.IntoBatch) error {
	return e.writeBatches(ctx, []*result.IntoBatch{in})
}

// writeBatches writes the rows of a SELECT INTO as a client's points would be. The batches
// are of one retention policy, and all or none of them free. A *point.PartialWriteError says how many rows were
// refused; all others are stored then.
func (e engine) writeBatches(ctx context.Context, batches []*result.IntoBatch) error {
	database, policy := batches[0].Database, batches[0].RetentionPolicy
	table, err := e.Table(database)
	if err != nil {
		return err
	}
	partial := point.PartialWriteError{Database: database}
	if partial.RetentionPolicy, err = e.RetentionPolicy(database, policy); err != nil {
		return err
	}
	refuse := func(reason string, rows int) {
		if partial.Reason == "" {
			partial.Reason = reason
		}
		partial.Dropped += rows
	}
	var batch point.Batch
	flush := func() error {
		var refused *point.PartialWriteError
		batch.Frees = batches[0].Frees
		err := e.Write(ctx, database, policy, &batch)
		batch.Reset()
		if errors.As(err, &refused) {
			refuse(refused.Reason, refused.Dropped)
			return nil
		}
		return err
	}
	rows := point.NewBuilder(table, &batch)
	for _, in := range batches {
		w := intoWriter{in: in, rows: rows}
		for row := range in.Times {
			if err := w.add(row); err != nil {
				refuse(err.Error(), 1)
			}
			if len(batch.Rows) == intoBatchRows {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if len(batch.Rows) > 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	if partial.Reason != "" {
		return &partial
	}
	return nil
}

// intoWriter turns columns into the rows of a batch.
type intoWriter struct {
	in    *result.IntoBatch
	rows  *point.Builder
	begun bool
	tags  model.Tags
}

// add adds a row; nulls are left out, and a row of nothing else is none.
func (w *intoWriter) add(row int) error {
	some := false
	for i := range w.in.Columns {
		v, key := &w.in.Columns[i], w.in.Fields[i]
		if v.Type == model.Unknown || !v.IsValid(row) {
			continue
		}
		some = true
		switch v.Type {
		case model.Float:
			w.rows.Float(key, v.Floats[row])
		case model.Integer:
			w.rows.Integer(key, v.Ints[row])
		case model.Unsigned:
			w.rows.Unsigned(key, v.Uints[row])
		case model.Boolean:
			w.rows.Boolean(key, v.Bools[row])
		case model.String:
			w.rows.String(key, v.Strings[row])
		}
	}
	if !some {
		return nil
	}
	if !w.begun || len(w.in.TagColumns) > 0 {
		w.begun = true
		_ = w.rows.Series(w.in.Measurement, w.tagsOf(row)) // Row returns the error, too
	}
	return w.rows.Row(w.in.Times[row])
}

// tagsOf returns the tags of a row: the group's and those that top and bottom
// took from the row, which win.
func (w *intoWriter) tagsOf(row int) model.Tags {
	w.tags = append(w.tags[:0], w.in.Tags...)
	for name, v := range w.in.TagColumns {
		w.tags = slices.DeleteFunc(w.tags, func(t model.Tag) bool { return t.Key == name })
		if v.Type == model.String && v.IsValid(row) {
			w.tags = append(w.tags, model.Tag{Key: name, Value: v.Strings[row]})
		}
	}
	return w.tags
}
