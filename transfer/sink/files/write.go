package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/store"
	"tsdbd/transfer/mover"
)

const (
	// batchRows and batchValues bound a write.
	batchRows   = 10_000
	batchValues = 100_000
	// patience is how long a store that has no memory is tried.
	patience = time.Minute
)

// writer writes rows to a shard that has points.
type writer struct {
	st    *store.Store
	p     *mover.Part
	t     *mover.Tally
	batch point.Batch
	b     *point.Builder
	tags  model.Tags
}

// write writes the rows of a reader.
func (s *Sink) write(ctx context.Context, p *mover.Part, r rows.Reader, t *mover.Tally) error {
	w := &writer{st: s.store, p: p, t: t}
	for {
		run, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return w.flush(ctx)
		}
		if err != nil {
			return err
		}
		if err := w.add(run); err != nil {
			return err
		}
		if len(w.batch.Rows) >= batchRows || len(w.batch.Values) >= batchValues {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
}

// add appends a run to the batch.
func (w *writer) add(run *rows.Run) error {
	if w.b == nil {
		table, err := w.st.Table(w.p.Database)
		if err != nil {
			return err
		}
		w.b = point.NewBuilder(table, &w.batch)
	}
	measurement, tags := model.ParseSeriesKey(run.Key, w.tags[:0])
	w.tags = tags
	if err := w.b.Series(measurement, tags); err != nil {
		return fmt.Errorf("series %q: %w", run.Key, err) // readers give no such series
	}
	for row, at := range run.Times {
		for i, f := range run.Fields {
			v := &run.Cols[i]
			if !v.IsValid(row) {
				continue
			}
			switch v.Type {
			case model.Float:
				w.b.AnyFloat(f.Key, v.Floats[row])
			case model.Integer:
				w.b.Integer(f.Key, v.Ints[row])
			case model.Unsigned:
				w.b.Unsigned(f.Key, v.Uints[row])
			case model.Boolean:
				w.b.Boolean(f.Key, v.Bools[row])
			default:
				w.b.String(f.Key, v.Strings[row])
			}
		}
		if err := w.b.Row(at); err != nil {
			return fmt.Errorf("series %q: %w", run.Key, err)
		}
	}
	return nil
}

// flush writes the batch.
func (w *writer) flush(ctx context.Context) error {
	if err := w.part(ctx, 0, len(w.batch.Rows)); err != nil {
		return err
	}
	w.batch.Reset()
	w.b = nil // the table may be another one now
	return nil
}

// part writes rows [lo, hi) of the batch. If the store refuses some, part finds them by
// halves: writing the others twice changes nothing.
func (w *writer) part(ctx context.Context, lo, hi int) error {
	if lo == hi {
		return nil
	}
	part := w.batch
	part.Rows = append([]point.Row(nil), w.batch.Rows[lo:hi]...)
	err := w.send(ctx, &part)
	reason, dropped, partial := point.Partial(err)
	switch {
	case err == nil:
		for i := lo; i < hi; i++ {
			w.count(&w.batch.Rows[i])
		}
		return nil
	case !partial:
		return err
	case dropped == hi-lo:
		for i := lo; i < hi; i++ {
			w.t.Refuse(reason, runOf(&w.batch, &w.batch.Rows[i]))
		}
		return nil
	}
	middle := lo + (hi-lo)/2
	if err := w.part(ctx, lo, middle); err != nil {
		return err
	}
	return w.part(ctx, middle, hi)
}

// runOf returns a row of a batch as a run.
func runOf(b *point.Batch, row *point.Row) *rows.Run {
	run := &rows.Run{Key: row.Series.Key(), Fields: row.Layout.Fields}
	run.Times = []int64{row.Time}
	for i, f := range row.Layout.Fields {
		v := column.Vector{Type: f.Type}
		v.AppendWord(b.Values[int(row.First)+i], b.Strings)
		run.Cols = append(run.Cols, v)
	}
	return run
}

// send writes a batch, and waits while the store has no memory for it.
func (w *writer) send(ctx context.Context, b *point.Batch) error {
	for begin := time.Now(); ; {
		err := w.st.Write(ctx, w.p.Database, w.p.Policy, b)
		if !errors.Is(err, store.ErrOverloaded) || time.Since(begin) > patience {
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// count counts a row that was written.
func (w *writer) count(row *point.Row) {
	w.t.Add(row.Series.Key(), row.Layout.Fields, &runOf(&w.batch, row).Rows)
	w.t.Series(row.Series.Key(), row.Series.ID())
}
