package window

import (
	"math"
	"math/bits"
)

// lines are what the lines of least squares through the windows of a series share. The
// times are in seconds from the first sample. A sum over a window is the difference of
// two sums, moved to the origin of the window.
type lines struct {
	seconds []int64 // the time of each sample; empty: some time in some window is no whole second
	times   []int64 // the sum of the times before each sample
	squares []int64 // of the squares of the times
	// products is the sum of the products of time and value. Empty: some product in some
	// window is rounded.
	products []wide
}

// fitLines prepares deriv and predict_linear.
func (k *kernel) fitLines() {
	k.mark(func(prev, v float64) bool { return v != prev })
	l := &k.lines
	l.seconds, l.times, l.squares, l.products = l.seconds[:0], l.times[:0], l.squares[:0], l.products[:0]
	k.sums.sums = k.sums.sums[:0]
	if !k.shares() {
		return
	}
	far := k.spec.Range // of a sample from the origin of its window
	if k.predicts() {
		if (k.spec.Start-k.t[0])%1000 != 0 || k.spec.Step%1000 != 0 {
			return
		}
		far += max(k.spec.Offset, -k.spec.Offset)
	}
	width := bits.Len64(uint64(far / 1000))
	if far < 0 || 2*width+bits.Len(uint(len(k.t))) > 53 { // a sum of squares may be rounded
		return
	}
	time, square := int64(0), int64(0)
	for _, t := range k.t {
		if (t-k.t[0])%1000 != 0 {
			l.seconds = l.seconds[:0]
			return
		}
		x := (t - k.t[0]) / 1000
		l.seconds, l.times, l.squares = append(l.seconds, x), append(l.times, time), append(l.squares, square)
		time += x
		square += x * x // may overflow: the difference of two such sums does not
	}
	l.times, l.squares = append(l.times, time), append(l.squares, square)
	k.sums.sum(k.v)
	product := units{k.sums.low, k.sums.width + width, k.sums.terms}
	if len(k.sums.sums) == 0 || product.width > 53 || !product.fits() {
		return
	}
	at := wide{}
	l.products = append(l.products, at)
	for i, v := range k.v {
		at = at.plus(k.sums.count(v).times(l.seconds[i]))
		l.products = append(l.products, at)
	}
}

// predicts reports whether the origin of a window is the evaluation time, not the
// time of the first sample.
func (k *kernel) predicts() bool { return k.spec.Func == "predict_linear" }

// regression is deriv and predict_linear: the line of least squares through the
// samples.
func (k *kernel) regression(lo, hi int, at int64) float64 {
	if hi-lo < 2 {
		return Absent()
	}
	origin := k.t[lo]
	if k.predicts() {
		origin = at + k.spec.Offset
	}
	slope, intercept := k.line(lo, hi, origin)
	if k.predicts() {
		return slope*k.spec.Param + intercept
	}
	return slope
}

// line returns the slope per second, and the value at the time origin.
func (k *kernel) line(lo, hi int, origin int64) (slope, intercept float64) {
	if k.marks[lo] == k.marks[hi-1] {
		if y := k.v[lo]; !math.IsInf(y, 0) {
			return 0, y
		}
		return math.NaN(), math.NaN()
	}
	var x, y, xy, xx float64
	switch n := int64(hi - lo); {
	case len(k.lines.seconds) == 0:
		x, y, xy, xx = regressionSums(k.t[lo:hi], k.v[lo:hi], origin)
	default:
		origin = (origin - k.t[0]) / 1000
		times := k.lines.times[hi] - k.lines.times[lo]
		x = float64(times - n*origin)
		xx = float64(k.lines.squares[hi] - k.lines.squares[lo] - 2*origin*times + n*origin*origin)
		if len(k.lines.products) > 0 {
			all := k.sums.window(lo, hi)
			y = k.sums.float(all)
			xy = k.sums.float(k.lines.products[hi].minus(k.lines.products[lo]).minus(all.times(origin)))
			break
		}
		lost := 0.0
		for i, v := range k.v[lo:hi] {
			xy, lost = add(float64(k.lines.seconds[lo+i]-origin)*v, xy, lost)
		}
		xy += lost
		y = k.sum(lo, hi, 0)
	}
	n := float64(hi - lo)
	slope = (xy - x*y/n) / (xx - x*x/n)
	return slope, y/n - slope*x/n
}

// regressionSums returns the sums of times and values, of their products, and of the
// squares of the times.
func regressionSums(t []int64, v []float64, origin int64) (x, y, xy, xx float64) {
	var lostX, lostY, lostXY, lostXX float64
	for i, value := range v {
		at := float64(t[i]-origin) / 1e3
		x, lostX = add(at, x, lostX)
		y, lostY = add(value, y, lostY)
		xy, lostXY = add(at*value, xy, lostXY)
		xx, lostXX = add(at*at, xx, lostXX)
	}
	return x + lostX, y + lostY, xy + lostXY, xx + lostXX
}
