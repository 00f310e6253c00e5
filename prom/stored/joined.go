package stored

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/annotations"

	"tsdbd/internal/quantiles"
	"tsdbd/prom/queryable"
	"tsdbd/prom/window"
	"tsdbd/query/engine/plan"
)

// scale is a millisecond in the unit of storage.
const scale = int64(time.Millisecond)

// choice is what is read of a measurement in place of its samples.
type choice struct {
	segments []plan.Segment
	schedule *window.Schedule
	every    time.Duration // which the windows of all segments divide
}

// spanOf returns the milliseconds of a segment.
func spanOf(s *plan.Segment) window.Span {
	end := s.Max
	if end < math.MaxInt64 {
		end++
	}
	return window.Span{From: floor(s.Min), To: floor(end)}
}

// floor returns the millisecond of a time of storage.
func floor(ns int64) int64 {
	if ns%scale < 0 {
		return ns/scale - 1
	}
	return ns / scale
}

// joined is series that have windows of downsamples in place of some samples. It is a
// window.Stored.
type joined struct {
	charge   func(bytes int64) error
	way      *window.Way
	choices  map[string]*choice // by measurement
	warnings annotations.Annotations
	samples  bool               // the first of founds has samples
	founds   []*queryable.Found // then a column of a target each
	policies []string           // targets, in the order of founds
	list     []joinedSeries
	windows  window.Windows // of the present series
	room     int            // of windows
	sketched int64          // charged for their sketches
}

// joinedSeries is a series with its place in each of founds, or -1.
type joinedSeries struct {
	labels labels.Labels
	choice *choice // nil: samples alone
	places []int32
}

// joinedBytes is the memory of a series without its labels and places, in the list and in a map.
const joinedBytes = 128

// read adds the series of a source in a span of time.
func (j *joined) read(ctx context.Context, src *queryable.Source, times window.Span, matchers []*labels.Matcher) error {
	found, err := src.Find(ctx, times.From, times.To-1, matchers)
	if err != nil {
		return err
	}
	j.founds = append(j.founds, found)
	j.warnings.Merge(found.Warnings())
	return nil
}

// join finds the series that are the same.
func (j *joined) join() error {
	seen := map[uint64]int{}
	for f, found := range j.founds {
		for i := range found.Len() {
			ls := found.Labels(i)
			hash := ls.Hash()
			at, known := seen[hash]
			for known && !labels.Equal(j.list[at].labels, ls) { // two sets of labels with one hash
				hash++
				at, known = seen[hash]
			}
			if !known {
				if err := j.charge(joinedBytes + 4*int64(len(j.founds))); err != nil {
					return err
				}
				at = len(j.list)
				seen[hash] = at
				places := make([]int32, len(j.founds))
				for k := range places {
					places[k] = -1
				}
				j.list = append(j.list, joinedSeries{labels: ls, choice: j.choices[found.Measurement(i)], places: places})
			}
			j.list[at].places[f] = int32(i)
		}
	}
	return j.settle()
}

// settle has the series of each of founds in the order of the list, which makes reading them
// cheap.
func (j *joined) settle() error {
	for f, found := range j.founds {
		if err := j.charge(4 * int64(found.Len())); err != nil {
			return err
		}
		order := make([]int32, 0, found.Len())
		for i := range j.list {
			if at := &j.list[i].places[f]; *at >= 0 {
				order = append(order, *at)
				*at = int32(len(order) - 1)
			}
		}
		if !slices.IsSorted(order) {
			if err := found.Order(order); err != nil {
				return err
			}
		}
		_ = j.charge(-4 * int64(found.Len())) // giving back cannot fail
	}
	return nil
}

// Len implements window.Reader.
func (j *joined) Len() int { return len(j.list) }

// Labels implements window.Reader.
func (j *joined) Labels(i int) labels.Labels { return j.list[i].labels }

// Order implements window.Reader.
func (j *joined) Order(order []int32) error {
	old := slices.Clone(j.list)
	for i, from := range order {
		j.list[i] = old[from]
	}
	return j.settle()
}

// Samples implements window.Reader.
func (j *joined) Samples(i int) ([]int64, []float64, error) {
	if !j.samples {
		return nil, nil, nil
	}
	return j.of(0, i)
}

// of returns what one of founds has of a series.
func (j *joined) of(found, i int) ([]int64, []float64, error) {
	place := j.list[i].places[found]
	if place < 0 {
		return nil, nil, nil
	}
	return j.founds[found].Samples(int(place))
}

// Windows implements window.Stored.
func (j *joined) Windows(i int) (*window.Windows, error) {
	c := j.list[i].choice
	if c == nil {
		return nil, nil
	}
	w := &j.windows
	w.Schedule, w.Times, w.Lengths = c.schedule, w.Times[:0], w.Lengths[:0]
	w.Columns = slices.Grow(w.Columns[:0], len(j.way.Columns()))[:len(j.way.Columns())]
	for k := range w.Columns {
		w.Columns[k] = w.Columns[k][:0]
	}
	clear(w.Sketches)
	w.Sketches = w.Sketches[:0]
	if err := j.charge(-j.sketched); err != nil {
		return nil, err
	}
	j.sketched = 0
	times, values, err := j.Samples(i)
	if err != nil {
		return nil, err
	}
	next := 0 // of the samples
	for k := range c.segments {
		s := &c.segments[k]
		span := spanOf(s)
		from, _ := slices.BinarySearch(times, span.From)
		if err := j.addSamples(c, times, values, next, from); err != nil {
			return nil, err
		}
		next, _ = slices.BinarySearch(times, span.To)
		policy, ok := slices.BinarySearch(j.policies, s.Policy)
		if !ok {
			continue // none of its windows are read
		}
		if err := j.addWindows(i, policy, span, s.Every().Milliseconds()); err != nil {
			return nil, err
		}
	}
	return w, j.addSamples(c, times, values, next, len(times))
}

