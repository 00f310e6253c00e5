package promjudge

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Reference is the storage of Prometheus, with all samples in memory.
type Reference struct{ *tsdb.DB }

// NewReference opens an empty one in a directory.
func NewReference(dir string) (*Reference, error) {
	opts := tsdb.DefaultOptions()
	opts.MinBlockDuration = int64(1000 * 24 * time.Hour / time.Millisecond) // all in memory
	opts.MaxBlockDuration = opts.MinBlockDuration
	opts.RetentionDuration = 0
	opts.EnableExemplarStorage = true
	opts.MaxExemplars = 1000
	db, err := tsdb.Open(dir, nil, nil, opts, tsdb.NewDBStats())
	if err != nil {
		return nil, err
	}
	db.DisableCompactions()
	return &Reference{db}, nil
}

// Store adds the samples of a dataset. Prometheus adds buckets of its chunks to the
// histograms that it gets, so it gets copies.
func (ref *Reference) Store(ctx context.Context, d *Dataset) error {
	app := ref.AppenderV2(ctx)
	for _, s := range d.Series {
		var id storage.SeriesRef
		for _, one := range s.Samples {
			if one.Int != nil {
				one.Int = one.Int.Copy()
			}
			if one.Float != nil {
				one.Float = one.Float.Copy()
			}
			var err error
			if id, err = app.Append(id, s.Labels, 0, one.Time, one.Value, one.Int, one.Float, storage.AppendV2Options{}); err != nil {
				return errors.Join(err, app.Rollback())
			}
		}
	}
	return app.Commit()
}

// Querier returns a querier that selects series in the order of their labels, see Dataset.
// It does not change the order of matchers as Prometheus' storage does: they are those of
// the query, and absent_over_time reads them afterwards.
func (ref *Reference) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := ref.DB.Querier(mint, maxt)
	return ordered{q}, err
}

type ordered struct{ storage.Querier }

func (q ordered) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	return asSent{q.Querier.Select(ctx, true, hints, slices.Clone(matchers)...)}
}

// asSent takes the empty buckets from histograms. Prometheus adds them, to give all
// histograms of a chunk the same buckets, and they show in answers: an infinite number of
// times nothing is not a number.
type asSent struct{ storage.SeriesSet }

func (s asSent) At() storage.Series { return asSentSeries{s.SeriesSet.At()} }

type asSentSeries struct{ storage.Series }

func (s asSentSeries) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	if old, ok := it.(asSentIterator); ok {
		it = old.Iterator
	}
	return asSentIterator{s.Series.Iterator(it)}
}

type asSentIterator struct{ chunkenc.Iterator }

func (it asSentIterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	t, h := it.Iterator.AtHistogram(nil)
	return t, h.Copy().Compact(0)
}

func (it asSentIterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	t, h := it.Iterator.AtFloatHistogram(nil)
	return t, h.Copy().Compact(0)
}

// Question is an expression and the times for which it is asked.
type Question struct {
	Expr       string
	Start, End int64 // ms
	Step       int64 // ms; 0: an instant query at End
}

// Ask has an engine of Prometheus answer a question over a storage.
func Ask(ctx context.Context, engine *promql.Engine, from storage.Queryable, q Question) *Answer {
	var query promql.Query
	var err error
	if q.Step == 0 {
		query, err = engine.NewInstantQuery(ctx, from, nil, q.Expr, time.UnixMilli(q.End))
	} else {
		query, err = engine.NewRangeQuery(ctx, from, nil, q.Expr, time.UnixMilli(q.Start), time.UnixMilli(q.End), time.Duration(q.Step)*time.Millisecond)
	}
	if err != nil {
		return &Answer{Err: err.Error()}
	}
	defer query.Close()
	return newAnswer(q.Expr, query.Exec(ctx))
}
