package window

import (
	"math"
	"math/bits"
	"slices"
)

// exact are the sums of the values up to each, without any rounding: integers that count
// a unit, a power of two of which each value is a multiple. The sum of a window is the
// difference of two of them.
//
// It is also what the engine's compensated sum gives, to the last bit. The engine
// rounds each partial sum to a multiple of the unit, and adds up what it rounds away.
// What it rounds away is a multiple of the unit as well, so its sum is exact if it has no
// more than 53 bits. Then the partial sum and what was rounded away are the exact sum
// together, and adding them rounds once. See units.fits.
type exact struct {
	units
	sums []wide // of the values before each; empty: the values have no such sums
}

// units says what the values of a series count.
type units struct {
	low   int // the unit is 1<<low
	width int // each value is less than 1<<width units
	terms int // 1<<terms is more than the number of values
}

// fits reports whether compensated sums of the values are exact: after n additions of
// values below h, what was rounded away is below n * (n*h >> 53).
func (u units) fits() bool { return u.width+2*u.terms <= 106 }

// unitsOf returns the units of values, and false if one is infinite, NaN, or so large or
// small that the exponents of sums and units may be out of range.
func unitsOf(values []float64) (units, bool) {
	low, high := math.MaxInt, math.MinInt
	for _, v := range values {
		b := math.Float64bits(v)
		if b<<1 == 0 {
			continue
		}
		e := int(b >> mantissaBits & exponentMask)
		if e < 64 || e > 1980 {
			return units{}, false
		}
		low = min(low, e+bits.TrailingZeros64(b|1<<mantissaBits))
		high = max(high, e+mantissaBits+1)
	}
	if low > high { // zeros
		return units{terms: bits.Len(uint(len(values)))}, true
	}
	return units{low: low - exponentBias, width: high - low, terms: bits.Len(uint(len(values)))}, true
}

// A float is its mantissa shifted by its exponent less the bias.
const (
	mantissaBits = 52
	exponentMask = 1<<11 - 1
	exponentBias = 1023 + mantissaBits
)

// sum finds the units of values and adds the values up.
func (x *exact) sum(values []float64) {
	x.sums = x.sums[:0]
	var ok bool
	if x.units, ok = unitsOf(values); !ok || !x.fits() {
		return
	}
	x.sums = slices.Grow(x.sums, len(values)+1)[:len(values)+1]
	at := wide{}
	x.sums[0] = at
	for i, v := range values {
		at = at.plus(x.count(v))
		x.sums[i+1] = at
	}
}

// count returns how many units a multiple of the unit has.
func (u units) count(v float64) wide {
	b := math.Float64bits(v)
	if b<<1 == 0 {
		return wide{}
	}
	m := b&(1<<mantissaBits-1) | 1<<mantissaBits
	w := wide{}
	if shift := int(b>>mantissaBits&exponentMask) - exponentBias - u.low; shift < 0 {
		w.low = m >> uint(-shift)
	} else { // less than 64, or sums would not fit
		w = wide{m >> (64 - uint(shift)), m << uint(shift)}
	}
	if v < 0 {
		return wide{}.minus(w)
	}
	return w
}

// float returns so many units, rounded once.
func (u units) float(n wide) float64 {
	return n.float() * math.Float64frombits(uint64(u.low+1023)<<mantissaBits)
}

// window returns the units of the values of a window.
func (x *exact) window(lo, hi int) wide { return x.sums[hi].minus(x.sums[lo]) }

// wide is an integer of 128 bits, in two's complement.
type wide struct{ high, low uint64 }

func (w wide) plus(x wide) wide {
	low, carry := bits.Add64(w.low, x.low, 0)
	high, _ := bits.Add64(w.high, x.high, carry)
	return wide{high, low}
}

func (w wide) minus(x wide) wide {
	low, borrow := bits.Sub64(w.low, x.low, 0)
	high, _ := bits.Sub64(w.high, x.high, borrow)
	return wide{high, low}
}

// times returns the product, or its lower 128 bits.
func (w wide) times(n int64) wide {
	high, low := bits.Mul64(w.low, uint64(n))
	high += w.high * uint64(n)
	if n < 0 {
		high -= w.low
	}
	return wide{high, low}
}

// float returns the nearest float. Of two, it is the even one.
func (w wide) float() float64 {
	negative := w.high>>63 != 0
	if negative {
		w = wide{}.minus(w)
	}
	f := float64(w.low)
	if w.high != 0 {
		shift := 64 - bits.LeadingZeros64(w.high)
		top := w.high<<(64-shift) | w.low>>shift
		if w.low<<(64-shift) != 0 {
			top |= 1 // more than half of the last place
		}
		f = math.Ldexp(float64(top), shift)
	}
	if negative {
		return -f
	}
	return f
}
