package touched

import (
	"cmp"
	"maps"
	"slices"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
)

// maxSpans is how many spans a downsample may have: some 4 MB. With more, those of the
// measurements that have most are joined.
const maxSpans = 1 << 16

// downsample has the touched windows of a downsample.
type downsample struct {
	meta.Downsample
	takes func(measurement string) bool
	marks map[string]spans // by measurement, "" is all measurements; none is empty
	count int              // spans
	limit int              // of count
	// covered are the windows for which the source has shard groups, in order. What is
	// touched elsewhere in the target cannot be computed, and stays as it is.
	covered []window
	// floor is the start of the first window that is computed.
	floor int64
	// lost is the sequence of the last entry that touched rows of the target which cannot be
	// computed again, since the start.
	lost uint64
	// seen is scratch memory of write: the window that was touched last by rows of
	// each layout.
	seen map[*point.Layout]window
}

// window is a range of windows [from, to).
type window struct{ from, to int64 }

func newDownsample(d *meta.Downsample) *downsample {
	return &downsample{Downsample: *d, takes: d.Takes(), marks: map[string]spans{}, limit: maxSpans, seen: map[*point.Layout]window{}}
}

// cover takes note of the shard groups of the source.
func (t *downsample) cover(source *meta.RetentionPolicy) {
	t.covered, t.floor = nil, t.Floor(source)
	for _, g := range source.ShardGroups {
		r := g.TimeRange()
		w := window{t.Start(r.Min), t.End(r.Max)}
		if n := len(t.covered); n > 0 && w.from <= t.covered[n-1].to {
			t.covered[n-1].to = max(t.covered[n-1].to, w.to)
			continue
		}
		t.covered = append(t.covered, w)
	}
}

// touchAll marks all windows that the source has.
func (t *downsample) touchAll(sequence uint64) {
	for _, w := range t.covered {
		t.put("", span{from: w.from, to: w.to, source: sequence})
	}
}

// align makes the marks those of whole windows, after a change of definitions.
func (t *downsample) align() {
	marks := t.marks
	t.marks, t.count = map[string]spans{}, 0
	for name, s := range marks {
		for _, sp := range s {
			sp.from, sp.to = t.Start(sp.from), t.Ceil(sp.to)
			t.put(name, sp)
		}
	}
}

// touch marks the windows of a range, "" for all measurements.
func (t *downsample) touch(sequence uint64, target bool, measurement string, r model.TimeRange) {
	t.mark(sequence, target, measurement, window{t.Start(r.Min), t.End(r.Max)})
}

// write marks the windows of rows.
func (t *downsample) write(sequence uint64, target bool, rows []point.Row) {
	clear(t.seen)
	var layout *point.Layout
	var w window
	for i := range rows {
		r := &rows[i]
		if r.Layout == layout && r.Time >= w.from && r.Time < w.to {
			continue
		}
		layout = r.Layout
		if target && meta.Staged(layout.Measurement) {
			continue
		}
		if w = t.seen[layout]; r.Time >= w.from && r.Time < w.to {
			continue
		}
		w = window{t.Start(r.Time), t.End(r.Time)}
		t.seen[layout] = w
		t.mark(sequence, target, layout.Measurement, w)
	}
}

// mark marks windows whose rows have changed in the source or the target.
func (t *downsample) mark(sequence uint64, target bool, measurement string, w window) {
	if target && !slices.ContainsFunc(t.covered, func(c window) bool { return max(c.from, t.floor) <= w.from && w.to <= c.to }) {
		t.lost = sequence
	}
	if measurement != "" && !t.takes(measurement) {
		return
	}
	if !target {
		if next := t.Free(w.to); next > w.to && slices.ContainsFunc(t.covered, func(c window) bool { return c.from <= w.to && w.to < c.to }) {
			w.to = next
		}
		t.put(measurement, span{from: w.from, to: w.to, source: sequence})
		return
	}
	for _, c := range t.covered {
		if from, to := max(w.from, c.from), min(w.to, c.to); from < to {
			t.put(measurement, span{from: from, to: to, target: sequence})
		}
	}
}

// put adds a span.
func (t *downsample) put(measurement string, sp span) {
	t.set(measurement, t.marks[measurement].touch(sp), len(t.marks[measurement]))
	t.bound()
}

// set replaces the spans of a measurement, of which there were some.
func (t *downsample) set(measurement string, s spans, before int) {
	if t.count += len(s) - before; len(s) > 0 {
		t.marks[measurement] = s
	} else {
		delete(t.marks, measurement)
	}
}

// bound joins spans if there are too many: to one for each run of windows that the source
// has, for the measurements with most spans first. If there are too many measurements, all
// become marks of all measurements.
func (t *downsample) bound() {
	if t.count <= t.limit {
		return
	}
	names := slices.SortedFunc(maps.Keys(t.marks), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(t.marks[b]), len(t.marks[a])), cmp.Compare(a, b))
	})
	for _, name := range names {
		if t.count <= t.limit/2 {
			return
		}
		before := len(t.marks[name])
		t.set(name, t.marks[name].join(t.covered), before)
	}
	if t.count <= t.limit/2 {
		return
	}
	var all spans
	for _, name := range names {
		for _, sp := range t.marks[name] {
			all = all.touch(sp)
		}
	}
	all = all.join(t.covered)
	t.marks, t.count = map[string]spans{"": all}, len(all)
}

// complete removes the marks of windows that have been computed: from the entries up to
// source, with a target that was right when it had those up to target.
func (t *downsample) complete(w *meta.ComputedWindows, source, target uint64) {
	for name, s := range t.marks {
		if name == w.Measurement || w.Measurement == "" {
			before := len(s)
			t.set(name, s.clear(span{w.From, w.To, source, target}), before)
		}
	}
	t.bound() // a span may have become two
}

// first returns the start of the earliest window of any measurement, end at most.
func (t *downsample) first(end int64) int64 {
	for _, s := range t.marks {
		end = s.first(end)
	}
	return end
}
