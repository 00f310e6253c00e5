package engine

import (
	"slices"

	"tsdbd/query/admission"
)

// manySeries is the number of series from which on rows of equal time stand in the
// order of the tag sets, and the first rows of all of them are worth looking for.
const manySeries = 64

// tieOrder is what decides between rows of equal time of several series.
type tieOrder uint8

const (
	// bySeries: the tag set of their series.
	bySeries tieOrder = iota
	// asInflux: what InfluxDB's merge of the series leaves, for a group of fewer
	// than manySeries. It has to see the rows from the first on: where they are
	// read in slices of time, the order is bySeries.
	asInflux
	// asInfluxRows is asInflux for rows of several columns, which are compared
	// where they begin with strings.
	asInfluxRows
	// asInfluxChosen is asInfluxRows for the rows that have a value of the first
	// column, which is not compared: a selector chooses one of them.
	asInfluxChosen
)

// mergeSets merges row sets of several sources, or groups of subqueries, by time
// in the level's direction; bySeries leaves rows of equal time in their order.
func mergeSets(stop *admission.Stopper, list []*rowset, asc bool, ties tieOrder) *rowset {
	if len(list) == 1 {
		return list[0]
	}
	out := list[0].clone()
	bounds := []int{0, len(out.times)}
	for _, rs := range list[1:] {
		out.append(rs)
		bounds = append(bounds, len(out.times))
	}
	if !asc {
		for i := range out.times {
			out.times[i] = -out.times[i]
		}
	}
	var perm []int32
	if ties != bySeries && len(list) < manySeries {
		h := newSeriesHeap(out.times, bounds, true)
		if !asc {
			slices.Reverse(h.runs) // groups come last first
		}
		perm = h.merge(stop)
	} else {
		perm = mergeOrder(stop, out.times, bounds)
	}
	if perm != nil {
		*out = out.permute(perm)
	}
	if !asc {
		for i := range out.times {
			out.times[i] = -out.times[i]
		}
	}
	return out
}

// seriesHeap merges runs of rows through a binary heap of their next rows. The
// row of the root leaves; its place is taken by the last, which sinks, and then
// the run's next row rises from the end. That is InfluxDB's way, and all that
// orders its rows of equal time.
type seriesHeap struct {
	times []int64
	asc   bool
	tie   func(a, b int32) bool // of equal time, whether a comes before b; may be nil

	runs    []int32 // the heap
	at, end []int   // next and last row of each run
}

// newSeriesHeap returns a heap of the runs between bounds, which begin with 0.
// Their times ascend, and are walked backwards if asc is false.
func newSeriesHeap(times []int64, bounds []int, asc bool) *seriesHeap {
	n := len(bounds) - 1
	h := &seriesHeap{times: times, asc: asc, runs: make([]int32, 0, n), at: make([]int, n), end: make([]int, n)}
	for i := range n {
		if bounds[i] == bounds[i+1] {
			continue
		}
		h.at[i], h.end[i] = bounds[i], bounds[i+1]-1
		if !asc {
			h.at[i], h.end[i] = h.end[i], h.at[i]
		}
		h.runs = append(h.runs, int32(i))
	}
	return h
}

func (h *seriesHeap) less(i, j int) bool {
	a, b := h.runs[i], h.runs[j]
	if x, y := h.times[h.at[a]], h.times[h.at[b]]; x != y {
		return (x < y) == h.asc
	}
	return h.tie != nil && h.tie(a, b)
}

func (h *seriesHeap) sink(i, n int) {
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
		h.runs[i], h.runs[child] = h.runs[child], h.runs[i]
		i = child
	}
}

func (h *seriesHeap) rise(i int) {
	for i > 0 && h.less(i, (i-1)/2) {
		h.runs[i], h.runs[(i-1)/2] = h.runs[(i-1)/2], h.runs[i]
		i = (i - 1) / 2
	}
}

// merge returns the rows in order.
func (h *seriesHeap) merge(stop *admission.Stopper) []int32 {
	for i := len(h.runs)/2 - 1; i >= 0; i-- {
		h.sink(i, len(h.runs))
	}
	step := 1
	if !h.asc {
		step = -1
	}
	perm := make([]int32, 0, len(h.times))
	for len(h.runs) > 0 && !stop.After(1) {
		last := len(h.runs) - 1
		r := h.runs[0]
		h.runs[0] = h.runs[last]
		h.runs = h.runs[:last]
		h.sink(0, last)
		perm = append(perm, int32(h.at[r]))
		if h.at[r] != h.end[r] {
			h.at[r] += step
			h.runs = append(h.runs, r)
			h.rise(last)
		}
	}
	return perm
}

// mergeOrder returns the stable order by time of rows that are made of sorted
// runs, or nil if they are in order already. bounds holds the runs' ends and a
// leading 0.
func mergeOrder(stop *admission.Stopper, times []int64, bounds []int) []int32 {
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
