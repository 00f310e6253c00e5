package window

import (
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
)

// Set is the result of a part as series that have a sample at each step. The series
// of an aggregation are computed at once, others when their samples are read. A Set
// belongs to one goroutine.
type Set struct {
	*evaluation
	series []computed // of an aggregation
	all    []setSeries
	at     int
	grid   Grid
}

// computed is a series of an aggregation.
type computed struct {
	labels labels.Labels
	steps  []float64
}

// computedBytes is the memory of a series of an aggregation without its steps.
const computedBytes = 128

// NewSet returns the result of the plan over series that it fits. What it charges
// is held until the query ends.
func (p *Plan) NewSet(in Reader, env Env) (*Set, error) {
	s := &Set{grid: Grid{Start: p.spec.Start, Step: p.spec.Step}}
	s.grid.End = s.grid.At(p.steps - 1)
	if p.op == "" {
		var err error
		if s.evaluation, err = p.begin(in, env, nil, liveBytes); err != nil {
			return nil, err
		}
		n := s.in.Len()
		if err := s.Charge(int64(n) * 16); err != nil {
			return nil, err
		}
		s.all = make([]setSeries, n)
		return s, nil
	}
	notes, err := p.Run(in, env, func(ls labels.Labels, steps []float64) error {
		if err := env.Charge(8*int64(len(steps)) + computedBytes + int64(ls.ByteSize())); err != nil {
			return err
		}
		s.series = append(s.series, computed{ls, append([]float64(nil), steps...)})
		return nil
	})
	s.evaluation = &evaluation{Plan: p, Env: env, notes: notes}
	s.all = make([]setSeries, len(s.series))
	return s, err
}

// Len returns the number of series.
func (s *Set) Len() int { return len(s.all) }

// Labels returns the labels of a series.
func (s *Set) Labels(i int) labels.Labels {
	if s.op != "" {
		return s.series[i].labels
	}
	return s.labels(i)
}

// stepsOf returns the steps of a series, or nil if it has none. They are valid until the
// next call.
func (s *Set) stepsOf(i int) ([]float64, error) {
	if s.op != "" {
		return s.series[i].steps, nil
	}
	if found, err := s.compute(i); !found || err != nil {
		return nil, err
	}
	return s.repeated(s.steps), nil
}

// Next implements storage.SeriesSet.
func (s *Set) Next() bool {
	if s.at == len(s.all) {
		return false
	}
	s.all[s.at] = setSeries{s, s.at}
	s.at++
	return true
}

// At implements storage.SeriesSet.
func (s *Set) At() storage.Series { return &s.all[s.at-1] }

// Err implements storage.SeriesSet.
func (s *Set) Err() error { return nil }

// Warnings implements storage.SeriesSet. They come with Notes.
func (s *Set) Warnings() annotations.Annotations { return nil }

// setSeries is a series of a Set.
type setSeries struct {
	set *Set
	i   int
}

// Labels implements storage.Series.
func (s *setSeries) Labels() labels.Labels { return s.set.Labels(s.i) }

// Iterator implements storage.Series.
func (s *setSeries) Iterator(it chunkenc.Iterator) chunkenc.Iterator {
	i, ok := it.(*stepIterator)
	if !ok {
		i = new(stepIterator)
	}
	*i = stepIterator{grid: s.set.grid, steps: i.steps[:0], at: -1}
	i.err = i.fill(s)
	return i
}

// stepIterator walks over the steps of a series, of which it has a copy.
type stepIterator struct {
	grid  Grid
	steps []float64
	at    int
	err   error
}

func (it *stepIterator) fill(s *setSeries) error {
	steps, err := s.set.stepsOf(s.i)
	if err != nil {
		return err
	}
	if n := len(steps); cap(it.steps) < n {
		if err := s.set.Charge(8 * int64(n)); err != nil {
			return err
		}
		it.steps = make([]float64, 0, n)
	}
	it.steps = append(it.steps, steps...)
	return nil
}

func (it *stepIterator) kind() chunkenc.ValueType {
	if it.at >= len(it.steps) {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

// Next implements chunkenc.Iterator.
func (it *stepIterator) Next() chunkenc.ValueType {
	if it.at < len(it.steps) {
		it.at++
	}
	return it.kind()
}

// sampleTime is in milliseconds. The name tells go vet that Seek is not that of io.Seeker.
type sampleTime = int64

// Seek implements chunkenc.Iterator.
func (it *stepIterator) Seek(t sampleTime) chunkenc.ValueType {
	it.at = max(it.at, 0)
	if t > it.grid.At(it.at) {
		past := (t - it.grid.Start + it.grid.Step - 1) / it.grid.Step
		it.at = int(min(past, int64(len(it.steps))))
	}
	return it.kind()
}

// At implements chunkenc.Iterator.
func (it *stepIterator) At() (int64, float64) { return it.AtT(), it.steps[it.at] }

// AtT implements chunkenc.Iterator.
func (it *stepIterator) AtT() int64 { return it.grid.At(it.at) }

// AtST implements chunkenc.Iterator.
func (it *stepIterator) AtST() int64 { return 0 }

// AtHistogram implements chunkenc.Iterator. There are no histograms.
func (it *stepIterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	return it.AtT(), nil
}

// AtFloatHistogram implements chunkenc.Iterator.
func (it *stepIterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return it.AtT(), nil
}

// Err implements chunkenc.Iterator.
func (it *stepIterator) Err() error { return it.err }
