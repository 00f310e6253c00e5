package queryable

import (
	"sort"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"tsdbd/prom"
)

// iterator walks over the samples of a series. It reads them when it first moves.
type iterator struct {
	series *series
	batch  *batch // nil until the samples are read
	samples
	at  int
	err error
	// The histogram that the iterator is at, and an older one.
	current, previous parsed
}

// parsed is a histogram that was read from its text.
type parsed struct {
	prom.Histogram
	text  string
	float *histogram.FloatHistogram // nil until it is asked for
}

// floats returns the histogram with floats.
func (p *parsed) floats() *histogram.FloatHistogram {
	if p.float == nil {
		if p.float = p.Float; p.Int != nil {
			p.float = p.Int.ToFloat(nil)
		}
	}
	return p.float
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

// Samples returns the number of samples, and the letters of the texts of those that are
// histograms. A bucket takes one letter or more.
func (it *iterator) Samples() (n int, letters int64, err error) {
	if it.batch == nil && !it.read() {
		return 0, 0, it.err
	}
	for _, text := range it.histograms {
		letters += int64(len(text))
	}
	return len(it.times), letters, nil
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

// sampleTime is in milliseconds. The name tells go vet that Seek is not that of io.Seeker.
type sampleTime = int64

// Seek moves to the first sample at or after t, never back.
func (it *iterator) Seek(t sampleTime) chunkenc.ValueType {
	if it.batch == nil && !it.read() {
		return chunkenc.ValNone
	}
	it.at = max(it.at, 0)
	if it.at < len(it.times) && it.times[it.at] < t {
		it.at += sort.Search(len(it.times)-it.at, func(k int) bool { return it.times[it.at+k] >= t })
	}
	return it.kind()
}

// Last moves to the last sample.
func (it *iterator) Last() chunkenc.ValueType {
	if it.batch == nil && !it.read() {
		return chunkenc.ValNone
	}
	for it.at = len(it.times) - 1; it.at >= 0; it.at-- {
		if len(it.histograms) == 0 || it.histograms[it.at] == "" || it.parse(it.histograms[it.at], &it.current) {
			return it.kind()
		}
	}
	it.at = len(it.times)
	return chunkenc.ValNone
}

// kind returns what the sample is. It passes over texts that are no histogram.
func (it *iterator) kind() chunkenc.ValueType {
	for ; it.at < len(it.times); it.at++ {
		switch {
		case len(it.histograms) == 0 || it.histograms[it.at] == "":
			return chunkenc.ValFloat
		case !it.parse(it.histograms[it.at], &it.current):
		case it.current.Int != nil:
			return chunkenc.ValHistogram
		default:
			return chunkenc.ValFloatHistogram
		}
	}
	return chunkenc.ValNone
}

// parse reads a histogram, unless it has been read already.
func (it *iterator) parse(text string, into *parsed) bool {
	if into.text == text {
		return text != ""
	}
	h, err := prom.ParseHistogram(text)
	if err != nil {
		return false
	}
	if into == &it.current {
		it.previous = it.current
	}
	*into = parsed{Histogram: h, text: text}
	return true
}

// hint returns whether the counter of the histogram was reset. Prometheus knows that
// it was not if the histogram before it is in the same chunk.
func (it *iterator) hint(of histogram.CounterResetHint) histogram.CounterResetHint {
	before := it.before
	if it.at > 0 {
		before = it.histograms[it.at-1]
	}
	switch {
	case of == histogram.GaugeType:
		return of
	case of == histogram.CounterReset || !it.parse(before, &it.previous),
		(it.current.Int == nil) != (it.previous.Int == nil):
		return histogram.UnknownCounterReset
	}
	h, p := it.current.floats(), it.previous.floats()
	if value.IsStaleNaN(p.Sum) || p.CounterResetHint == histogram.GaugeType || h.Schema != p.Schema || h.ZeroThreshold != p.ZeroThreshold ||
		histogram.IsCustomBucketsSchema(h.Schema) && !histogram.CustomBucketBoundsMatch(h.CustomValues, p.CustomValues) {
		return histogram.UnknownCounterReset
	}
	stored := h.CounterResetHint
	h.CounterResetHint = histogram.UnknownCounterReset // which makes it compare
	reset := h.DetectReset(p)
	h.CounterResetHint = stored
	if reset {
		return histogram.UnknownCounterReset
	}
	return histogram.NotCounterReset
}

// At returns the sample.
func (it *iterator) At() (int64, float64) { return it.times[it.at], it.values[it.at] }

// AtT returns the time of the sample.
func (it *iterator) AtT() int64 { return it.times[it.at] }

// AtST returns when the counter of the sample began; 0: not known.
func (it *iterator) AtST() int64 {
	if len(it.starts) == 0 {
		return 0
	}
	return it.starts[it.at]
}

// AtHistogram returns the histogram, in h if that is not nil.
func (it *iterator) AtHistogram(h *histogram.Histogram) (int64, *histogram.Histogram) {
	if h == nil {
		h = new(histogram.Histogram)
	}
	if of := it.current.Int; value.IsStaleNaN(of.Sum) {
		*h = histogram.Histogram{Sum: of.Sum}
	} else {
		of.CopyTo(h)
		h.CounterResetHint = it.hint(of.CounterResetHint)
	}
	return it.times[it.at], h
}

// AtFloatHistogram returns the histogram with floats, in h if that is not nil.
func (it *iterator) AtFloatHistogram(h *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	if h == nil {
		h = new(histogram.FloatHistogram)
	}
	if of := it.current.floats(); value.IsStaleNaN(of.Sum) {
		*h = histogram.FloatHistogram{Sum: of.Sum}
	} else {
		of.CopyTo(h)
		h.CounterResetHint = it.hint(of.CounterResetHint)
	}
	return it.times[it.at], h
}

// Err returns what has ended the walk.
func (it *iterator) Err() error { return it.err }
