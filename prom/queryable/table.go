package queryable

import (
	"context"
	"slices"
	"strings"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/prom"
	"tsdbd/prom/metadata"
)

// table is a measurement with the metrics of it that a selector finds.
type table struct {
	place       int // among the tables
	measurement string
	metrics     []metric
	places      map[metric]int  // in metrics, if they are many
	ids         *roaring.Bitmap // the series in all shards, read-only; nil: nobody asked
	parts       []part          // by time
}

const (
	// tableBytes is about the memory of a table that one shard has, without the numbers
	// in its set.
	tableBytes = 450
	// manyMetrics is the number of metrics above which they are found by a map.
	manyMetrics = 16
)

// metric is a name in Prometheus with the field of its values.
type metric struct{ field, name string }

// part is what one shard has of a table.
type part struct {
	shard  scan.Shard
	ids    *roaring.Bitmap // nil: all series, and nobody asked which
	fields []field
	// partial says that the measurement has other metrics as well: some of the series
	// may have none of these.
	partial bool
	// filtered says that a predicate has selected some of the series.
	filtered bool
	// sole says that the measurement has one field, that of the values: each row has one.
	sole bool
}

// field is a field of a metric.
type field struct {
	key    string
	of     string // the field of the source that it is a column of, or else key
	metric int    // in table.metrics
	role   role
}

// role is what a field says about a sample.
type role uint8

const (
	valueRole     role = iota
	histogramRole      // or a sketch of a column of a target
	startRole
)

// sketchColumn is the column of targets whose values are sketches, as text.
const sketchColumn = "percentile"

// stored reports whether the field is a column of a target.
func (f field) stored() bool { return f.key != f.of }

// tables returns what a selector finds in shards, by measurement, with the series.
func (q *querier) tables(ctx context.Context, shards []scan.Shard, s selector) ([]*table, error) {
	names, err := q.measurements(ctx, shards, s)
	if err != nil {
		return nil, err
	}
	var all []*table
	t := &table{}
	for _, name := range names {
		ok, err := q.fill(ctx, t, shards, name, s, allSeries)
		if err != nil {
			return nil, err
		}
		if ok {
			// The last measurement of a metric wins; it has the longest name.
			t.place = len(all)
			all = append(all, t)
			t = &table{}
		}
	}
	return all, nil
}

// look says when the series of a table are looked up.
type look int

const (
	allSeries  look = iota // always
	someSeries             // if they may be some of those of the measurement
	anySeries              // if there may be none, or none of a metric
)

// fill makes t what a selector finds of a measurement in shards, and returns false if that is
// nothing.
func (q *querier) fill(ctx context.Context, t *table, shards []scan.Shard, measurement string, s selector, look look) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	*t = table{measurement: measurement, metrics: t.metrics[:0], parts: t.parts[:0]}
	for _, sh := range shards {
		fields := sh.Fields(measurement)
		chosen, partial := s.fields(nil, measurement, fields)
		if len(chosen) == 0 {
			continue
		}
		var set *roaring.Bitmap
		sure := len(chosen) == 1 && s.where != nil
		if sure {
			_, sure = slices.BinarySearch(s.sure[sh.ID()], measurement)
		}
		if look == allSeries || partial || s.where != nil && (look == someSeries || !sure) {
			var err error
			if set, err = sh.Select(ctx, measurement, s.where); err != nil {
				return false, err
			}
			if set.IsEmpty() {
				continue
			}
			if err := q.budget.take(2 * int64(set.GetSizeInBytes())); err != nil {
				return false, err
			}
		}
		if len(t.parts) == 0 {
			if err := q.budget.take(tableBytes); err != nil {
				return false, err
			}
		}
		switch {
		case t.ids == nil:
			t.ids = set
		case set != nil:
			t.ids = roaring.Or(t.ids, set)
		}
		for i := range chosen {
			chosen[i].metric = t.metric(chosen[i])
		}
		t.parts = append(t.parts, part{
			shard: sh, ids: set, fields: chosen, partial: partial, filtered: s.where != nil,
			sole: len(fields) == 1 && chosen[0].role == valueRole,
		})
	}
	return len(t.parts) > 0, nil
}

