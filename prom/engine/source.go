package engine

import (
	"context"
	"errors"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"tsdbd/meta"
	"tsdbd/model/scan"
	"tsdbd/prom/queryable"
)

// source is the storage that a query reads. It charges for each series what the
// evaluation takes for it, and lets other queries work between series.
type source struct {
	run    *run
	bounds bounds
	parts  *parts
	reads  float64 // how many points the windows of a series may have
}

// Querier implements storage.Queryable.
func (s *source) Querier(mint, maxt int64) (storage.Querier, error) {
	src := s.run.policy()
	src.Read = s.read
	q, err := src.Querier(mint, maxt)
	if s.run.lacks(err) {
		return storage.NoopQuerier(), nil
	}
	if err != nil {
		return nil, err
	}
	return &querier{Querier: q, source: s}, nil
}

// policy returns the retention policy of the request.
func (r *run) policy() queryable.Source {
	return queryable.Source{Storage: r.storage(), DB: r.access.DB, RP: r.access.RP, Charge: r.keep}
}

// storage returns what the request reads.
func (r *run) storage() scan.Storage {
	if r.access.Partial {
		return r.opt.Storage.Partial()
	}
	return r.opt.Storage
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
	return s.run.keep(2 * pointBytes * samples) // the slices have spare capacity
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
	if r := q.source.run; r.stored != nil && q.source.parts != nil { // of an expression
		if err := r.stored.Unread(ctx, hints.Start, hints.End, matchers); err != nil {
			return storage.ErrSeriesSet(err)
		}
	}
	set := &seriesSet{SeriesSet: q.Querier.Select(ctx, sorted, hints, matchers...), source: q.source, windows: windowsOf(hints)}
	set.histogram, set.letter = histogramReads(hints)
	return set
}

// windowsOf returns how often a function may read a sample of a range selector, and 0 if
// there is none.
func windowsOf(hints *storage.SelectHints) float64 {
	if hints == nil || hints.Range == 0 {
		return 0
	}
	if hints.Step == 0 { // of an instant query there is one, although smoothed reads around it
		return readsOf(hints.Func)
	}
	step := float64(hints.Step)
	steps := max(float64(hints.End-hints.Start-hints.Range), 0)/step + 1
	return min(steps, float64(hints.Range)/step+1) * readsOf(hints.Func)
}

// seriesSet charges each series.
type seriesSet struct {
	storage.SeriesSet
	source  *source
	windows float64 // in which a sample is read
	// histogram is as how many samples a histogram counts, and letter a letter of its text.
	histogram, letter float64

	block []series // is filled and then replaced
	err   error
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
	s.block = append(s.block, series{s.SeriesSet.At(), s})
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
	set *seriesSet
}

// Iterator implements storage.Series.
func (s *series) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	run := s.set.source.run
	_ = run.turn.Yield(run.ctx) // the engine looks at the context itself
	i := s.Series.Iterator(it)
	if s.set.windows > 1 {
		if err := s.set.fits(i); err != nil {
			return failedIterator{chunkenc.NewNopIterator(), err}
		}
	}
	return i
}

// histogramReads returns how many floats a function reads in the time of a histogram, and
// how many for each letter of its text. Buckets take a letter or more: 9,000 small
// counts 12,000. Adding up 9,000 buckets takes 20 to 100 us, a float 4 ns.
func histogramReads(hints *storage.SelectHints) (histogram, letter float64) {
	if hints != nil && (hints.Func == "sum_over_time" || hints.Func == "avg_over_time") {
		return 100, 2 // it adds up the buckets
	}
	return 10, 1. / 8 // it compares some of them at most, unless a counter is reset all the time
}

// fits returns an error if the engine would read the windows of a series for too long.
func (s *seriesSet) fits(it chunkenc.Iterator) error {
	counted, ok := it.(interface {
		Samples() (int, int64, error)
	})
	if !ok {
		return nil
	}
	n, letters, err := counted.Samples()
	if err != nil {
		return err
	}
	reads := float64(n) * s.windows
	if letters > 0 {
		reads *= s.histogram
		reads += float64(letters) * s.letter * s.windows
	}
	if limit := s.source.reads; reads > limit {
		return &longWindows{reads: reads, limit: limit}
	}
	return nil
}

// failedIterator is an iterator that has failed.
type failedIterator struct {
	chunkenc.Iterator
	err error
}

// Err implements chunkenc.Iterator.
func (it failedIterator) Err() error { return it.err }
