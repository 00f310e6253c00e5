package window

import "math"

// sumWindows prepares the sums of windows, if windows share enough samples to pay for it.
func (k *kernel) sumWindows() {
	k.sums.sums, k.ahead.to = k.sums.sums[:0], math.MinInt64
	if k.shares() {
		k.sums.sum(k.v)
	}
}

// shares reports whether windows have enough samples in common for exact sums to be faster
// than compensated ones: a sample is in two or more.
func (k *kernel) shares() bool {
	const windows = 2
	return k.spec.Steps() >= windows && k.spec.Range/windows >= k.spec.Step
}

// sum is sum_over_time.
func (k *kernel) sum(lo, hi int, _ int64) float64 {
	if len(k.sums.sums) > 0 {
		return k.sums.float(k.sums.window(lo, hi))
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

// mean is avg_over_time. The engine divides the partial sum and what is lost one by one.
func (k *kernel) mean(lo, hi int, at int64) float64 {
	n := float64(hi - lo)
	if len(k.sums.sums) > 0 {
		all := k.sums.window(lo, hi)
		if k.sums.width+k.sums.terms <= 53 { // no partial sum is rounded
			return k.sums.float(all) / n
		}
		sum := k.rounded(lo, hi, at)
		return sum/n + k.sums.float(all.minus(k.sums.count(sum)))/n
	}
	m := mean{count: 1, sum: k.v[lo]}
	for _, v := range k.v[lo+1 : hi] {
		m.add(v)
	}
	return m.value()
}

// ahead are rounded sums of the windows that follow each other up to a time.
type ahead struct {
	to   int64
	sums [4]float64
}

// rounded returns the sum of a window, rounded at each addition. An addition waits for
// the one before, so four windows are added up at the same time.
func (k *kernel) rounded(lo, hi int, at int64) float64 {
	last := len(k.ahead.sums) - 1
	if at > k.ahead.to {
		var from, to [4]int
		for i := range from {
			from[i], to[i] = lo, hi
			at += k.spec.Step
			hi = after(k.t, hi, at)
			lo = after(k.t, lo, at-k.spec.Range)
		}
		at -= k.spec.Step
		k.ahead.to, k.ahead.sums = at, sumFour(k.v, from, to)
		return k.ahead.sums[0]
	}
	return k.ahead.sums[last-int((k.ahead.to-at)/k.spec.Step)]
}

// sumFour returns the sums of four windows whose bounds ascend.
func sumFour(v []float64, lo, hi [4]int) (sums [4]float64) {
	first, end := lo[3], hi[0] // of the values that all have
	if first >= end {
		first, end = hi[3], hi[3]
	}
	for i := range sums {
		for _, x := range v[lo[i]:min(hi[i], first)] {
			sums[i] += x
		}
	}
	a, b, c, d := sums[0], sums[1], sums[2], sums[3]
	for _, x := range v[first:end] {
		a += x
		b += x
		c += x
		d += x
	}
	sums = [4]float64{a, b, c, d}
	for i := range sums {
		for _, x := range v[min(end, hi[i]):hi[i]] {
			sums[i] += x
		}
	}
	return sums
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
	m.sum, m.lost = add(v/m.count, float64(q*m.sum), float64(q*m.lost))
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
	if k.spec.Step >= k.spec.Range || k.spec.End == k.spec.Start {
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
