package codec

import (
	"encoding/binary"
	"math"

	"tsdbd/internal/binio"
)

// An ALP block (after Afroozeh, Kuffo and Boncz, SIGMOD 2024) writes decimals
// as integers:
//
//	7 | exponent, +32 if there are exceptions | [number of exceptions,
//	packed places, 8 bytes each] | integer block
//
// value = integer / 10^exponent, rounded once. Where the paper multiplies with
// two powers, a division needs one parameter and is exact for every decimal of
// up to 15 digits: both operands are exact, so the quotient is the double
// nearest to the decimal, which is what the parser of the text had made.
const (
	maxExponent    = 15
	exceptionsFlag = 32
	// maxDecimalBits bounds the magnitude of integers, so that a conversion
	// that overflows is an exception on every machine.
	maxDecimalBits = 62
	roundMagic     = 3 << 51 // 1.5 * 2^52: adding it leaves no fraction bits
	// maxDecimalShare bounds exceptions to one in so many values. Of sums of decimals one in
	// ten is beside the decimal.
	maxDecimalShare = 4
	alpSample       = 32
)

// float10 are the powers of ten a double holds exactly.
var float10 = [maxExponent + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// toDecimal returns x*power rounded to an integer and whether dividing that
// gives back exactly the bits of x. Rounding needs no care: what it gets wrong
// fails the division.
func toDecimal(x, power float64) (int64, bool) {
	y := x * power // assigned, so that it is rounded before the addition
	d := int64(y)
	if power != 1 {
		d = int64(y + roundMagic - roundMagic)
	}
	return d, d^d>>63 < 1<<maxDecimalBits && math.Float64bits(float64(d)/power) == math.Float64bits(x)
}

// toDecimals is toDecimal for all of v. It returns false if there is an
// exception among them.
func toDecimals(q []uint64, v []float64, power float64) bool {
	q = q[:len(v)]
	var lost, high uint64
	if power == 1 {
		for i, x := range v {
			d := int64(x)
			q[i] = uint64(d)
			high |= uint64(d ^ d>>63)
			lost |= math.Float64bits(float64(d)) ^ math.Float64bits(x)
		}
	} else {
		for i, x := range v {
			y := x * power
			d := int64(y + roundMagic - roundMagic)
			q[i] = uint64(d)
			high |= uint64(d ^ d>>63)
			lost |= math.Float64bits(float64(d)/power) ^ math.Float64bits(x)
		}
	}
	return lost == 0 && high < 1<<maxDecimalBits
}

// decimalExponent returns the smallest exponent at which a sample of v are
// decimals, except a few, and false if there is none.
func decimalExponent(v []float64) (int, bool) {
	stride := (len(v) + alpSample - 1) / alpSample
	count := (len(v) + stride - 1) / stride
	allowed := count / maxDecimalShare
	e := 0
	for i := 0; i < len(v); i += stride {
		if _, ok := toDecimal(v[i], float10[e]); ok {
			continue
		}
		// What is a decimal is one at the largest exponent that keeps the
		// integer exact, so one test finds those that are none.
		k := largestExponent(v[i])
		if _, ok := toDecimal(v[i], float10[k]); !ok || k <= e {
			if allowed--; allowed < 0 {
				return 0, false
			}
			continue
		}
		for e++; e < k; e++ {
			if _, ok := toDecimal(v[i], float10[e]); ok {
				break
			}
		}
	}
	return e, true
}

// largestExponent returns the largest exponent at which x is an integer below
// 2^51, or 0.
func largestExponent(x float64) int {
	exp2 := int(math.Float64bits(x)>>52&0x7ff) - 1022 // |x| < 2^exp2
	return min(max((51-exp2)*1233>>12, 0), maxExponent)
}

// appendDecimals appends the ALP block of v, or returns false if there is none. A
// sample in even steps can miss the decimals of values that repeat with the
// steps; the values next to it are looked at then.
func appendDecimals(dst []byte, v []float64) ([]byte, bool) {
	e, ok := decimalExponent(v)
	if !ok {
		return dst, false
	}
	out, done := appendALP(dst, v, e)
	if !done && len(v) > alpSample {
		if next, ok := decimalExponent(v[1:]); ok && next > e {
			out, done = appendALP(dst, v, next)
		}
	}
	return out, done
}

// appendALP appends the ALP block of v at exponent e, or returns false if too
// many values are no decimals of that exponent.
func appendALP(dst []byte, v []float64, e int) ([]byte, bool) {
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	q, places := s.a[:len(v)], s.b[:0]
	most := len(v) / maxDecimalShare
	power := float10[e]
	if toDecimals(q, v, power) {
		return appendPlainWords(append(dst, encDecimal, byte(e)), q, smallest), true
	}
	last := uint64(0)
	for i, x := range v {
		d, ok := toDecimal(x, power)
		if !ok {
			if len(places) == most {
				return dst, false
			}
			places = append(places, uint64(i))
			q[i] = last // costs least whatever the mode
			continue
		}
		last = uint64(d)
		q[i] = last
	}
	if places[0] == 0 {
		// The leading exceptions take the value of the first decimal.
		k := 0
		for k < len(places) && places[k] == uint64(k) {
			k++
		}
		if k < len(v) {
			for i := range k {
				q[i] = q[k]
			}
		}
	}
	dst = append(dst, encDecimal, byte(e)|exceptionsFlag)
	dst = binary.AppendUvarint(dst, uint64(len(places)))
	dst = appendPacked(dst, places, placeWidth(len(v)))
	for _, at := range places {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v[at]))
	}
	return appendPlainWords(dst, q, smallest), true
}

