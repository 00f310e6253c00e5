package window

import "math"

// exact is the largest sum of absolute values that sums of integers may reach and
// still be exact.
const exact = 1 << 53

// sumWhole sums the samples up to each, if all are integers and no sum is rounded.
// Then the sum of a window is the difference of two, to the last bit.
func (k *kernel) sumWhole() {
	k.sums, k.whole = append(k.sums[:0], 0), false
	if k.spec.Step >= k.spec.Range { // each sample is in one window
		return
	}
	sum, size := 0.0, 0.0
	for _, v := range k.v {
		size += math.Abs(v)
		if v != math.Trunc(v) || !(size < exact) {
			return
		}
		sum += v
		k.sums = append(k.sums, sum)
	}
	k.whole = true
}

// sum is sum_over_time.
func (k *kernel) sum(lo, hi int, _ int64) float64 {
	if k.whole {
		return k.sums[hi] - k.sums[lo]
	}
	sum, lost := 0.0, 0.0
	for _, v := range k.v[lo:hi] {
		sum, lost = add(v, sum, lost)
	}
	if math.IsInf(sum, 0) {
		return sum
	}
	return sum + lost
}

// mean is avg_over_time.
func (k *kernel) mean(lo, hi int, _ int64) float64 {
	if k.whole {
		return (k.sums[hi] - k.sums[lo]) / float64(hi-lo)
	}
	m := mean{count: 1, sum: k.v[lo]}
	for _, v := range k.v[lo+1 : hi] {
		m.add(v)
	}
	return m.value()
}

// mean is an average: a sum that is divided at the end, and an incremental mean
// from where the sum would overflow.
type mean struct {
	count, sum, lost float64
	incremental      bool // sum is the mean
}

func (m *mean) add(v float64) {
	m.count++
	if !m.incremental {
		sum, lost := add(v, m.sum, m.lost)
		if !math.IsInf(sum, 0) {
			m.sum, m.lost = sum, lost
			return
		}
		m.incremental = true
		m.sum /= m.count - 1
		m.lost /= m.count - 1
	}
	q := (m.count - 1) / m.count
	m.sum, m.lost = add(v/m.count, q*m.sum, q*m.lost)
}

func (m *mean) value() float64 {
	if m.incremental {
		return m.sum + m.lost
	}
	return m.sum/m.count + m.lost/m.count
}

// variance is stddev_over_time and stdvar_over_time.
func (k *kernel) variance(lo, hi int, _ int64) float64 {
	var count, mean, meanLost, squares, squaresLost float64
	for _, v := range k.v[lo:hi] {
		count++
		delta := v - (mean + meanLost)
		mean, meanLost = add(delta/count, mean, meanLost)
		squares, squaresLost = add(delta*(v-(mean+meanLost)), squares, squaresLost)
	}
	variance := (squares + squaresLost) / count
	if k.spec.Func == "stddev_over_time" {
		return math.Sqrt(variance)
	}
	return variance
}

// emptyQueue begins a series of windows for extreme.
func (k *kernel) emptyQueue() { k.queue, k.seen = k.queue[:0], 0 }

// extreme is min_over_time and max_over_time. The queue holds the samples that are
// the extreme of the window from themselves on. The older of two equal values
// stays, as in a walk over the window.
func (k *kernel) extreme(lo, hi int, _ int64) float64 {
	minimum := k.spec.Func == "min_over_time"
	if k.spec.Step >= k.spec.Range {
		return extremeOf(k.v[lo:hi], minimum)
	}
	q := k.queue
	for i := max(k.seen, lo); i < hi; i++ {
		v := k.v[i]
		if v != v {
			continue
		}
		n := len(q)
		for n > 0 && (minimum && v < k.v[q[n-1]] || !minimum && v > k.v[q[n-1]]) {
			n--
		}
		q = append(q[:n], int32(i))
	}
	k.seen = hi
	gone := 0
	for gone < len(q) && int(q[gone]) < lo {
		gone++
	}
	if gone > 0 {
		q = q[:copy(q, q[gone:])]
	}
	k.queue = q
	if len(q) == 0 { // nothing but NaN
		return k.v[hi-1]
	}
	return k.v[q[0]]
}

// extremeOf returns the first of the least or largest values that are not NaN.
func extremeOf(values []float64, minimum bool) float64 {
	best := values[0]
	for _, v := range values {
		if best != best || minimum && v < best || !minimum && v > best {
			best = v
		}
	}
	return best
}

// regression is deriv and predict_linear: the line of least squares through the
// samples.
func (k *kernel) regression(lo, hi int, at int64) float64 {
	if hi-lo < 2 {
		return Absent()
	}
	t, v := k.t[lo:hi], k.v[lo:hi]
	predict := k.spec.Func == "predict_linear"
	origin := t[0]
	if predict {
		origin = at + k.spec.Offset // the evaluation time
	}
	slope, intercept := line(t, v, origin)
	if predict {
		return slope*k.spec.Param + intercept
	}
	return slope
}

// line returns the slope per second, and the value at the time origin.
func line(t []int64, v []float64, origin int64) (slope, intercept float64) {
	var n, sumX, lostX, sumY, lostY, sumXY, lostXY, sumXX, lostXX float64
	constant := true
	for i, y := range v {
		constant = constant && (i == 0 || y == v[0])
		n++
		x := float64(t[i]-origin) / 1e3
		sumX, lostX = add(x, sumX, lostX)
		sumY, lostY = add(y, sumY, lostY)
		sumXY, lostXY = add(x*y, sumXY, lostXY)
		sumXX, lostXX = add(x*x, sumXX, lostXX)
	}
	if constant {
		if math.IsInf(v[0], 0) {
			return math.NaN(), math.NaN()
		}
		return 0, v[0]
	}
	sumX += lostX
	sumY += lostY
	sumXY += lostXY
	sumXX += lostXX
	slope = (sumXY - sumX*sumY/n) / (sumXX - sumX*sumX/n)
	return slope, sumY/n - slope*sumX/n
}
