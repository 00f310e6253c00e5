package partial

import (
	"cmp"
	"slices"

	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/engine/read"
)

// A step is how much a value of a series is above the one before it, or the value itself if
// it is below: a counter has begun again. It is of the window of the later value, and there
// is none if the earlier one is not in that window or the window before.

// sample is a value of a series.
type sample struct {
	t    int64
	word uint64
}

// run is what a unit has of a series and a column. Steps between runs are added once all
// are known (Join).
type run struct {
	source      int // place among those of the level
	series      model.SeriesID
	slot        int
	group, part int32
	first, last sample
	some        bool // there is a value
	counts      bool // first is no row of the lead
}

const stepBytes = 80

// foldSteps adds the steps to rows [lo, hi) of a window. Rows of the same series come in order
// of time.
func (w *Worker) foldSteps(st *State, sl *Slot, v *column.Vector, lo, hi int) bool {
	s := &w.present[sl.Col]
	met, joined := false, false
	var base uint64 // from which the values have risen
	for r := lo; r < hi; r++ {
		if !v.IsValid(r) {
			continue
		}
		met = true
		now := sample{w.Times[r], v.Word(r)}
		counts := now.t >= w.from
		if !s.some {
			s.some, s.first, s.counts = true, now, counts
		} else if counts && (joined || w.p.near(s.last.t, now.t)) {
			if !joined {
				joined, base = true, s.last.word
			}
			st.N++
			if sl.Type.Less(now.word, s.last.word) {
				st.rise(sl.Type, base, s.last.word)
				base = 0
			}
		}
		s.last = now
	}
	if joined {
		st.rise(sl.Type, base, s.last.word)
	}
	return met
}

// near reports whether a time lies in the window of a later one or in the window before.
func (p *Plan) near(before, at int64) bool {
	return p.Windows.None() || before >= p.Windows.Prev(p.Windows.Start(at))
}

// rise adds the difference of two values to a sum.
func (st *State) rise(t model.FieldType, from, to uint64) {
	switch {
	case from == to:
	case t == model.Float:
		st.AddFloat(vector.TwoSum(FloatOf(to), -FloatOf(from)))
	case t == model.Integer:
		st.AddWide(Wide(int64(to)))
		st.SubWide(Wide(int64(from)))
	default:
		st.AddWide(Wide(to))
		st.SubWide(Wide(from))
	}
}

// begin comes before the rows of a unit that steps are folded of.
func (w *Worker) begin(u *read.Unit) {
	w.from = model.MinTime
	if u.Lead > 0 {
		w.from = u.Range.Min + u.Lead
	}
}

// endSeries comes after the rows of a series of a unit.
func (w *Worker) endSeries(u *read.Unit, id model.SeriesID, g int32) {
	for i := range w.p.Slots {
		s := &w.present[w.p.Slots[i].Col]
		if w.p.Parts && s.some {
			s.source, s.series, s.slot, s.group, s.part = u.Order, id, i, g, u.Part
			w.t.steps = append(w.t.steps, *s)
			w.t.Bytes += stepBytes
		}
	}
	clear(w.present)
}

// Join adds the steps between the runs of the same series.
func (t *Table) Join(p *Plan) {
	slices.SortFunc(t.steps, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.series, b.series), cmp.Compare(a.slot, b.slot), cmp.Compare(a.first.t, b.first.t))
	})
	for i := range t.steps {
		if t.Stop.After(1) || i == 0 {
			continue
		}
		a, b := &t.steps[i-1], &t.steps[i]
		if a.source != b.source || a.series != b.series || a.slot != b.slot || a.part != b.part || !b.counts || !p.near(a.last.t, b.first.t) {
			continue
		}
		st, from := &t.At(b.group, p.number(p.Windows.Start(b.first.t)))[b.slot], a.last.word
		if st.N++; p.Slots[b.slot].Type.Less(b.first.word, from) {
			from = 0
		}
		st.rise(p.Slots[b.slot].Type, from, b.first.word)
	}
	t.Bytes -= int64(len(t.steps)) * stepBytes
	t.steps = nil
}

// Stepped reports whether the plan is of steps. Then all of its slots are.
func (p *Plan) Stepped() bool { return len(p.Slots) > 0 && p.Slots[0].Kind == Increase }
