package vector

import (
	"math"
	"slices"
)

// minVector is the number of values from which on a call of a vector loop pays.
const minVector = 16

// lanes is how many sums of floats are kept side by side.
const lanes = 16

// SumFloats adds up x, sum and lost together to about 106 bits: lane i has x[i],
// x[i+16] and so on, in order, then lane i is added to lane i-8 where that is one,
// to i-4, i-2 and i-1. Fewer than 16 values are added up in order. lost says nothing
// if sum is not finite.
func SumFloats(x []float64) (sum, lost float64) {
	if len(x) < lanes {
		return sumShort(x)
	}
	if n, s, e := sumFloats(x); n > 0 {
		return s, e
	}
	var s, e [lanes]float64
	n := floatLanes(x, &s, &e)
	if n == 0 {
		n = lanes
		copy(s[:], x)
	}
	addLanes(x[n:], &s, &e)
	for half := lanes / 2; half > 0; half /= 2 {
		for i := range half {
			t, lost := TwoSum(s[i], s[i+half])
			s[i], e[i] = t, e[i]+e[i+half]+lost
		}
	}
	return s[0], e[0]
}

// addLanes adds x to the lanes, four at a time, as that many stay in registers.
func addLanes(x []float64, sum, lost *[lanes]float64) {
	whole := len(x) / lanes * lanes
	for k := 0; k < lanes && whole > 0; k += 4 {
		s, e := (*[4]float64)(sum[k:]), (*[4]float64)(lost[k:])
		s0, s1, s2, s3 := s[0], s[1], s[2], s[3]
		e0, e1, e2, e3 := e[0], e[1], e[2], e[3]
		for i := k; i < whole; i += lanes {
			v := (*[4]float64)(x[i:])
			var l float64
			s0, l = TwoSum(s0, v[0])
			e0 += l
			s1, l = TwoSum(s1, v[1])
			e1 += l
			s2, l = TwoSum(s2, v[2])
			e2 += l
			s3, l = TwoSum(s3, v[3])
			e3 += l
		}
		*s, *e = [4]float64{s0, s1, s2, s3}, [4]float64{e0, e1, e2, e3}
	}
	for i, v := range x[whole:] {
		var l float64
		sum[i], l = TwoSum(sum[i], v)
		lost[i] += l
	}
}

// sumShort is SumFloats for few values.
func sumShort(x []float64) (sum, lost float64) {
	if len(x) == 0 {
		return 0, 0
	}
	sum = x[0]
	for _, v := range x[1:] {
		var e float64
		sum, e = TwoSum(sum, v)
		lost += e
	}
	return sum, lost
}

// TwoSum returns a+b and what the rounded sum lost.
func TwoSum(a, b float64) (s, e float64) {
	s = a + b
	v := s - a
	return s, (a - (s - v)) + (b - v)
}

// SumInts returns the sum of x, which wraps.
func SumInts(x []int64) int64 {
	var s, s1, s2, s3 int64
	if len(x) >= minVector {
		n := 0
		n, s = sumInts(x)
		x = x[n:]
	}
	for len(x) >= 4 {
		s += x[0]
		s1 += x[1]
		s2 += x[2]
		s3 += x[3]
		x = x[4:]
	}
	for _, v := range x {
		s += v
	}
	return s + s1 + s2 + s3
}

// OrInts returns the bits that are set in some of the sums of bias and a value of x.
func OrInts(x []int64, bias int64) uint64 {
	var s, s1, s2, s3 int64
	for len(x) >= 8 {
		v := (*[8]int64)(x)
		s |= v[0] + bias
		s1 |= v[1] + bias
		s2 |= v[2] + bias
		s3 |= v[3] + bias
		s |= v[4] + bias
		s1 |= v[5] + bias
		s2 |= v[6] + bias
		s3 |= v[7] + bias
		x = x[8:]
	}
	for _, v := range x {
		s |= v + bias
	}
	return uint64(s | s1 | s2 | s3)
}

// MinInt returns the smallest of x, which is not empty.
func MinInt(x []int64) int64 {
	m := x[0]
	if len(x) >= minVector {
		if n, v := minInt(x); n > 0 {
			m, x = v, x[n:]
		}
		m1, m2, m3 := m, m, m
		for ; len(x) >= 4; x = x[4:] {
			m, m1, m2, m3 = min(m, x[0]), min(m1, x[1]), min(m2, x[2]), min(m3, x[3])
		}
		m = min(m, m1, m2, m3)
	}
	for _, v := range x {
		m = min(m, v)
	}
	return m
}

// MaxInt returns the largest of x, which is not empty.
func MaxInt(x []int64) int64 {
	m := x[0]
	if len(x) >= minVector {
		if n, v := maxInt(x); n > 0 {
			m, x = v, x[n:]
		}
		m1, m2, m3 := m, m, m
		for ; len(x) >= 4; x = x[4:] {
			m, m1, m2, m3 = max(m, x[0]), max(m1, x[1]), max(m2, x[2]), max(m3, x[3])
		}
		m = max(m, m1, m2, m3)
	}
	for _, v := range x {
		m = max(m, v)
	}
	return m
}

// MinFloat returns the first of the smallest of x, which is not empty. It is
// x[0] if that is no number; others that are none take no part.
func MinFloat(x []float64) float64 {
	m := x[0]
	if len(x) >= minVector {
		n, v := minFloat(x)
		m, x = first(x, n, v)
	}
	for _, v := range x {
		if v < m {
			m = v
		}
	}
	return m
}

// MaxFloat returns the first of the largest of x, as MinFloat does.
func MaxFloat(x []float64) float64 {
	m := x[0]
	if len(x) >= minVector {
		n, v := maxFloat(x)
		m, x = first(x, n, v)
	}
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}

// HasNaN reports whether a value of x is NaN.
func HasNaN(x []float64) bool {
	if len(x) >= minVector {
		n, nan := hasNaN(x)
		if nan {
			return true
		}
		x = x[n:]
	}
	for _, v := range x {
		if v != v {
			return true
		}
	}
	return false
}

// first returns the extreme m of x[:n] as the order of the values has it, and
// what is left of x. Vectors take any of the zeros, and know only that there
// was a NaN.
func first(x []float64, n int, m float64) (float64, []float64) {
	switch {
	case n == 0 || math.IsNaN(m):
		return x[0], x
	case m == 0:
		m = x[slices.Index(x[:n], 0)]
	}
	return m, x[n:]
}
