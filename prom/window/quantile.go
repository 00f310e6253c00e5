package window

import (
	"math"
	"slices"
	"sort"
)

// floats sorts as PromQL does: NaN comes first. Only sort.Sort on it gives equal
// values that differ in bits, zeros of both signs, the order that PromQL gives
// them.
type floats []float64

func (f floats) Len() int           { return len(f) }
func (f floats) Less(i, j int) bool { return f[i] != f[i] || f[i] < f[j] }
func (f floats) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }

// odd reports whether a value has equals that differ in bits, or no order.
func odd(v float64) bool { return v != v || v == 0 && math.Signbit(v) }

// quantileOf returns the quantile of values and reorders them.
func quantileOf(q float64, values floats) float64 {
	if v, ok := quantileBounds(q, len(values)); !ok {
		return v
	}
	if slices.ContainsFunc(values, odd) {
		sort.Sort(values)
	} else {
		slices.Sort(values)
	}
	return quantileSorted(q, values)
}

// quantileBounds returns the quantile, and false, where it does not depend on the
// values.
func quantileBounds(q float64, n int) (float64, bool) {
	switch {
	case n == 0 || q != q:
		return math.NaN(), false
	case q < 0:
		return math.Inf(-1), false
	case q > 1:
		return math.Inf(1), false
	}
	return 0, true
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
	if v, ok := quantileBounds(k.spec.Param, hi-lo); !ok {
		return v
	}
	s := &k.sorted
	s.move(k.v, lo, hi)
	if s.odd > 0 {
		k.values = append(k.values[:0], k.v[lo:hi]...)
		return quantileOf(k.spec.Param, k.values)
	}
	return quantileSorted(k.spec.Param, s.values)
}

// move makes [lo, hi) the window.
func (s *sortedWindow) move(v []float64, lo, hi int) {
	if lo >= s.hi || lo-s.lo+hi-s.hi > (hi-lo)/8+2 {
		s.values, s.odd = s.values[:0], 0
		for _, f := range v[lo:hi] {
			if odd(f) {
				s.odd++
			} else {
				s.values = append(s.values, f)
			}
		}
		slices.Sort(s.values)
		s.lo, s.hi = lo, hi
		return
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
