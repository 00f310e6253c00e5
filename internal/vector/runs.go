package vector

// The functions here set dst[i] to the result of the function of one run for run i.
// x holds len(dst) runs of k values each; k is 1 or more.

// longRun is from how many values on a run is worth a call of its own.
const longRun = 24

// SumIntRuns is SumInts of each run.
func SumIntRuns(dst, x []int64, k int) {
	eachRun(dst, x, k, sumRuns, SumInts)
}

// SumFloatRuns is SumFloats of each run; lost is as long as sum.
func SumFloatRuns(sum, lost, x []float64, k int) {
	for i := sumFloatRuns(sum, lost, x, k); i < len(sum); i++ {
		sum[i], lost[i] = SumFloats(x[i*k : (i+1)*k])
	}
}

// MinIntRuns is MinInt of each run.
func MinIntRuns(dst, x []int64, k int) {
	eachRun(dst, x, k, minRuns, MinInt)
}

// MaxIntRuns is MaxInt of each run.
func MaxIntRuns(dst, x []int64, k int) {
	eachRun(dst, x, k, maxRuns, MaxInt)
}

// MinFloatRuns is MinFloat of each run.
func MinFloatRuns(dst, x []float64, k int) {
	eachRun(dst, x, k, minFloatRuns, MinFloat)
}

// MaxFloatRuns is MaxFloat of each run.
func MaxFloatRuns(dst, x []float64, k int) {
	eachRun(dst, x, k, maxFloatRuns, MaxFloat)
}

// eachRun does short runs side by side, as many as that takes, and the others
// one by one.
func eachRun[T int64 | float64](dst, x []T, k int, short func(dst, x []T, k int) int, one func([]T) T) {
	n := 0
	if k < longRun {
		n = short(dst, x, k)
	}
	for i := n; i < len(dst); i++ {
		dst[i] = one(x[i*k : (i+1)*k])
	}
}