// decimalBlock is an ALP block taken apart.
type decimalBlock struct {
	exponent       byte
	count          int // of exceptions
	places, values []byte
	ints           []byte
}

func readALP(block []byte, n int) (a decimalBlock, err error) {
	d := binio.NewDecoder(block)
	d.Byte()
	a.exponent = d.Byte()
	if a.exponent&exceptionsFlag != 0 {
		a.count = d.Count(8)
		if a.count < 1 || a.count > n {
			d.Fail("number of exceptions")
		}
		a.exponent &^= exceptionsFlag
		a.places = d.Bytes(packedLen(a.count, placeWidth(n)))
		a.values = d.Bytes(8 * a.count)
	}
	if a.exponent > maxExponent {
		d.Fail("exponent")
	}
	a.ints = d.Bytes(d.Len())
	return a, d.Err()
}

func decodeALP(q []uint64, block []byte) error {
	if len(block) > 2 && block[1] <= maxExponent { // no exceptions, as a rule
		return decodeDecimals(q, block[2:], &decimalScales[block[1]])
	}
	a, err := readALP(block, len(q))
	if err != nil {
		return err
	}
	if err := decodeDecimals(q, a.ints, &decimalScales[a.exponent]); err != nil {
		return err
	}
	if a.count == 0 {
		return nil
	}
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	at := s.a[:a.count]
	unpack(at, a.places, placeWidth(len(q)))
	for i, p := range at {
		if p >= uint64(len(q)) {
			return corrupt("exception place")
		}
		q[p] = binary.LittleEndian.Uint64(a.values[8*i:])
	}
	return nil
}

// decimalScale is what turns integers into decimals. The inverse of the power is
// high+low to 107 bits or so, and the nearest double to x*high + x*low, added in
// one step, the nearest to x/power: before it is rounded it is off by less than
// 2^-51 of the last place, and a quotient by 10^e = 2^e * 5^e, e <= 15, that is no
// double is at least 2^-36 of a last place off the middle of two.
type decimalScale struct{ power, high, low float64 }

var decimalScales = func() (s [maxExponent + 1]decimalScale) {
	for e, p := range float10 {
		inverse := 1 / p
		s[e] = decimalScale{power: p, high: inverse, low: math.FMA(-inverse, p, 1) / p}
	}
	return s
}()

// word returns the bits of the double float64(int64(x))/power, or x if there is
// no scale.
func (s *decimalScale) word(x uint64) uint64 {
	if s == nil {
		return x
	}
	return math.Float64bits(float64(int64(x)) / s.power)
}

// divide is word for all of v.
func (s *decimalScale) divide(v []uint64) {
	if s == nil {
		return
	}
	v = v[divideVector(v, s):]
	out, power := floats(v), s.power
	if power == 1 {
		for i, x := range v {
			out[i] = float64(int64(x))
		}
		return
	}
	for i, x := range v {
		out[i] = float64(int64(x)) / power
	}
}

// decodeDecimals decodes an integer block and divides by the power of scale.
func decodeDecimals(dst []uint64, block []byte, scale *decimalScale) error {
	if len(block) > 0 && block[0] == encPacked {
		return decodeScaled(dst, block, scale)
	}
	if err := decodeWords(dst, block); err != nil {
		return err
	}
	scale.divide(dst)
	return nil
}