// measurements returns the measurements of shards that may have a metric of a selector,
// sorted. It notes those of which the index says that the predicate chooses series.
func (q *querier) measurements(ctx context.Context, shards []scan.Shard, s selector) ([]string, error) {
	if names, ok := s.exactNames(); ok {
		// Names are looked up, so that one of very many measurements is found at once.
		var all []string
		for _, name := range spellings(names) {
			for measurement := range prom.Splits(name) {
				all = append(all, measurement)
			}
		}
		slices.Sort(all)
		return slices.Compact(all), nil
	}
	var all []string
	held := int64(0) // of the budget, for all
	prefix := s.prefix()
	for _, sh := range shards {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found, exact, err := sh.MeasurementsWhere(ctx, s.where)
		if err != nil {
			return nil, err
		}
		if exact && s.where != nil {
			s.sure[sh.ID()] = found
		}
		room := int64(len(all)+len(found)) * int64(unsafe.Sizeof(""))
		if err := q.budget.take(room); err != nil {
			return nil, err
		}
		if prefix != "" {
			found = slices.DeleteFunc(slices.Clone(found), func(measurement string) bool {
				// A field may complete the prefix.
				return !strings.HasPrefix(measurement, prefix) && !strings.HasPrefix(prefix, measurement)
			})
		}
		all = merged(all, found)
		q.budget.release(held)
		held = room
	}
	return all, nil
}

// merged returns the elements of two sorted lists, equal ones once.
func merged(a, b []string) []string {
	out := make([]string, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		c := strings.Compare(a[0], b[0])
		if c <= 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out = append(out, b[0])
		}
		if c >= 0 {
			b = b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// fields appends to out, which is empty, the fields of a measurement whose metrics a selector
// finds. partial says that the measurement has other metrics as well.
func (s *selector) fields(out []field, measurement string, fields []column.Field) (_ []field, partial bool) {
	if measurement == metadata.Measurement {
		return out, false
	}
	if s.columns != nil {
		return s.stored(out, measurement, fields)
	}
	samples := false // a field of the metric that has the measurement's name
	for _, f := range fields {
		c := field{key: f.Key, of: f.Key}
		switch {
		case f.Key == prom.HistogramField && f.Type == model.String:
			c.role = histogramRole
		case f.Key == prom.StartField && f.Type == model.Integer:
			c.role = startRole
		case f.Key == prom.HistogramField || f.Key == prom.StartField || f.Type == model.String:
			continue
		}
		if c.role == startRole || s.name(prom.MetricName(measurement, f.Key)) {
			out = append(out, c)
			samples = samples || f.Key == prom.ValueField || f.Key == prom.HistogramField
		} else {
			partial = true
		}
	}
	if !samples { // there is nothing to start
		out = slices.DeleteFunc(out, func(f field) bool { return f.role == startRole })
	}
	return out, partial
}

// stored is fields of the target of a downsample. Texts and native histograms have no samples,
// of which there may be counts. Sketches are the only texts.
func (s *selector) stored(out []field, measurement string, fields []column.Field) (_ []field, partial bool) {
	for _, f := range fields {
		for _, name := range s.columns {
			of, ok := strings.CutPrefix(f.Key, name+"_")
			if !ok || (f.Type == model.String) != (name == sketchColumn) || of == prom.HistogramField || of == prom.StartField {
				continue
			}
			if !s.name(prom.MetricName(measurement, of)) || slices.ContainsFunc(fields, func(other column.Field) bool {
				function, ok := strings.CutSuffix(other.Key, "_"+of)
				return ok && other.Type == model.String && (function == "first" || function == "last" || function == "mode")
			}) {
				continue
			}
			c := field{key: f.Key, of: of}
			if name == sketchColumn {
				c.role = histogramRole
			}
			out = append(out, c)
		}
	}
	return out, len(out) < len(fields)
}

// metricOf returns the metric of a field of a measurement.
func (f field) metricOf(measurement string) metric {
	if f.role != valueRole && !f.stored() {
		return metric{field: prom.ValueField, name: prom.MetricName(measurement, prom.ValueField)}
	}
	return metric{field: f.key, name: prom.MetricName(measurement, f.of)}
}

// metric returns the place of the metric of a field.
func (t *table) metric(f field) int {
	m := f.metricOf(t.measurement)
	i, ok := t.places[m]
	if t.places == nil {
		i = slices.Index(t.metrics, m)
		ok = i >= 0
	}
	if ok {
		return i
	}
	t.metrics = append(t.metrics, m)
	switch n := len(t.metrics); {
	case t.places != nil:
		t.places[m] = n - 1
	case n > manyMetrics:
		t.places = make(map[metric]int, 2*n)
		for i, m := range t.metrics {
			t.places[m] = i
		}
	}
	return len(t.metrics) - 1
}
