package queryable

import (
	"context"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"tsdbd/model/scan"
	"tsdbd/prom"
)

// LabelValues returns the values of a label among the series that matchers choose.
func (q *querier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, matchers ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	texts, err := q.each(ctx, matchers, func(t *table, texts *texts) error {
		if name == prom.NameLabel {
			return q.names(ctx, t, texts)
		}
		for _, p := range t.parts {
			if err := q.narrow(ctx, t, &p); err != nil {
				return err
			}
			values, err := first(p, t.measurement, name, hints)
			if err != nil {
				return err
			}
			for _, v := range values {
				if err := texts.add(v); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return limited(texts, hints), q.warnings(q.times), nil
}

// names adds the names of the metrics of a table, of those that a series has which the
// predicate selects.
func (q *querier) names(ctx context.Context, t *table, texts *texts) error {
	for _, p := range t.parts {
		var has *presence
		if p.filtered && len(p.fields) > 1 {
			var err error
			if has, err = q.present(ctx, t, []part{p}, q.times); err != nil {
				return err
			}
		}
		for _, f := range p.fields {
			if has != nil && has.ids[f.metric].IsEmpty() {
				continue
			}
			if err := texts.add(t.metrics[f.metric].name); err != nil {
				return err
			}
		}
	}
	return nil
}

// narrow leaves a part the series that have one of its metrics.
func (q *querier) narrow(ctx context.Context, t *table, p *part) error {
	if !p.partial {
		return nil
	}
	has, err := q.present(ctx, t, []part{*p}, q.times)
	if err != nil {
		return err
	}
	p.ids = roaring.FastOr(has.ids...)
	return nil
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
	texts, err := q.each(ctx, matchers, func(t *table, texts *texts) error {
		for _, p := range t.parts {
			keys, err := p.shard.TagKeys(t.measurement)
			if err != nil {
				return err
			}
			if err := q.narrow(ctx, t, &p); err != nil {
				return err
			}
			if p.ids == nil || !p.ids.IsEmpty() {
				if err := texts.add(prom.NameLabel); err != nil {
					return err
				}
			}
			for _, key := range keys {
				if _, ok := texts.seen[key]; ok {
					continue
				}
				one, err := p.shard.FirstTagValues(t.measurement, key, p.ids, 1)
				if err != nil {
					return err
				}
				if len(one) == 0 {
					continue
				}
				if err := texts.add(key); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return limited(texts, hints), q.warnings(q.times), nil
}

// texts is a set that charges its memory.
type texts struct {
	seen   map[string]struct{}
	budget *budget
}

// setBytes is the memory of a text in a set, without its letters.
const setBytes = 48

func (t *texts) add(text string) error {
	if _, ok := t.seen[text]; ok {
		return nil
	}
	if err := t.budget.take(int64(len(text) + setBytes)); err != nil {
		return err
	}
	t.seen[text] = struct{}{}
	return nil
}

// each collects texts of the tables that matchers choose.
func (q *querier) each(ctx context.Context, matchers []*labels.Matcher, f func(*table, *texts) error) (map[string]struct{}, error) {
	if q.view == nil {
		return nil, errClosed
	}
	sel, err := q.selector(matchers)
	if err != nil {
		return nil, err
	}
	var shards []scan.Shard
	for _, sh := range q.shards(q.times) {
		shards = append(shards, sh.Charged(q.budget.take))
	}
	tables, err := q.tables(ctx, shards, sel, false)
	if err != nil {
		return nil, err
	}
	all := texts{seen: map[string]struct{}{}, budget: &q.budget}
	for _, t := range tables {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := f(t, &all); err != nil {
			return nil, err
		}
	}
	return all.seen, nil
}

// limited returns a set sorted, the first ones if there is a limit.
func limited(set map[string]struct{}, hints *storage.LabelHints) []string {
	out := slices.Sorted(maps.Keys(set))
	if hints != nil && hints.Limit > 0 && len(out) > hints.Limit {
		out = out[:hints.Limit]
	}
	return out
}
