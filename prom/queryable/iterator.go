package queryable

import (
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// iterator walks over the samples of a series. It reads them when it first moves.
type iterator struct {
	series *series
	batch  *batch // nil until the samples are read
	samples
	at  int
	err error
}

// reset leaves the samples of one series for another.
func (it *iterator) reset(s *series) {
	if b := it.batch; b != nil {
		b.users--
		it.series.selection.retire(b)
	}
	*it = iterator{series: s, at: -1}
}

// read fetches the samples.
func (it *iterator) read() bool {
	if it.batch != nil {
		return true
	}
	if it.err != nil {
		return false
	}
	place := int(it.series.place)
	b, err := it.series.selection.load(place)
	if err != nil {
		it.err = err
		return false
	}
	b.users++
	it.batch, it.samples = b, *b.series(place)
	return true
}

// Next moves to the next sample.
func (it *iterator) Next() chunkenc.ValueType {
	if it.batch == nil && !it.read() {
		return chunkenc.ValNone
	}
	if it.at < len(it.times) {
		it.at++
	}
	return it.kind()
}

// Seek moves to the first sample at or after t, never back.
func (it *iterator) Seek(t int64) chunkenc.ValueType {
	if it.batch == nil && !it.read() {
		return chunkenc.ValNone
	}
	it.at = max(it.at, 0)
	if it.at < len(it.times) && it.times[it.at] < t {
		it.at += sort.Search(len(it.times)-it.at, func(k int) bool { return it.times[it.at+k] >= t })
	}
	return it.kind()
}

func (it *iterator) kind() chunkenc.ValueType {
	if it.at >= len(it.times) {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

// At returns the sample.
func (it *iterator) At() (int64, float64) { return it.times[it.at], it.values[it.at] }

// AtT returns the time of the sample.
func (it *iterator) AtT() int64 { return it.times[it.at] }

// AtST returns when the counter of the sample began; 0: not known.
func (it *iterator) AtST() int64 { return 0 }

// AtHistogram returns the histogram.
func (it *iterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	return it.times[it.at], nil
}

// AtFloatHistogram returns the histogram.
func (it *iterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return it.times[it.at], nil
}

// Err returns what has ended the walk.
func (it *iterator) Err() error { return it.err }
