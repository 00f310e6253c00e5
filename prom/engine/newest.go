package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"tsdbd/prom"
)

// newestBytes is the memory of a sample in a list that grows, without its histogram.
const newestBytes = 2 * 64

// Newest passes the newest sample of each series to each, in the order of the names of
// the metrics and then of the labels. It leaves out series that have ended, and native
// histograms but those with buckets of their own, because the text form of samples has
// none. The error is an *Error, or that of each.
func (e *Engine) Newest(ctx context.Context, l *Lookup, each func(*promql.Sample) error) (out *Outcome, err error) {
	err = e.admit(ctx, &l.Access, l.text("federate"), func(r *run) error {
		q, err := r.querier(l)
		if err != nil {
			return err
		}
		defer q.Close()
		list, notes, err := r.newest(q, l)
		if err != nil {
			return err
		}
		out = noted(notes, false)
		for i := range list {
			if i%contextRows == 0 {
				if err := r.pause(); err != nil {
					return err
				}
			}
			if r.failed = each(&list[i]); r.failed != nil {
				return r.failed
			}
		}
		return nil
	})
	return out, err
}

// newest gathers the samples that Newest passes on.
func (r *run) newest(q storage.Querier, l *Lookup) (list []promql.Sample, notes annotations.Annotations, err error) {
	var it chunkenc.Iterator
	notes, err = r.each(queriers{q}, l, "", func(series storage.Series) error {
		it = series.Iterator(it)
		s := promql.Sample{Metric: series.Labels()}
		switch it.(interface{ Last() chunkenc.ValueType }).Last() {
		case chunkenc.ValNone:
			return it.Err()
		case chunkenc.ValFloat:
			if s.T, s.F = it.At(); value.IsStaleNaN(s.F) {
				return nil
			}
		default:
			if s.T, s.H = it.AtFloatHistogram(nil); value.IsStaleNaN(s.H.Sum) || !s.H.UsesCustomBuckets() {
				return nil
			}
			if err := r.keep(int64(s.H.Size())); err != nil {
				return err
			}
		}
		list = append(list, s)
		return r.keep(newestBytes)
	})
	// Labels whose names sort before that of the name come first in the order of labels.
	slices.SortStableFunc(list, func(a, b promql.Sample) int {
		return strings.Compare(a.Metric.Get(prom.NameLabel), b.Metric.Get(prom.NameLabel))
	})
	return list, notes, err
}
