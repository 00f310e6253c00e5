package touched

import (
	"maps"
	"math"
	"slices"

	"tsdbd/meta"
)

// set has touched windows: of all measurements, and of single ones.
type set struct {
	all          spans
	measurements map[string]spans
	every        int64 // of the downsample
	// covered are the windows for which the source has shard groups. No span is joined
	// over others: the target may have rows there that nothing can compute.
	covered []window
	count   int // spans
	limit   int // of count
}

func newSet() set { return set{measurements: map[string]spans{}, limit: maxSpans} }

// put marks windows of a measurement, "" for all.
func (t *set) put(measurement string, w window, sequence uint64) {
	if measurement == "" {
		before := len(t.all)
		t.all = t.all.touch(w.from, w.to, sequence)
		t.count += len(t.all) - before
	} else {
		old := t.measurements[measurement]
		next := old.touch(w.from, w.to, sequence)
		t.count += len(next) - len(old)
		t.measurements[measurement] = next
	}
	if t.count > t.limit {
		t.coarsen()
	}
}

// coarsen makes the spans half as many as there may be, or fewer.
func (t *set) coarsen() {
	for gap := int64(0); t.count > t.limit/2; gap = max(t.every, 2*gap) {
		before := t.count
		t.all = t.all.join(gap, t.covered)
		t.count = len(t.all)
		for name, s := range t.measurements {
			t.measurements[name] = s.join(gap, t.covered)
			t.count += len(t.measurements[name])
		}
		if t.count == before && t.count <= len(t.measurements)+1 || gap < 0 || gap > math.MaxInt64/4 {
			break
		}
	}
	if t.count <= t.limit/2 {
		return
	}
	// There are very many measurements.
	for _, name := range slices.Sorted(maps.Keys(t.measurements)) {
		for _, sp := range t.measurements[name] {
			t.all = t.all.touch(sp.from, sp.to, sp.sequence)
		}
	}
	clear(t.measurements)
	for gap := t.every; len(t.all) > t.limit/2 && gap > 0; gap *= 2 {
		t.all = t.all.join(gap, t.covered)
	}
	t.count = len(t.all)
}

// complete removes the marks of windows that have been computed from the entries up to a
// sequence.
func (t *set) complete(w *meta.ComputedWindows, sequence uint64) {
	clearOf := func(name string) {
		s := t.measurements[name]
		before := len(s)
		s = s.clear(w.From, w.To, sequence)
		t.count += len(s) - before
		if len(s) == 0 {
			delete(t.measurements, name)
			return
		}
		t.measurements[name] = s
	}
	if w.Measurement != "" {
		clearOf(w.Measurement)
	} else {
		for name := range t.measurements {
			clearOf(name)
		}
		before := len(t.all)
		t.all = t.all.clear(w.From, w.To, sequence)
		t.count += len(t.all) - before
	}
	if t.count > t.limit { // a span may have become two
		t.coarsen()
	}
}

// first returns the start of the earliest window of any measurement, end at most.
func (t *set) first(end int64) int64 {
	end = t.earliest("", end)
	for _, s := range t.measurements {
		if len(s) > 0 {
			end = min(end, s[0].from)
		}
	}
	return end
}

// earliest returns the start of the earliest window of a measurement, end at most.
func (t *set) earliest(measurement string, end int64) int64 {
	for _, s := range []spans{t.all, t.measurements[measurement]} {
		if len(s) > 0 {
			end = min(end, s[0].from)
		}
	}
	return end
}
