package vector

import (
	"math"
	"slices"
	"unsafe"
)

//go:noescape
func floatLanes256(x *float64, groups int, sum, lost *[lanes]float64)

//go:noescape
func sumInts256(x *int64, groups int, lanes *[8]int64)

//go:noescape
func minInts256(x *int64, groups int, lanes *[8]int64)

//go:noescape
func maxInts256(x *int64, groups int, lanes *[8]int64)

//go:noescape
func minFloats256(x *float64, groups int, lanes *[8]float64) (nan uint64)

//go:noescape
func maxFloats256(x *float64, groups int, lanes *[8]float64) (nan uint64)

//go:noescape
func sumInts512(x *int64, groups int, lanes *[8]int64)

//go:noescape
func minInts512(x *int64, groups int, lanes *[8]int64)

//go:noescape
func maxInts512(x *int64, groups int, lanes *[8]int64)

//go:noescape
func minFloats512(x *float64, groups int, lanes *[8]float64) (nan uint64)

//go:noescape
func maxFloats512(x *float64, groups int, lanes *[8]float64) (nan uint64)

//go:noescape
func sumRuns512(dst, x *int64, groups, k int)

//go:noescape
func minRuns512(dst, x *int64, groups, k int)

//go:noescape
func maxRuns512(dst, x *int64, groups, k int)

//go:noescape
func minFloatRuns512(dst, x *float64, groups, k int)

//go:noescape
func maxFloatRuns512(dst, x *float64, groups, k int)

//go:noescape
func sumShortRuns512(sum, lost, x *float64, groups, k int)

//go:noescape
func sumLongRuns512(sum, lost, x *float64, runs, k int)

func sumFloatRuns(sum, lost, x []float64, k int) int {
	n := len(sum)
	if k < lanes {
		n &^= 7 // side by side
	}
	if loops < AVX512 || n == 0 {
		return 0
	}
	s, e, v := &sum[0], &lost[:n][0], &x[:n*k][0]
	if k < lanes {
		sumShortRuns512(s, e, v, n/8, k)
	} else {
		sumLongRuns512(s, e, v, n, k)
	}
	return n
}

// runs calls a loop over whole groups of 8 runs of k values and returns how many
// runs it did.
func runs[T int64 | float64](loop func(dst, x *T, groups, k int), dst, x []T, k int) int {
	groups := len(dst) / 8
	if loops < AVX512 || groups == 0 {
		return 0
	}
	loop(&dst[0], &x[:8*groups*k][0], groups, k)
	return 8 * groups
}

func sumRuns(dst, x []int64, k int) int { return runs(sumRuns512, dst, x, k) }

func minRuns(dst, x []int64, k int) int { return runs(minRuns512, dst, x, k) }

func maxRuns(dst, x []int64, k int) int { return runs(maxRuns512, dst, x, k) }

func minFloatRuns(dst, x []float64, k int) int { return runs(minFloatRuns512, dst, x, k) }

func maxFloatRuns(dst, x []float64, k int) int { return runs(maxFloatRuns512, dst, x, k) }

// The functions below do a start of x, which has minVector values or more, and
// return how many that is: a multiple of 4 or 8.

// floatLanes starts the lanes with a start of x.
func floatLanes(x []float64, sum, lost *[lanes]float64) int {
	if loops < AVX2 {
		return 0
	}
	floatLanes256(unsafe.SliceData(x), len(x)/lanes, sum, lost)
	return len(x) / lanes * lanes
}

// sumFloats does all of x.
func sumFloats(x []float64) (n int, sum, lost float64) {
	if loops < AVX512 {
		return 0, 0, 0
	}
	sumLongRuns512(&sum, &lost, unsafe.SliceData(x), 1, len(x))
	return len(x), sum, lost
}

func sumInts(x []int64) (n int, sum int64) {
	var lanes [8]int64
	switch loops {
	case AVX512:
		sumInts512(unsafe.SliceData(x), len(x)/8, &lanes)
	case AVX2:
		sumInts256(unsafe.SliceData(x), len(x)/8, &lanes)
	default:
		return 0, 0
	}
	for _, v := range lanes {
		sum += v
	}
	return len(x) &^ 7, sum
}

func minInt(x []int64) (n int, m int64) {
	var lanes [8]int64
	switch loops {
	case AVX512:
		minInts512(unsafe.SliceData(x), len(x)/8, &lanes)
	case AVX2:
		minInts256(unsafe.SliceData(x), len(x)/8, &lanes)
	default:
		return 0, 0
	}
	return len(x) &^ 7, slices.Min(lanes[:])
}

func maxInt(x []int64) (n int, m int64) {
	var lanes [8]int64
	switch loops {
	case AVX512:
		maxInts512(unsafe.SliceData(x), len(x)/8, &lanes)
	case AVX2:
		maxInts256(unsafe.SliceData(x), len(x)/8, &lanes)
	default:
		return 0, 0
	}
	return len(x) &^ 7, slices.Max(lanes[:])
}

// minFloat returns NaN if there is one among the values.
func minFloat(x []float64) (n int, m float64) {
	var lanes [8]float64
	nan := uint64(0)
	switch loops {
	case AVX512:
		nan = minFloats512(unsafe.SliceData(x), len(x)/8, &lanes)
	case AVX2:
		nan = minFloats256(unsafe.SliceData(x), len(x)/8, &lanes)
	default:
		return 0, 0
	}
	if nan != 0 {
		return len(x) &^ 7, math.NaN()
	}
	return len(x) &^ 7, slices.Min(lanes[:])
}

// maxFloat returns NaN if there is one among the values.
func maxFloat(x []float64) (n int, m float64) {
	var lanes [8]float64
	nan := uint64(0)
	switch loops {
	case AVX512:
		nan = maxFloats512(unsafe.SliceData(x), len(x)/8, &lanes)
	case AVX2:
		nan = maxFloats256(unsafe.SliceData(x), len(x)/8, &lanes)
	default:
		return 0, 0
	}
	if nan != 0 {
		return len(x) &^ 7, math.NaN()
	}
	return len(x) &^ 7, slices.Max(lanes[:])
}

func hasNaN(x []float64) (n int, nan bool) {
	n, m := minFloat(x)
	return n, math.IsNaN(m)
}
