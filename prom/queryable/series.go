package queryable

import (
	"context"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"tsdbd/model"
	"tsdbd/prom"
)

// origin is where samples of a series are: a metric of a series of storage.
type origin struct {
	table  *table
	id     model.SeriesID
	metric int32
	next   int32 // another origin of the same series: its place in selection.more plus 1
}

// series is a set of labels with all origins that have it.
type series struct {
	labels    labels.Labels
	selection *selection
	place     int32 // in selection.series
	origin
}

// seriesBytes is the memory of a series without its labels: itself, and its place
// among the labels that were seen.
const seriesBytes = 64 + 32

// Labels returns the labels of the series.
func (s *series) Labels() labels.Labels { return s.labels }

// Iterator returns the samples of the series. If it gets an iterator that it has
// returned, it uses that one again and gives back the memory of its samples.
// Otherwise memory is held until the querier is closed.
func (s *series) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	i, ok := it.(*iterator)
	if !ok {
		i = new(iterator)
	}
	i.reset(s)
	return i
}

// selection is the series that a call of Select has found.
type selection struct {
	q       *querier
	ctx     context.Context
	times   model.TimeRange
	series  []series
	more    []origin
	seen    map[uint64]int32 // hash of labels to the place of the first series
	current *batch           // the one that was read last
	size    int              // series of the next batch
	free    *batch
}

// Select returns the series that matchers choose. They may have no sample between the
// times. If hints ask for the function "series", Select returns the series that have
// samples, sorted, but not the samples. Only then is a limit regarded.
func (q *querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	if hints != nil && hints.Func == "series" {
		return q.labelSets(ctx, hints, matchers)
	}
	s, err := q.find(ctx, sorted, hints, matchers)
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	return &seriesSet{selection: s, warnings: q.warnings(s.times)}
}

func (q *querier) find(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers []*labels.Matcher) (*selection, error) {
	if q.view == nil {
		return nil, errClosed
	}
	s := &selection{q: q, ctx: ctx, times: q.times}
	if hints != nil {
		s.times = s.times.Intersect(rangeOf(hints.Start, hints.End))
	}
	sel, err := q.selector(matchers)
	if err != nil {
		return nil, err
	}
	tables, err := q.tables(ctx, q.shards(s.times), sel)
	if err != nil {
		return nil, err
	}
	for _, t := range tables {
		if err := s.add(t); err != nil {
			return nil, err
		}
	}
	s.seen = nil
	if sorted {
		slices.SortFunc(s.series, func(a, b series) int { return labels.Compare(a.labels, b.labels) })
	}
	for i := range s.series {
		s.series[i].place = int32(i)
	}
	return s, nil
}

// add builds the labels of the series of a table.
func (s *selection) add(t *table) error {
	var b labels.ScratchBuilder
	var tags model.Tags
	// Room for as many series as may be there uncharged. Most selections have fewer.
	room := int(min(t.ids.GetCardinality()*uint64(len(t.metrics)), 1024))
	s.series = slices.Grow(s.series, room)
	if s.seen == nil {
		s.seen = make(map[uint64]int32, room)
	}
	n := 0
	for ids := t.ids.Iterator(); ids.HasNext(); n++ {
		if n%1024 == 0 {
			if err := s.ctx.Err(); err != nil {
				return err
			}
		}
		id := model.SeriesID(ids.Next())
		key, err := s.q.view.SeriesKey(id)
		if err != nil {
			return err
		}
		if err := s.q.budget.take(int64(len(t.metrics) * (len(key) + seriesBytes))); err != nil {
			return err
		}
		_, tags = model.ParseSeriesKey(key, tags[:0])
		for i, m := range t.metrics {
			s.insert(prom.Labels(&b, m.name, tags), origin{table: t, id: id, metric: int32(i)})
		}
	}
	return nil
}

// insert adds a series, or an origin of a series that is known.
func (s *selection) insert(ls labels.Labels, from origin) {
	hash := ls.Hash()
	for {
		at, ok := s.seen[hash]
		if !ok {
			s.seen[hash] = int32(len(s.series))
			s.series = append(s.series, series{labels: ls, selection: s, origin: from})
			return
		}
		if known := &s.series[at]; labels.Equal(known.labels, ls) {
			from.next = known.next
			s.more = append(s.more, from)
			known.next = int32(len(s.more))
			return
		}
		hash++ // two sets of labels with one hash
	}
}

// origins yields the origins of a series.
func (s *series) origins(yield func(origin) bool) {
	from := s.origin
	for yield(from) && from.next > 0 {
		from = s.selection.more[from.next-1]
	}
}

// seriesSet walks over a selection.
type seriesSet struct {
	selection *selection
	warnings  annotations.Annotations
	next      int
}

// Next moves to the next series.
func (s *seriesSet) Next() bool {
	if s.next >= len(s.selection.series) {
		return false
	}
	s.next++
	return true
}

// At returns the series of the last Next. It is valid until the querier is closed.
func (s *seriesSet) At() storage.Series { return &s.selection.series[s.next-1] }

// Err returns nil: what can fail comes from Select or from an iterator.
func (s *seriesSet) Err() error { return nil }

// Warnings returns what the store has lost of the times.
func (s *seriesSet) Warnings() annotations.Annotations { return s.warnings }
