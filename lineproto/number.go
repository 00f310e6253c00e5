package lineproto

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
)

// load returns 8 bytes of b from i on, little-endian; behind the end of b
// there are zeros, which end every number.
func load(b []byte, i int) uint64 {
	if i+8 <= len(b) {
		return binary.LittleEndian.Uint64(b[i:])
	}
	return loadTail(b, i)
}

//go:noinline
func loadTail(b []byte, i int) uint64 {
	var w [8]byte
	copy(w[:], b[min(i, len(b)):])
	return binary.LittleEndian.Uint64(w[:])
}

const (
	zeros = 0x3030303030303030 // "00000000"
	highs = 0x8080808080808080
)

// digits returns how many of the 8 bytes of x, from the first on, are decimal
// digits. A carry out of a byte that is no digit only reaches later bytes.
func digits(x uint64) int {
	t := x ^ zeros
	return bits.TrailingZeros64((t+0x7676767676767676|t)&highs) >> 3
}

// decimal returns the value of the first n digits of x, 1 <= n <= 8.
func decimal(x uint64, n int) uint64 {
	t := (x ^ zeros) << (uint(64-8*n) & 63)
	t = t*10 + t>>8
	return ((t&0x000000FF000000FF)*0x000F424000000064 + ((t>>16)&0x000000FF000000FF)*0x0000271000000001) >> 32
}

var pow10 = [16]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}

var pow10Float = [23]float64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// scanDigits reads the digits of b from i on. It returns their value, which is
// exact if there are at most 19, their number n, and the position behind them;
// when there are more than 19, n is some larger number and the rest may be
// unread.
func scanDigits(b []byte, i int) (v uint64, n, next int) {
	return scanMoreDigits(b, i, 0, 0)
}

// scanMoreDigits is scanDigits behind n digits of the value v.
func scanMoreDigits(b []byte, i int, v uint64, n int) (uint64, int, int) {
	for n < 20 {
		x := load(b, i)
		d := digits(x)
		if d == 0 {
			break
		}
		v = v*pow10[d&15] + decimal(x, d)
		n += d
		i += d
		if d < 8 {
			break
		}
	}
	return v, n, i
}

// scanFloat reads an unsigned decimal "digits" or "digits.digits" of at most
// 19 digits at i; x is load(b, i). next is the position behind it, 0 for
// everything else, which the slow path judges. The result is the float64
// nearest to the text, as strconv.ParseFloat's.
func scanFloat(b []byte, i int, x uint64) (f float64, next int) {
	d := digits(x)
	if d == 0 || d == 8 {
		return scanLongFloat(b, i)
	}
	if byte(x>>(uint(8*d)&63)) != '.' {
		return float64(decimal(x, d)), i + d
	}
	// The point is cut out of the word, so that short decimals are read as one
	// number. The top byte of y is no digit.
	low := uint64(1)<<(uint(8*d)&63) - 1
	y := x&low | x>>8&^low
	n := digits(y)
	if n < 7 {
		if n == d {
			return 0, 0
		}
		// Both are exact, so the quotient is rounded once (Clinger).
		return float64(decimal(y, n)) / pow10Float[(n-d)&15], i + n + 1
	}
	v := decimal(x, d)
	i += d + 1
	x = load(b, i)
	n = digits(x)
	if n == 0 {
		return 0, 0
	}
	v = v*pow10[n&15] + decimal(x, n)
	i += n
	if n < 8 {
		return float64(v) / pow10Float[n&15], i
	}
	x = load(b, i)
	if m := digits(x); m > 0 {
		v = v*pow10[m&15] + decimal(x, m)
		n += m
		i += m
		if m == 8 {
			v, n, i = scanMoreDigits(b, i, v, n)
		}
	}
	// Whether v is exact would be a toss-up for the branch predictor here, so
	// the way that does not ask comes first.
	if d+n > 19 || v == 0 {
		return quotient(v, d, n, i)
	}
	if f, ok := nearest(v, n); ok {
		return f, i
	}
	return quotient(v, d, n, i)
}

// scanLongFloat is scanFloat for eight digits and more before the point.
func scanLongFloat(b []byte, i int) (f float64, next int) {
	v, d, i := scanDigits(b, i)
	if d == 0 || d > 19 {
		return 0, 0
	}
	if i >= len(b) || b[i] != '.' {
		return quotient(v, d, 0, i)
	}
	v, n, i := scanMoreDigits(b, i+1, v, d)
	if n == d {
		return 0, 0
	}
	return quotient(v, d, n-d, i)
}

// quotient returns v * 10^-fraction, for a value of whole+fraction digits.
func quotient(v uint64, whole, fraction, next int) (float64, int) {
	if whole+fraction > 19 {
		return 0, 0
	}
	if v < 1<<53 {
		return float64(v) / pow10Float[fraction], next
	}
	f, ok := nearest(v, fraction)
	if !ok {
		return 0, 0
	}
	return f, next
}

const maxFraction = 19

// inversePow10 holds 10^-n as ceil(2^k / 10^n), 128 bits of which the top one
// is set.
var inversePow10 = func() (t [maxFraction + 1]struct {
	high, low uint64
	k         int
},
) {
	for n := range t {
		d := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
		k := 127
		if n > 0 { // 10^n is no power of two: 2^127 < 2^k / 10^n < 2^128
			k += d.BitLen()
		}
		q, r := new(big.Int).QuoRem(new(big.Int).Lsh(big.NewInt(1), uint(k)), d, new(big.Int))
		if r.Sign() != 0 {
			q.Add(q, big.NewInt(1))
		}
		t[n].low = new(big.Int).And(q, new(big.Int).SetUint64(math.MaxUint64)).Uint64()
		t[n].high = new(big.Int).Rsh(q, 64).Uint64()
		t[n].k = k
	}
	return t
}()

// nearest returns v * 10^-fraction rounded to nearest, ties to even, after
// Lemire, "Number Parsing at a Gigabyte per Second" (2021). ok is false when
// 128 bits of the power do not decide the rounding. v is not 0; fraction is at
// most maxFraction, so results are normal numbers.
func nearest(v uint64, fraction int) (f float64, ok bool) {
	p := &inversePow10[fraction]
	shift := bits.LeadingZeros64(v)
	v <<= uint(shift)
	// The product has 192 bits; the power is less than 1 too large in its last
	// place, so the product is less than 2^64 too large.
	high, low := bits.Mul64(v, p.high)
	carry, _ := bits.Mul64(v, p.low)
	low, c := bits.Add64(low, carry, 0)
	high += c
	// The upper 54 bits are the float and one bit to round by.
	cut := 9 + uint(high>>63)
	tie := low == 0 && high&(1<<cut-1) == 0
	if tie && fraction != 0 {
		return 0, false // the true product may lie below the boundary, or on it
	}
	m := high >> cut
	if tie && m&3 == 1 {
		m-- // to even
	}
	m = (m + m&1) >> 1
	// The float is m * 2^e with 2^52 <= m <= 2^53. Adding m puts its top bit
	// into the exponent, where it belongs, also when rounding reached 2^53.
	e := 129 + int(cut) - p.k - shift
	return math.Float64frombits(uint64(e+1074)<<52 + m), true
}
