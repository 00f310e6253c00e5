package rowset

import (
	"slices"

	"tsdbd/query/admission"
)

// ManySeries is the least number of series for which rows of equal time are in the
// order of the tag sets, and for which a search for the first rows of all pays.
const ManySeries = 64

// Ties is what decides between rows of equal time of several series.
type Ties uint8

const (
	// BySeries orders them by the tag set of their series.
	BySeries Ties = iota
	// AsInflux leaves them as InfluxDB's merge of the series does, in a group of
	// fewer than ManySeries. The merge has to see all rows from the first: rows that
	// are read in slices of time are in the order BySeries.
	AsInflux
	// AsInfluxRows is AsInflux for rows of several columns. If the first columns
	// are strings, they are compared.
	AsInfluxRows
	// AsInfluxChosen is AsInfluxRows for rows from which a selector chooses: those
	// with a value of the first column, which is not compared.
	AsInfluxChosen
)

// Merge merges row sets of several sources, or groups of subqueries, by time
// in the level's direction. BySeries leaves rows of equal time in their order.
func Merge(stop *admission.Stopper, list []*Set, asc bool, ties Ties) *Set {
	if len(list) == 1 {
		return list[0]
	}
	out := list[0].Clone()
	bounds := []int{0, len(out.Times)}
	for _, rs := range list[1:] {
		out.Append(rs)
		bounds = append(bounds, len(out.Times))
	}
	if !asc {
		for i := range out.Times {
			out.Times[i] = -out.Times[i]
		}
	}
	var perm []int32
	if ties != BySeries && len(list) < ManySeries {
		h := NewHeap(out.Times, bounds, true)
		if !asc {
			slices.Reverse(h.Runs) // groups come last first
		}
		perm = h.Merge(stop)
	} else {
		perm = Order(stop, out.Times, bounds)
	}
	if perm != nil {
		*out = out.Permute(perm)
	}
	if !asc {
		for i := range out.Times {
			out.Times[i] = -out.Times[i]
		}
	}
	return out
}

// Heap merges runs of rows through a binary heap of their next rows. The
// row of the root leaves; its place is taken by the last, which sinks, and then
// the run's next row rises from the end. That is InfluxDB's way, and all that
// orders its rows of equal time.
type Heap struct {
	times []int64
	asc   bool
	Tie   func(a, b int32) bool // of equal time, whether a comes before b; may be nil

	Runs    []int32 // the heap
	At, end []int   // next and last row of each run
}

// NewHeap returns a heap of the runs between bounds, which begin with 0.
// Their times ascend, and are walked backwards if asc is false.
func NewHeap(times []int64, bounds []int, asc bool) *Heap {
	n := len(bounds) - 1
	h := &Heap{times: times, asc: asc, Runs: make([]int32, 0, n), At: make([]int, n), end: make([]int, n)}
	for i := range n {
		if bounds[i] == bounds[i+1] {
			continue
		}
		h.At[i], h.end[i] = bounds[i], bounds[i+1]-1
		if !asc {
			h.At[i], h.end[i] = h.end[i], h.At[i]
		}
		h.Runs = append(h.Runs, int32(i))
	}
	return h
}

func (h *Heap) less(i, j int) bool {
	a, b := h.Runs[i], h.Runs[j]
	if x, y := h.times[h.At[a]], h.times[h.At[b]]; x != y {
		return (x < y) == h.asc
	}
	return h.Tie != nil && h.Tie(a, b)
}

func (h *Heap) sink(i, n int) {
	for {
		child := 2*i + 1
		if child >= n {
			return
		}
		if child+1 < n && h.less(child+1, child) {
			child++
		}
		if !h.less(child, i) {
			return
		}
		h.Runs[i], h.Runs[child] = h.Runs[child], h.Runs[i]
		i = child
	}
}

func (h *Heap) rise(i int) {
	for i > 0 && h.less(i, (i-1)/2) {
		h.Runs[i], h.Runs[(i-1)/2] = h.Runs[(i-1)/2], h.Runs[i]
		i = (i - 1) / 2
	}
}

// Merge returns the rows in order.
func (h *Heap) Merge(stop *admission.Stopper) []int32 {
	for i := len(h.Runs)/2 - 1; i >= 0; i-- {
		h.sink(i, len(h.Runs))
	}
	step := 1
	if !h.asc {
		step = -1
	}
	perm := make([]int32, 0, len(h.times))
	for len(h.Runs) > 0 && !stop.After(1) {
		last := len(h.Runs) - 1
		r := h.Runs[0]
		h.Runs[0] = h.Runs[last]
		h.Runs = h.Runs[:last]
		h.sink(0, last)
		perm = append(perm, int32(h.At[r]))
		if h.At[r] != h.end[r] {
			h.At[r] += step
			h.Runs = append(h.Runs, r)
			h.rise(last)
		}
	}
	return perm
}

// Order returns the stable order by time of rows in sorted runs, or nil if the rows are
// in order already. bounds holds a 0 and the ends of the runs.
func Order(stop *admission.Stopper, times []int64, bounds []int) []int32 {
	sorted := true
	for _, b := range bounds[1:] {
		if b < len(times) && b > 0 && times[b-1] > times[b] {
			sorted = false
			break
		}
	}
	if sorted {
		return nil
	}
	n := len(times)
	keys, perm := slices.Clone(times), make([]int32, n)
	for i := range perm {
		perm[i] = int32(i)
	}
	keys2, perm2 := make([]int64, n), make([]int32, n)
	for len(bounds) > 2 {
		next := bounds[:1:1]
		for i := 0; i+1 < len(bounds); i += 2 {
			lo, mid := bounds[i], bounds[i+1]
			hi := mid
			if i+2 < len(bounds) {
				hi = bounds[i+2]
			}
			a, b := lo, mid
			for k := lo; k < hi; {
				upTo := min(k+stop.Block(), hi)
				if stop.After(upTo - k) {
					return perm
				}
				for ; k < upTo; k++ {
					if a < mid && (b >= hi || keys[a] <= keys[b]) {
						keys2[k], perm2[k] = keys[a], perm[a]
						a++
					} else {
						keys2[k], perm2[k] = keys[b], perm[b]
						b++
					}
				}
			}
			next = append(next, hi)
		}
		keys, keys2, perm, perm2 = keys2, keys, perm2, perm
		bounds = next
	}
	return perm
}
