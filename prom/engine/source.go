package engine

import (
	"context"
	"errors"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"tsdbd/meta"
	"tsdbd/prom/queryable"
)

// source is the storage that a query reads. It charges for each series what the
// evaluation takes for it, and lets other queries work between series.
type source struct {
	run    *run
	bounds bounds
	parts  *parts
}

// Querier implements storage.Queryable.
func (s *source) Querier(mint, maxt int64) (storage.Querier, error) {
	access := s.run.access
	src := queryable.Source{Storage: s.run.opt.Storage, DB: access.DB, RP: access.RP, Charge: s.run.keep, Read: s.read}
	q, err := src.Querier(mint, maxt)
	if s.run.lacks(err) {
		return storage.NoopQuerier(), nil
	}
	if err != nil {
		return nil, err
	}
	return &querier{Querier: q, source: s}, nil
}

// lacks reports whether an error means that the database is an empty one.
func (r *run) lacks(err error) bool {
	return r.access.MayLack && errors.Is(err, meta.ErrDatabaseNotFound)
}

// read charges the points of the value, if it has the samples that are read.
func (s *source) read(samples int64) error {
	if !s.bounds.matrix {
		return nil
	}
	return s.run.keep(2 * pointBytes * samples) // they lie in slices that have grown
}

type querier struct {
	storage.Querier
	source *source
}

// Select implements storage.Querier.
func (q *querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	if set, ok := q.source.parts.of(matchers); ok {
		return &seriesSet{SeriesSet: set, source: q.source}
	}
	return &seriesSet{SeriesSet: q.Querier.Select(ctx, sorted, hints, matchers...), source: q.source}
}

// seriesSet charges each series.
type seriesSet struct {
	storage.SeriesSet
	source *source
	block  []series // is filled and then replaced
	err    error
}

// blockSeries is how many series are allocated at once.
const blockSeries = 256

// Next implements storage.SeriesSet.
func (s *seriesSet) Next() bool {
	if s.err != nil || !s.SeriesSet.Next() {
		return false
	}
	bytes := s.source.bounds.series
	if labels := s.source.bounds.labels; labels.factor > 0 {
		bytes += labels.bytes(s.SeriesSet.At().Labels().ByteSize())
	}
	s.err = s.source.run.keep(bytes)
	return s.err == nil
}

// At implements storage.SeriesSet.
func (s *seriesSet) At() storage.Series {
	if len(s.block) == cap(s.block) {
		s.block = make([]series, 0, min(blockSeries, 4*cap(s.block)+1))
	}
	s.block = append(s.block, series{s.SeriesSet.At(), s.source.run})
	return &s.block[len(s.block)-1]
}

// Err implements storage.SeriesSet.
func (s *seriesSet) Err() error {
	if s.err != nil {
		return s.err
	}
	return s.SeriesSet.Err()
}

// series lets other queries work.
type series struct {
	storage.Series
	run *run
}

// Iterator implements storage.Series.
func (s *series) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	_ = s.run.turn.Yield(s.run.ctx) // the engine looks at the context itself
	return s.Series.Iterator(it)
}
