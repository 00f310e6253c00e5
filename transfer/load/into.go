package load

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/RoaringBitmap/roaring/v2"
	"golang.org/x/sync/errgroup"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/shard"
	"tsdbd/shard/build"
	"tsdbd/store"
	"tsdbd/transfer"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/rows"
	"tsdbd/tsi"
)

// Into loads a source into an open store that nobody else writes to. After an error the
// result says how far it came.
func Into(ctx context.Context, src *Source, st *store.Store, opt Options) (*Result, error) {
	s := newState(opt)
	src, err := src.choose(&opt.Filter)
	if err != nil {
		return s.result(), err
	}
	if err := s.makeCatalog(ctx, src, st); err != nil {
		return s.result(), err
	}
	s.checkUsers(src, s.result().Defined)
	jobs, err := s.plan(ctx, src, st)
	if err != nil {
		return s.result(), err
	}
	s.shards = len(jobs)
	s.expect(jobs)
	whole := ctx
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(s.opt.Workers)
	for _, j := range jobs {
		if s.finished(j.entry()) {
			s.skip(j.entry())
			continue
		}
		workers.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := s.run(ctx, j, st); err != nil {
				return fmt.Errorf("%s: %w", j.name(), err)
			}
			return s.finish(j.entry(), j)
		})
	}
	err = workers.Wait()
	if s.opt.Refusals != nil {
		err = errors.Join(err, s.opt.Refusals.Sync())
	}
	if err == nil {
		_, err = transfer.MakeDefinitions(whole, st, s.limits(src))
	}
	return s.result(), err
}

// expect estimates the values of the jobs that are not finished.
func (s *state) expect(jobs []*job) {
	cut := map[*Part]int64{} // into so many jobs
	for _, j := range jobs {
		for _, p := range j.parts {
			cut[p]++
		}
	}
	for _, j := range jobs {
		for _, p := range j.parts {
			if !s.finished(j.entry()) {
				s.expected += p.Values / cut[p]
			}
		}
	}
}

// run loads the rows for one shard and compares it with them.
func (s *state) run(ctx context.Context, j *job, st *store.Store) (err error) {
	defer vfs.CatchFault(&err)()
	b, err := st.Build(j.shard)
	empty := !errors.Is(err, shard.ErrNotEmpty)
	if err != nil && empty {
		return err
	}
	r, err := s.open(ctx, j)
	if err != nil {
		if empty {
			err = errors.Join(err, b.Abort())
		}
		return err
	}
	t := &counted{s: s, j: j, totals: compare.Totals{}}
	if empty {
		err = s.build(ctx, r, b, st, t)
	} else {
		err = s.write(ctx, r, st, t)
	}
	s.progress(t.pending)
	if err = errors.Join(err, r.Close()); err != nil || len(t.totals) == 0 {
		return err
	}
	have, err := compare.Count(ctx, st, j.database, j.policy, j.times, func(measurement string) bool {
		return t.totals[compare.Name{Database: j.database, Policy: j.policy, Measurement: measurement}] != nil
	})
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	missing := (&Result{Source: t.totals, Target: have}).Missing()
	s.change(func(r *Result) {
		s.mu.flawed = s.mu.flawed || len(missing) > 0
		r.Shards++
		if !empty {
			r.Written++
		}
		r.Source.Merge(t.totals)
		r.Target.Merge(have)
		r.Values += t.totals.Values()
	})
	return nil
}

// open opens the parts of a job.
func (s *state) open(ctx context.Context, j *job) (rows.Reader, error) {
	m := &merged{clash: func(run *rows.Run, have model.FieldType) {
		s.refuse(j, conflict(run, tsi.FieldConflict{Field: run.Fields[0], Have: have}), run)
	}}
	for _, p := range j.parts {
		r, err := p.Open(ctx, j.times, func(reason string, run *rows.Run) { s.refuse(j, reason, run) })
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", p.name(), err), m.Close())
		}
		m.readers = append(m.readers, r)
	}
	if len(m.readers) == 1 {
		return m.readers[0], nil
	}
	return m, nil
}

// conflict says why values of another type are refused.
func conflict(run *rows.Run, c tsi.FieldConflict) string {
	return c.Reason(model.SeriesMeasurement(run.Key))
}

// counted adds up the rows of a job that are loaded.
type counted struct {
	s      *state
	j      *job
	totals compare.Totals

	key         string // of the latest run
	measurement *compare.Measurement
	pending     int64 // values that the progress does not have
}

// progressValues is how many values a worker loads between two looks at the progress.
const progressValues = 1 << 16

// of returns the totals of the measurement of a series.
func (c *counted) of(key string) *compare.Measurement {
	if c.measurement == nil || key != c.key {
		name := compare.Name{Database: c.j.database, Policy: c.j.policy, Measurement: model.SeriesMeasurement(key)}
		c.key, c.measurement = key, c.totals.Of(name)
	}
	return c.measurement
}

// add counts rows of a series.
func (c *counted) add(key string, fields []column.Field, r *column.Rows) {
	c.of(key).Add(fields, r)
	if c.pending += int64(len(r.Times) * len(fields)); c.pending >= progressValues {
		c.s.progress(c.pending)
		c.pending = 0
	}
}

// addSeries counts a series that has rows.
func (c *counted) addSeries(key string, id model.SeriesID) {
	m := c.of(key)
	if m.Set == nil {
		m.Set = roaring.New()
	}
	if m.Set.CheckedAdd(uint32(id)) {
		m.Series++
	}
}

// addSets counts series that have rows, by measurement.
func (c *counted) addSets(sets map[string]*roaring.Bitmap) {
	for measurement, set := range sets {
		m := c.totals.Of(compare.Name{Database: c.j.database, Policy: c.j.policy, Measurement: measurement})
		m.Set, m.Series = set, int64(set.GetCardinality())
	}
}

// build writes the rows of a reader as finished files.
func (s *state) build(ctx context.Context, r rows.Reader, b *build.Builder, st *store.Store, t *counted) (err error) {
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
			t.add(key, run.Fields, &run.Rows)
		} else {
			s.addKept(t, run, kept, refused)
		}
	}
	if len(t.totals) == 0 {
		return b.Abort()
	}
	files, err := b.Finish()
	if err != nil {
		return err
	}
	t.addSets(files.Sets)
	s.change(func(r *Result) { r.Bytes += files.Bytes() })
	return st.Adopt(t.j.shard, files)
}

func isRefused(refused []tsi.FieldConflict, f column.Field) bool {
	for _, c := range refused {
		if c.Field == f {
			return true
		}
	}
	return false
}

// addKept counts what is kept of a run, and hands over what is refused.
func (s *state) addKept(t *counted, run *rows.Run, kept []column.Field, refused []tsi.FieldConflict) {
	part := column.Rows{Times: run.Times}
	for i, f := range run.Fields {
		if !isRefused(refused, f) {
			part.Cols = append(part.Cols, run.Cols[i])
		}
	}
	for _, c := range refused {
		if i, ok := column.FindField(run.Fields, c.Field.Key); ok && countValues(&run.Cols[i], run.Len()) > 0 {
			s.refuse(t.j, conflict(run, c), columnOf(run, i))
		}
	}
	if len(kept) > 0 {
		t.add(run.Key, kept, &part)
	}
}
