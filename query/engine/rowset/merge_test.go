package rowset

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

// nextRows is the heap of the standard library, which InfluxDB merges with.
type nextRows struct {
	times []int64
	asc   bool
	runs  [][]int32 // rows left of each run
}

func (h *nextRows) Len() int      { return len(h.runs) }
func (h *nextRows) Swap(i, j int) { h.runs[i], h.runs[j] = h.runs[j], h.runs[i] }
func (h *nextRows) Push(x any)    { h.runs = append(h.runs, x.([]int32)) }

func (h *nextRows) Less(i, j int) bool {
	a, b := h.times[h.runs[i][0]], h.times[h.runs[j][0]]
	return a != b && (a < b) == h.asc
}

func (h *nextRows) Pop() any {
	last := len(h.runs) - 1
	r := h.runs[last]
	h.runs = h.runs[:last]
	return r
}

// TestSeriesHeap compares the order of rows of equal time with that which the
// heap of the standard library leaves.
func TestSeriesHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 0))
	for range 300 {
		var times []int64
		bounds := []int{0}
		for range r.IntN(9) {
			at := int64(r.IntN(3))
			for range r.IntN(12) {
				times = append(times, at)
				at += 1 + int64(r.IntN(3))
			}
			bounds = append(bounds, len(times))
		}
		for _, asc := range []bool{true, false} {
			want := nextRows{times: times, asc: asc}
			for i := 1; i < len(bounds); i++ {
				var rows []int32
				for k := bounds[i-1]; k < bounds[i]; k++ {
					rows = append(rows, int32(k))
				}
				if !asc {
					slices.Reverse(rows)
				}
				if len(rows) > 0 {
					want.runs = append(want.runs, rows)
				}
			}
			heap.Init(&want)
			var order []int32
			for want.Len() > 0 {
				run := heap.Pop(&want).([]int32)
				order = append(order, run[0])
				if len(run) > 1 {
					heap.Push(&want, run[1:])
				}
			}
			if got := NewHeap(times, bounds, asc).Merge(nil); !slices.Equal(got, order) {
				t.Fatalf("times %v, runs end at %v, ascending %t:\n got %v\nwant %v", times, bounds[1:], asc, got, order)
			}
		}
	}
}
