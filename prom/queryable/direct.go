package queryable

import (
	"context"
	"slices"
	"time"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"tsdbd/model"
)

// Found is the series that matchers choose, for a caller that takes the samples, or sketches, of
// one series after another as slices, without start timestamps. It belongs to one
// goroutine.
type Found struct {
	selection  *selection
	histograms bool
}

// Find returns the series with samples from mint to maxt, in milliseconds, in the order
// in which a querier returns them unsorted. The caller must Close what it returns.
func (s *Source) Find(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher) (*Found, error) {
	q, err := s.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	found, err := q.(*querier).find(ctx, false, nil, matchers)
	if err != nil {
		_ = q.Close() // returns nil
		return nil, err
	}
	found.size = firstSeries(found.times)
	return &Found{found, found.floats()}, nil
}

// Measurements calls f with the measurements with metrics that matchers choose, from mint to maxt in
// milliseconds, and with the fields of these metrics in the source.
func (s *Source) Measurements(ctx context.Context, mint, maxt int64, matchers []*labels.Matcher, f func(measurement string, fields []string)) error {
	q, err := s.Querier(mint, maxt)
	if err != nil {
		return err
	}
	defer q.Close()
	of := q.(*querier)
	return of.lookUp(ctx, of.times, matchers, anySeries, func(_ *looker, t *table) error {
		var fields []string
		for _, p := range t.parts {
			for _, f := range p.fields {
				if !slices.Contains(fields, f.of) {
					fields = append(fields, f.of)
				}
			}
		}
		f(t.measurement, fields)
		return nil
	})
}

// firstSeries returns how many series the first batch has: as many as it has room for
// if there is a sample each second.
func firstSeries(times model.TimeRange) int {
	const most = 64
	seconds := uint64(times.Max-times.Min)/uint64(time.Second) + 1
	return int(max(1, min(batchBytes/sampleBytes/seconds, most)))
}

// Len returns the number of series.
func (f *Found) Len() int { return len(f.selection.series) }

// Labels returns the labels of a series.
func (f *Found) Labels(i int) labels.Labels { return f.selection.series[i].labels }

// Measurement returns the measurement of a series, or one of those that have its metric.
func (f *Found) Measurement(i int) string { return f.selection.series[i].table.measurement }

// Field returns the field of a series in Measurement.
func (f *Found) Field(i int) string {
	s := &f.selection.series[i]
	return s.table.metrics[s.metric].field
}

// Order makes order[i] the series i. It must be called before Samples.
func (f *Found) Order(order []int32) error {
	s := f.selection
	bytes := int64(len(s.series)) * int64(unsafe.Sizeof(series{}))
	if err := s.q.budget.take(bytes); err != nil {
		return err
	}
	ordered := make([]series, len(s.series))
	for i, from := range order {
		ordered[i] = s.series[from]
		ordered[i].place = int32(i)
	}
	s.series = ordered
	s.q.budget.release(bytes) // of the former order
	return nil
}

// Samples returns the samples of a series, which ascend in time. They are valid until
// the next call. Calls with ascending numbers are cheap.
func (f *Found) Samples(i int) (times []int64, values []float64, err error) {
	b, err := f.selection.load(i)
	if err != nil {
		return nil, nil, err
	}
	of := b.series(i)
	return of.times, of.values, nil
}

// Sketches returns the sketches of a series as texts, of a Source whose column has such.
// They are valid as long as samples are.
func (f *Found) Sketches(i int) (times []int64, texts []string, err error) {
	b, err := f.selection.load(i)
	if err != nil {
		return nil, nil, err
	}
	of := b.series(i)
	return of.times, of.histograms, nil
}

// Histograms reports whether some of the samples may be histograms, which Samples
// does not return.
func (f *Found) Histograms() bool { return f.histograms }

// floats has batches read nothing but values and sketches. It reports whether there may be
// histograms.
func (s *selection) floats() (histograms bool) {
	seen := map[*table]bool{}
	for i := range s.series {
		for from := range s.series[i].origins {
			if seen[from.table] {
				continue
			}
			seen[from.table] = true
			for p := range from.table.parts {
				of := &from.table.parts[p].fields
				*of = slices.DeleteFunc(*of, func(f field) bool {
					if f.stored() {
						return false
					}
					histograms = histograms || f.role == histogramRole
					return f.role != valueRole
				})
			}
		}
	}
	return histograms
}

// Warnings returns what the store has lost of the times.
func (f *Found) Warnings() annotations.Annotations {
	return f.selection.q.warnings(f.selection.times)
}

// Close gives all memory back.
func (f *Found) Close() {
	s := f.selection
	_ = s.q.Close() // returns nil
	for _, b := range []*batch{s.current, s.free} {
		if b != nil {
			b.keep()
		}
	}
	s.current, s.free = nil, nil
}
