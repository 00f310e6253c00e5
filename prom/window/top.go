package window

import (
	"container/heap"
	"sort"
)

// top keeps the k largest or smallest values of each step of one group. It belongs
// to one goroutine.
type top struct {
	k      int
	bottom bool
	heaps  []topHeap
	kept   int
}

// topBytes is how many bytes a top takes for each value that it keeps, and as much
// again while a heap grows.
const topBytes = 2 * 16

// placeBytes is how many bytes a place takes.
const placeBytes = 24

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

// newTop returns a top for topk, or bottomk if bottom is set. k is at least 1.
func newTop(bottom bool, k, steps int) *top {
	t := &top{k: k, bottom: bottom, heaps: make([]topHeap, steps)}
	for i := range t.heaps {
		t.heaps[i].bottom = bottom
	}
	return t
}

// Reset begins another group.
func (t *top) Reset() {
	for i := range t.heaps {
		t.heaps[i].values = t.heaps[i].values[:0]
	}
	t.kept = 0
}

// Kept returns how many values the group holds.
func (t *top) Kept() int { return t.kept }

// Add offers the steps of a series.
func (t *top) Add(series int, steps []float64) {
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

// place is a value among the best of a step.
type place struct {
	Series, Step int
	Value        float64
}

// Places appends the values that are kept, by step. sorted puts the best of each step
// first.
func (t *top) Places(dst []place, sorted bool) []place {
	for i := range t.heaps {
		if sorted {
			sort.Sort(sort.Reverse(&t.heaps[i]))
		}
		for _, r := range t.heaps[i].values {
			dst = append(dst, place{r.series, i, r.value})
		}
	}
	return dst
}
