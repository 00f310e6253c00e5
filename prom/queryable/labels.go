package queryable

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"tsdbd/internal/smallest"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/prom"
)

// LabelValues returns the values of a label among the series that matchers choose.
func (q *querier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	if len(matchers) == 0 {
		return q.everywhere(ctx, hints, func(sh scan.Shard, skip []string, texts *texts) error {
			if name == prom.NameLabel {
				return allNames(ctx, sh, selector{columns: q.columns}, texts)
			}
			return sh.EachTagValue(ctx, TagKey(name), skip, func(value string) error { return texts.Add(prom.Text(value)) })
		})
	}
	if name == prom.NameLabel {
		return q.texts(ctx, matchers, hints, anySeries, func(one *looker, t *table, texts *texts) error {
			return one.names(ctx, t, texts)
		})
	}
	return q.texts(ctx, matchers, hints, someSeries, func(one *looker, t *table, texts *texts) error {
		for _, p := range t.parts {
			if err := one.narrow(ctx, t, &p); err != nil {
				return err
			}
			values, err := first(p, t.measurement, TagKey(name), hints)
			if err != nil {
				return err
			}
			for _, v := range values {
				if err := texts.Add(prom.Text(v)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// allNames adds the names of the metrics of a shard that a selector finds.
func allNames(ctx context.Context, sh scan.Shard, all selector, texts *texts) error {
	var fields []field
	for i, measurement := range sh.Measurements() {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		fields, _ = all.fields(fields[:0], measurement, sh.Fields(measurement))
		for _, f := range fields {
			if err := texts.Set.Add(f.metricOf(measurement).name); err != nil {
				return err
			}
		}
	}
	return nil
}

// names adds the names of the metrics of a table. With a predicate, it leaves out metrics
// that none of the selected series has.
func (l *looker) names(ctx context.Context, t *table, texts *texts) error {
	for _, p := range t.parts {
		var has []bool // by metric; nil: each
		if p.filtered && len(p.fields) > 1 {
			has = make([]bool, len(t.metrics))
			err := l.present(ctx, t, []part{p}, func(_ model.SeriesID, metric int) error {
				has[metric] = true
				return nil
			})
			if err != nil {
				return err
			}
		}
		for _, f := range p.fields {
			if has != nil && !has[f.metric] {
				continue
			}
			if err := texts.Set.Add(t.metrics[f.metric].name); err != nil {
				return err
			}
		}
	}
	return nil
}

// narrow leaves a part the series that have one of its metrics.
func (l *looker) narrow(ctx context.Context, t *table, p *part) error {
	if !p.partial {
		return nil
	}
	has := roaring.New() // not more than p.ids, which was charged
	err := l.present(ctx, t, []part{*p}, func(id model.SeriesID, _ int) error {
		has.Add(uint32(id))
		return nil
	})
	p.ids = has
	return err
}

// first returns the values of a tag, as many as hints ask for.
func first(p part, measurement, key string, hints *storage.LabelHints) ([]string, error) {
	if hints != nil && hints.Limit > 0 {
		return p.shard.FirstTagValues(measurement, key, p.ids, hints.Limit)
	}
	return p.shard.TagValues(measurement, key, p.ids)
}

// LabelNames returns the names of the labels of the series that matchers choose.
func (q *querier) LabelNames(ctx context.Context, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	if len(matchers) == 0 {
		return q.everywhere(ctx, hints, func(sh scan.Shard, skip []string, texts *texts) error {
			if len(sh.Measurements()) > len(skip) {
				if err := texts.Add(prom.NameLabel); err != nil {
					return err
				}
			}
			return sh.EachTagKey(ctx, skip, func(key string) error { return texts.Add(prom.Text(key)) })
		})
	}
	var missing map[string]bool // empty: it is not known which there are
	if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name == prom.NameLabel && m.Type == labels.MatchEqual }) {
		// The walk ends when the first names that there are are found: often all metrics have
		// the same.
		list, _, err := q.LabelNames(ctx, hints)
		if err == nil {
			err = q.budget.take(nameBytes * int64(len(list)))
		}
		if err != nil {
			return nil, nil, err
		}
		missing = make(map[string]bool, len(list))
		for _, name := range list {
			missing[name] = true
		}
	}
	left := len(missing)
	return q.texts(ctx, matchers, hints, someSeries, func(one *looker, t *table, texts *texts) error {
		for _, p := range t.parts {
			err := one.tagNames(ctx, t, p, func(name string) bool {
				is, known := missing[name]
				return is || !known && texts.Wants(name)
			}, func(name string) error {
				if missing[name] {
					missing[name] = false
					left--
				}
				return texts.Add(name)
			})
			if err != nil {
				return err
			}
		}
		if left == 0 && len(missing) > 0 {
			return errNoMore
		}
		return nil
	})
}

// nameBytes is the room of a name in a map, without its text.
const nameBytes = 48

// tagNames adds the names of the labels of a part that are wanted.
func (l *looker) tagNames(ctx context.Context, t *table, p part, wants func(name string) bool, add func(name string) error) error {
	keys, err := p.shard.TagKeys(t.measurement)
	if err != nil {
		return err
	}
	if err := l.narrow(ctx, t, &p); err != nil {
		return err
	}
	if p.ids != nil && p.ids.IsEmpty() {
		return nil
	}
	if err := add(prom.NameLabel); err != nil {
		return err
	}
	for _, key := range keys {
		name := prom.Text(key)
		if !wants(name) {
			continue
		}
		one, err := p.shard.FirstTagValues(t.measurement, key, p.ids, 1)
		if err != nil {
			return err
		}
		if len(one) == 0 {
			continue
		}
		if err := add(name); err != nil {
			return err
		}
	}
	return nil
}

// errNoMore ends a walk that has found all there is.
var errNoMore = errors.New("no more")

// texts is a set of names or values.
type texts struct{ *smallest.Set[string] }

// Add adds a copy of a text, which may be a part of a long one.
func (t texts) Add(text string) error {
	if !t.Wants(text) {
		return nil
	}
	return t.Set.Add(strings.Clone(text))
}

// texts collects texts of the tables that matchers choose, and returns the first ones
// if there is a limit.
func (q *querier) texts(ctx context.Context, matchers []*labels.Matcher, hints *storage.LabelHints, look look, f func(*looker, *table, *texts) error) ([]string, annotations.Annotations, error) {
	return q.smallest(hints, func(all *texts) error {
		err := q.lookUp(ctx, q.times, matchers, look, func(one *looker, t *table) error { return f(one, t, all) })
		if errors.Is(err, errNoMore) {
			return nil
		}
		return err
	})
}

// everywhere collects texts of all shards. f gets the measurements that are no metrics.
func (q *querier) everywhere(ctx context.Context, hints *storage.LabelHints, f func(sh scan.Shard, skip []string, all *texts) error) ([]string, annotations.Annotations, error) {
	return q.smallest(hints, func(all *texts) error {
		if q.view == nil {
			return errClosed
		}
		for _, sh := range q.shards(q.times) {
			if err := ctx.Err(); err != nil {
				return err
			}
			var skip []string
			for _, name := range sh.TextMeasurements() {
				if fields, _ := (&selector{columns: q.columns}).fields(nil, name, sh.Fields(name)); len(fields) == 0 {
					skip = append(skip, name)
				}
			}
			if err := f(sh, skip, all); err != nil {
				return err
			}
		}
		return nil
	})
}

// smallest returns the texts that f adds, the first ones if there is a limit.
func (q *querier) smallest(hints *storage.LabelHints, f func(*texts) error) ([]string, annotations.Annotations, error) {
	limit := 0
	if hints != nil {
		limit = hints.Limit
	}
	bytes := func(text string) int64 { return listed*int64(unsafe.Sizeof(text)) + int64(len(text)) }
	all := texts{smallest.New(limit, strings.Compare, bytes, q.budget.take)}
	if err := f(&all); err != nil {
		return nil, nil, err
	}
	return all.Sorted(), q.warnings(q.times), nil
}

// listed is the room of an element in a list that grows, in elements.
const listed = 2

// looker looks up labels of one table after another. What it takes from its budget for a
// table is given back before the next one.
type looker struct {
	querier
	walks   *walks
	table   table           // the present one
	covered map[uint64]bool // by shard, see covers
}

// lookUp calls f with the tables that matchers choose, one after another.
func (q *querier) lookUp(ctx context.Context, times model.TimeRange, matchers []*labels.Matcher, look look, f func(*looker, *table) error) error {
	if q.view == nil {
		return errClosed
	}
	sel, err := q.selector(matchers)
	if err != nil {
		return err
	}
	one := &looker{
		querier: querier{view: q.view, times: times, columns: q.columns, budget: budget{charge: q.budget.take}},
		walks:   newWalks(times, q.budget.take),
		covered: map[uint64]bool{},
	}
	defer func() { one.budget.release(one.budget.held) }()
	defer one.walks.close()
	shards := one.shards(times)
	names, err := one.measurements(ctx, shards, sel)
	if err != nil {
		return err
	}
	held := one.budget.held
	for _, name := range names {
		ok, err := one.fill(ctx, &one.table, shards, name, sel, look)
		if ok && err == nil {
			err = f(one, &one.table)
		}
		if err != nil {
			return err
		}
		one.budget.release(one.budget.held - held)
	}
	return nil
}

// labelSets returns the labels of the series that have samples between the times of
// hints, sorted.
func (q *querier) labelSets(ctx context.Context, hints *storage.SelectHints, matchers []*labels.Matcher) storage.SeriesSet {
	bytes := func(ls labels.Labels) int64 { return listed*int64(unsafe.Sizeof(ls)) + int64(ls.ByteSize()) }
	all := smallest.New(hints.Limit, labels.Compare, bytes, q.budget.take)
	times := q.times.Intersect(rangeOf(hints.Start, hints.End))
	var b labels.ScratchBuilder
	var tags model.Tags
	err := q.lookUp(ctx, times, matchers, allSeries, func(one *looker, t *table) error {
		last := model.SeriesID(0) // that tags are of
		return one.present(ctx, t, t.parts, func(id model.SeriesID, metric int) error {
			if id != last {
				key, err := q.view.SeriesKey(id)
				if err != nil {
					return err
				}
				_, tags = model.ParseSeriesKey(key, tags[:0])
				last = id
			}
			return all.Add(prom.Labels(&b, t.metrics[metric].name, tags))
		})
	})
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	return &labelSet{list: all.Sorted(), at: -1, warnings: q.warnings(times)}
}

// labelSet is a set of series without samples.
type labelSet struct {
	list     []labels.Labels
	at       int
	warnings annotations.Annotations
}

// Next moves to the next series.
func (s *labelSet) Next() bool {
	s.at++
	return s.at < len(s.list)
}

// At returns the series of the last Next. It has no samples.
func (s *labelSet) At() storage.Series { return bare(s.list[s.at]) }

// bare is a series without samples.
type bare labels.Labels

// Labels returns the labels of the series.
func (b bare) Labels() labels.Labels { return labels.Labels(b) }

// Iterator returns no samples.
func (b bare) Iterator(chunkenc.Iterator) chunkenc.Iterator { return chunkenc.NewNopIterator() }

// Err returns nil: what can fail comes from Select.
func (s *labelSet) Err() error { return nil }

// Warnings returns what the store has lost of the times.
func (s *labelSet) Warnings() annotations.Annotations { return s.warnings }