// grow makes room for more windows.
func (j *joined) grow(n int) error {
	w := &j.windows
	need := len(w.Times) + n
	if need <= j.room {
		return nil
	}
	need = max(need, 2*j.room)
	if err := j.charge(int64(need-j.room) * 8 * int64(3+len(j.way.Columns()))); err != nil {
		return err
	}
	j.room = need
	w.Times, w.Lengths = slices.Grow(w.Times, need-len(w.Times)), slices.Grow(w.Lengths, need-len(w.Lengths))
	for k := range w.Columns {
		w.Columns[k] = slices.Grow(w.Columns[k], need-len(w.Columns[k]))
	}
	return nil
}

// addSamples adds the samples from one place to another, without markers.
func (j *joined) addSamples(c *choice, times []int64, values []float64, from, to int) error {
	if err := j.grow(to - from); err != nil {
		return err
	}
	w := &j.windows
	for i := from; i < to; i++ {
		t := times[i]
		if window.IsAbsent(values[i]) {
			continue
		}
		if j.way.Steps() {
			if v, ok := step(times[:i+1], values, c.every.Milliseconds()); ok {
				w.Times, w.Lengths, w.Columns[0] = append(w.Times, t), append(w.Lengths, 0), append(w.Columns[0], v)
			}
			continue
		}
		w.Times, w.Lengths = append(w.Times, t), append(w.Lengths, 0)
		if j.way.Sketches() {
			w.Sketches = append(w.Sketches, nil)
		}
		for k, column := range j.way.Columns() {
			v := values[i]
			switch column {
			case "count":
				v = 1
			case "increase":
				v = 0
			}
			w.Columns[k] = append(w.Columns[k], v)
		}
	}
	return nil
}

// step returns what a counter has counted from the sample before the last of some to that, and
// false if there is none in the window of the last or the one before. There may be more values.
func step(times []int64, values []float64, every int64) (float64, bool) {
	last := len(times) - 1
	v, t := values[last], times[last]
	first := t - t%every - every
	if t%every < 0 {
		first -= every
	}
	for i := last - 1; i >= 0 && times[i] >= first && v == v; i-- {
		switch before := values[i]; {
		case before != before: // it is no number, and has no step
		case v < before: // a reset
			return v, true
		default:
			return v - before, true
		}
	}
	return 0, false
}

// addSketches adds the sketches of windows of a series that one of founds has in a span.
func (j *joined) addSketches(found, i int, span window.Span, length int64) error {
	place := j.list[i].places[found]
	if place < 0 {
		return nil
	}
	times, texts, err := j.founds[found].Sketches(int(place))
	if err != nil {
		return err
	}
	from, _ := slices.BinarySearch(times, span.From)
	past, _ := slices.BinarySearch(times, span.To)
	if err := j.grow(past - from); err != nil {
		return err
	}
	w := &j.windows
	for k := from; k < past; k++ {
		s, err := quantiles.Parse(texts[k])
		if err != nil {
			return fmt.Errorf("%v at %s: %w", j.list[i].labels, time.UnixMilli(times[k]).UTC().Format(time.RFC3339), err)
		}
		j.sketched += s.Bytes()
		if err := j.charge(s.Bytes()); err != nil {
			return err
		}
		w.Times, w.Lengths = append(w.Times, times[k]+length-1), append(w.Lengths, length)
		w.Columns[0], w.Sketches = append(w.Columns[0], 0), append(w.Sketches, s)
	}
	return nil
}

// addWindows adds the windows of a series that a target has in a span. A column without a value
// in a window has 0 there: a series with one sample has no increase.
func (j *joined) addWindows(i, policy int, span window.Span, length int64) error {
	w := &j.windows
	first := policy * len(j.way.Columns())
	if j.samples {
		first++
	}
	if j.way.Sketches() {
		return j.addSketches(first, i, span, length)
	}
	at := len(w.Times)
	for k := range j.way.Columns() {
		times, values, err := j.of(first+k, i)
		if err != nil {
			return err
		}
		from, _ := slices.BinarySearch(times, span.From)
		past, _ := slices.BinarySearch(times, span.To)
		times, values = times[from:past], values[from:past]
		if k == 0 {
			if err := j.grow(len(times)); err != nil {
				return err
			}
			w.Columns[0] = append(w.Columns[0], values...)
			for _, start := range times {
				w.Times, w.Lengths = append(w.Times, start+length-1), append(w.Lengths, length)
			}
			continue
		}
		next := 0
		for _, last := range w.Times[at:] {
			start, v := last+1-length, 0.0
			for next < len(times) && times[next] < start {
				next++
			}
			if next < len(times) && times[next] == start {
				v = values[next]
			}
			w.Columns[k] = append(w.Columns[k], v)
		}
	}
	return nil
}

// Warnings returns what the store has lost of the times.
func (j *joined) Warnings() annotations.Annotations { return j.warnings }

// Close gives all memory of the series back.
func (j *joined) Close() {
	for _, found := range j.founds {
		found.Close()
	}
}
