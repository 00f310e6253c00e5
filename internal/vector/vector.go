package vector

import (
	"math"
	"slices"
)

// minVector is the number of values from which on a call of a vector loop pays.
const minVector = 16

// Lanes is how many sums FloatLanes keeps side by side.
const Lanes = 4

// FloatLanes adds up x in four compensated lanes: lane i has x[i], x[i+4] and so
// on, what is left at the end goes to lane 0. sum holds the rounded sums, lost
// what they lost.
func FloatLanes(x []float64) (sum, lost [Lanes]float64) {
	if len(x) >= minVector {
		x = x[floatLanes(x, &sum, &lost):]
	}
	s0, s1, s2, s3 := sum[0], sum[1], sum[2], sum[3]
	e0, e1, e2, e3 := lost[0], lost[1], lost[2], lost[3]
	for len(x) >= Lanes {
		var e float64
		s0, e = TwoSum(s0, x[0])
		e0 += e
		s1, e = TwoSum(s1, x[1])
		e1 += e
		s2, e = TwoSum(s2, x[2])
		e2 += e
		s3, e = TwoSum(s3, x[3])
		e3 += e
		x = x[Lanes:]
	}
	for _, v := range x {
		var e float64
		s0, e = TwoSum(s0, v)
		e0 += e
	}
	return [Lanes]float64{s0, s1, s2, s3}, [Lanes]float64{e0, e1, e2, e3}
}

// SumFloats adds up x, sum and lost together to about 106 bits. The lanes are put
// together in pairs.
func SumFloats(x []float64) (sum, lost float64) {
	s, e := FloatLanes(x)
	a, ea := TwoSum(s[0], s[1])
	b, eb := TwoSum(s[2], s[3])
	sum, es := TwoSum(a, b)
	return sum, (e[0] + e[1]) + (e[2] + e[3]) + (ea + eb) + es
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

// MinInt returns the smallest of x, which is not empty.
func MinInt(x []int64) int64 {
	m := x[0]
	if len(x) >= minVector {
		if n, v := minInt(x); n > 0 {
			m, x = v, x[n:]
		}
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
