package window

import (
	"container/heap"
	"sort"
)

// Top keeps the k largest or smallest values of each step of one group. It belongs
// to one goroutine.
type Top struct {
	k      int
	bottom bool
	heaps  []topHeap
	kept   int
}

// TopBytes is how many bytes a Top takes for each value that it keeps, and as much
// again while a heap grows.
const TopBytes = 2 * 16

// PlaceBytes is how many bytes a Place takes.
const PlaceBytes = 24

// ranked is a value of a series, which is a number of the caller's.
type ranked struct {
	value  float64
	series int
}

// topHeap has the value on top that the next better one replaces. A NaN is worse
// than all others.
type topHeap struct {
	values []ranked
	bottom bool
}

func (h *topHeap) Len() int { return len(h.values) }
func (h *topHeap) Less(i, j int) bool {
	a, b := h.values[i].value, h.values[j].value
	return a != a || !h.bottom && a < b || h.bottom && a > b
}
func (h *topHeap) Swap(i, j int) { h.values[i], h.values[j] = h.values[j], h.values[i] }
func (h *topHeap) Push(x any)    { h.values = append(h.values, *x.(*ranked)) }
func (h *topHeap) Pop() any      { panic("not called: values are replaced, not removed") }

// NewTop returns a Top for topk, or bottomk if bottom is set. k is at least 1.
func NewTop(bottom bool, k, steps int) *Top {
	t := &Top{k: k, bottom: bottom, heaps: make([]topHeap, steps)}
	for i := range t.heaps {
		t.heaps[i].bottom = bottom
	}
	return t
}

// Reset begins another group.
func (t *Top) Reset() {
	for i := range t.heaps {
		t.heaps[i].values = t.heaps[i].values[:0]
	}
	t.kept = 0
}

// Kept returns how many values the group holds.
func (t *Top) Kept() int { return t.kept }

// Add offers the steps of a series.
func (t *Top) Add(series int, steps []float64) {
	for i, v := range steps {
		if IsAbsent(v) {
			continue
		}
		h := &t.heaps[i]
		if len(h.values) < t.k {
			heap.Push(h, &ranked{v, series})
			t.kept++
			continue
		}
		worst := h.values[0].value
		if !t.bottom && worst < v || t.bottom && worst > v || worst != worst && v == v {
			h.values[0] = ranked{v, series}
			if t.k > 1 {
				heap.Fix(h, 0)
			}
		}
	}
}

// A Place is a value among the best of a step.
type Place struct {
	Series, Step int
	Value        float64
}

// Places appends the values that are kept, by step.
func (t *Top) Places(dst []Place) []Place {
	for i := range t.heaps {
		for _, r := range t.heaps[i].values {
			dst = append(dst, Place{r.series, i, r.value})
		}
	}
	return dst
}

// Best calls yield with the best of the only step of an instant query, the best
// first.
func (t *Top) Best(yield func(series int, v float64)) {
	h := &t.heaps[0]
	sort.Sort(sort.Reverse(h))
	for _, r := range h.values {
		yield(r.series, r.value)
	}
}
