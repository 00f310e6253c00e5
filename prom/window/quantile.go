package window

import (
	"math"
	"slices"
	"sort"

	"tsdbd/internal/quantiles"
)

// floats sorts as PromQL does: NaN comes first. Use sort.Sort, which Prometheus uses: the
// order of +0 and -0 depends on it.
type floats []float64

func (f floats) Len() int           { return len(f) }
func (f floats) Less(i, j int) bool { return f[i] != f[i] || f[i] < f[j] }
func (f floats) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }

// odd reports whether a value has equals that differ in bits, or no order.
func odd(v float64) bool { return v != v || v == 0 && math.Signbit(v) }

// quantileOf returns the quantile of values, of which there is one at least, and reorders
// them. q is from 0 to 1.
func quantileOf(q float64, values floats) float64 {
	if slices.ContainsFunc(values, odd) {
		sort.Sort(values)
	} else {
		slices.Sort(values)
	}
	return quantileSorted(q, values)
}

// quantileSorted interpolates between the two values next to the rank.
func quantileSorted(q float64, values []float64) float64 {
	n := float64(len(values))
	rank := q * (n - 1)
	lower := math.Max(0, math.Floor(rank))
	upper := math.Min(n-1, lower+1)
	weight := rank - math.Floor(rank)
	return values[int(lower)]*(1-weight) + values[int(upper)]*weight
}

// sortedWindow is the values of a window in order.
type sortedWindow struct {
	values []float64
	lo, hi int // of the window
	odd    int // odd values in it, which values lacks
}

func (k *kernel) emptySorted() { k.sorted = sortedWindow{values: k.sorted.values[:0]} }

// quantile is quantile_over_time. A window that shares most samples with the one
// before takes over its order.
func (k *kernel) quantile(lo, hi int, _ int64) float64 {
	s := &k.sorted
	if s.move(k.v, lo, hi) {
		k.sort(s.values)
	}
	if s.odd > 0 {
		k.values = append(k.values[:0], k.v[lo:hi]...)
		return quantileOf(k.spec.Param, k.values)
	}
	return quantileSorted(k.spec.Param, s.values)
}

// move makes [lo, hi) the window. It reports whether the values must be sorted.
func (s *sortedWindow) move(v []float64, lo, hi int) bool {
	if lo >= s.hi || lo-s.lo+hi-s.hi > (hi-lo)/8+2 {
		s.values, s.odd = s.values[:0], 0
		for _, f := range v[lo:hi] {
			if odd(f) {
				s.odd++
			} else {
				s.values = append(s.values, f)
			}
		}
		s.lo, s.hi = lo, hi
		return true
	}
	for ; s.lo < lo; s.lo++ {
		if f := v[s.lo]; odd(f) {
			s.odd--
		} else {
			i, _ := slices.BinarySearch(s.values, f)
			s.values = slices.Delete(s.values, i, i+1)
		}
	}
	for ; s.hi < hi; s.hi++ {
		if f := v[s.hi]; odd(f) {
			s.odd++
		} else {
			i, _ := slices.BinarySearch(s.values, f)
			s.values = slices.Insert(s.values, i, f)
		}
	}
	return false
}

// quantileOfWindows is quantile_over_time of sketches, and of samples beside them. Samples alone
// have the value that they have without windows.
func (k *kernel) quantileOfWindows(lo, hi int, _ int64) float64 {
	if k.stop() {
		return 0
	}
	sketches := k.windows.Sketches[lo:hi]
	if !slices.ContainsFunc(sketches, func(s *quantiles.Sketch) bool { return s != nil }) {
		k.values = append(k.values[:0], k.v[lo:hi]...)
		return quantileOf(k.spec.Param, k.values)
	}
	var all quantiles.Sketch
	for i, s := range sketches {
		if s == nil {
			all.Add(k.v[lo+i])
		} else {
			all.Merge(s)
		}
	}
	last := float64(all.Count() - 1)
	rank := k.spec.Param * last
	lower := math.Floor(rank)
	weight := rank - lower
	return all.At(uint64(lower))*(1-weight) + all.At(uint64(min(last, lower+1)))*weight
}

// sort sorts values of which none is odd. It calls check now and then if they are very
// many, and gives up with its error.
func (k *kernel) sort(values []float64) {
	if len(values) <= checkedSamples {
		slices.Sort(values)
		return
	}
	k.values = slices.Grow(k.values[:0], len(values))[:len(values)]
	sortRuns(values, k.values, checkedSamples, k.stop)
}

// sortRuns sorts values in runs of a size, and merges the runs. The buffer is as long as
// the values. It gives up when stop returns true.
func sortRuns(values, buffer []float64, size int, stop func() bool) {
	for run := range slices.Chunk(values, size) {
		if stop() {
			return
		}
		slices.Sort(run)
	}
	from, to := values, buffer
	for ; size < len(values); size *= 2 {
		for lo := 0; lo < len(values); lo += 2 * size {
			if stop() {
				return
			}
			mid, hi := min(lo+size, len(values)), min(lo+2*size, len(values))
			mergeRuns(to[lo:hi], from[lo:mid], from[mid:hi])
		}
		from, to = to, from
	}
	copy(values, from)
}

// mergeRuns sets dst to the values of two sorted runs, sorted.
func mergeRuns(dst, a, b []float64) {
	for i := range dst {
		if len(b) == 0 || len(a) > 0 && a[0] <= b[0] {
			dst[i], a = a[0], a[1:]
		} else {
			dst[i], b = b[0], b[1:]
		}
	}
}

// stop reports whether check has failed.
func (k *kernel) stop() bool {
	if k.check != nil && k.failed == nil {
		k.failed = k.check()
	}
	return k.failed != nil
}

// deviation is mad_over_time: the median of the distances from the median.
func (k *kernel) deviation(lo, hi int, _ int64) float64 {
	k.values = append(k.values[:0], k.v[lo:hi]...)
	for _, v := range k.values {
		if v != v {
			return math.NaN()
		}
	}
	median := quantileOf(0.5, k.values)
	for i, v := range k.values {
		k.values[i] = math.Abs(v - median)
	}
	return quantileOf(0.5, k.values)
}
