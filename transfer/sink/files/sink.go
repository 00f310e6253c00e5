package files

import (
	"context"
	"errors"
	"io"
	"slices"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/shard"
	"tsdbd/shard/build"
	"tsdbd/store"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/mover"
	"tsdbd/tsi"
)

// Sink loads into an open store that nobody else writes to.
type Sink struct{ store *store.Store }

// New returns a Sink of a store.
func New(st *store.Store) *Sink { return &Sink{st} }

// Put implements mover.Sink. The id of the part is that of a shard of the store.
func (s *Sink) Put(ctx context.Context, p *mover.Part, r rows.Reader, t *mover.Tally) (compare.Totals, error) {
	b, err := s.store.Build(p.ID)
	empty := !errors.Is(err, shard.ErrNotEmpty)
	switch {
	case !empty:
		err = s.write(ctx, p, r, t)
	case err == nil:
		err = s.build(ctx, p, r, b, t)
	}
	if err != nil || t.Empty() {
		return nil, err
	}
	if !empty {
		t.Move().Change(func(s *mover.Stats) { s.Joined++ })
	}
	return s.Count(ctx, p.Database, p.Policy, p.Times, t.Wanted)
}

// Count implements mover.Sink.
func (s *Sink) Count(ctx context.Context, database, policy string, times model.TimeRange, wanted func(measurement string) bool) (compare.Totals, error) {
	return compare.Count(ctx, s.store, database, policy, times, wanted)
}

// conflict says why values of another type are refused.
func conflict(run *rows.Run, c tsi.FieldConflict) string {
	return c.Reason(model.SeriesMeasurement(run.Key))
}

// build writes the rows of a reader as finished files.
func (s *Sink) build(ctx context.Context, p *mover.Part, r rows.Reader, b *build.Builder, t *mover.Tally) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Abort())
		}
	}()
	var refused []tsi.FieldConflict
	var kept []column.Field // those of the series that are not refused
	key := ""
	for {
		run, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if run.Key != key {
			key = run.Key
			if refused, err = b.Series(key, run.Fields); err != nil {
				return err
			}
			kept = kept[:0]
			for _, f := range run.Fields {
				if !isRefused(refused, f) {
					kept = append(kept, f)
				}
			}
		}
		if err := b.Append(&run.Rows); err != nil {
			return err
		}
		if len(refused) == 0 {
			t.Add(key, run.Fields, &run.Rows)
		} else {
			addKept(t, run, kept, refused)
		}
	}
	if t.Empty() {
		return b.Abort()
	}
	files, err := b.Finish()
	if err != nil {
		return err
	}
	t.Sets(files.Sets)
	t.Move().Change(func(s *mover.Stats) { s.Bytes += files.Bytes() })
	return s.store.Adopt(p.ID, files)
}

func isRefused(refused []tsi.FieldConflict, f column.Field) bool {
	return slices.ContainsFunc(refused, func(c tsi.FieldConflict) bool { return c.Field == f })
}

// addKept counts what is kept of a run, and hands over what is refused.
func addKept(t *mover.Tally, run *rows.Run, kept []column.Field, refused []tsi.FieldConflict) {
	part := column.Rows{Times: run.Times}
	for i, f := range run.Fields {
		if !isRefused(refused, f) {
			part.Cols = append(part.Cols, run.Cols[i])
		}
	}
	for _, c := range refused {
		if i, ok := column.FindField(run.Fields, c.Field.Key); ok {
			t.Refuse(conflict(run, c), columnOf(run, i))
		}
	}
	if len(kept) > 0 {
		t.Add(run.Key, kept, &part)
	}
}
