package queryable

import (
	"context"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/prom"
)

// table is a measurement with the metrics of it that a selector finds.
type table struct {
	measurement string
	metrics     []metric
	ids         *roaring.Bitmap // the series in all shards
	parts       []part          // by time
}

// metric is a field of a measurement under its name in Prometheus.
type metric struct{ field, name string }

// part is what one shard has of a table.
type part struct {
	shard   scan.Shard
	ids     *roaring.Bitmap
	fields  []string // to read
	metrics []int    // of each field
}

// tables returns what a selector finds in shards, by measurement.
func (q *querier) tables(ctx context.Context, shards []scan.Shard, s selector) ([]*table, error) {
	var all []*table
	found := map[string]*table{}
	for _, sh := range shards {
		for measurement, fields := range q.candidates(ctx, sh, s) {
			metrics := s.metrics(measurement, fields)
			if len(metrics) == 0 {
				continue
			}
			ids, err := sh.Select(ctx, measurement, s.where)
			if err != nil {
				return nil, err
			}
			if ids.IsEmpty() {
				continue
			}
			t := found[measurement]
			if t == nil {
				t = &table{measurement: measurement, ids: roaring.New()}
				found[measurement] = t
				all = append(all, t)
			}
			if err := q.budget.take(2 * int64(ids.GetSizeInBytes())); err != nil {
				return nil, err
			}
			t.ids.Or(ids)
			p := part{shard: sh, ids: ids}
			for _, m := range metrics {
				i := slices.Index(t.metrics, m)
				if i < 0 {
					i = len(t.metrics)
					t.metrics = append(t.metrics, m)
				}
				p.fields, p.metrics = append(p.fields, m.field), append(p.metrics, i)
			}
			t.parts = append(t.parts, p)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	// The last measurement of a metric wins; it has the longest name.
	slices.SortFunc(all, func(a, b *table) int { return strings.Compare(a.measurement, b.measurement) })
	return all, nil
}

// candidates yields the measurements of a shard that may have a metric of a
// selector, with their fields.
func (q *querier) candidates(ctx context.Context, sh scan.Shard, s selector) func(yield func(string, []column.Field) bool) {
	return func(yield func(string, []column.Field) bool) {
		if names, ok := s.exactNames(); ok {
			// Names are looked up, so that one of very many measurements is found at once.
			seen := map[string]bool{}
			for _, name := range names {
				for measurement := range prom.Splits(name) {
					if seen[measurement] {
						continue
					}
					seen[measurement] = true
					if fields := sh.Fields(measurement); fields != nil && !yield(measurement, fields) {
						return
					}
				}
			}
			return
		}
		prefix := s.prefix()
		for i, measurement := range sh.Measurements() {
			if i%1024 == 0 && ctx.Err() != nil {
				return
			}
			// A field may complete the prefix.
			if !strings.HasPrefix(measurement, prefix) && !strings.HasPrefix(prefix, measurement) {
				continue
			}
			if !yield(measurement, sh.Fields(measurement)) {
				return
			}
		}
	}
}

// metrics returns the metrics of a measurement that a selector finds.
func (s *selector) metrics(measurement string, fields []column.Field) []metric {
	var out []metric
	for _, f := range fields {
		if f.Type == model.String {
			continue
		}
		if name := prom.MetricName(measurement, f.Key); s.name(name) {
			out = append(out, metric{field: f.Key, name: name})
		}
	}
	return out
}
