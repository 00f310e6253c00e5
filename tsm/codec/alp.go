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
	// maxDecimal bounds the magnitude of integers when rounding by roundMagic.
	maxDecimal = 1 << 51
	roundMagic = 3 << 51 // 1.5 * 2^52: adding it leaves no fraction bits
	// maxDecimalShare bounds exceptions to one in so many values.
	maxDecimalShare = 16
	alpSample       = 32
)

// float10 are the powers of ten a double holds exactly.
var float10 = [maxExponent + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// toDecimal returns x*10^e rounded to an integer and whether dividing that
// gives back exactly the bits of x.
func toDecimal(x, power float64) (int64, bool) {
	y := x * power
	if !(math.Abs(y) < maxDecimal) { // NaN is not less
		return 0, false
	}
	d := int64(y + roundMagic - roundMagic)
	return d, math.Float64bits(float64(d)/power) == math.Float64bits(x)
}

// decimalExponent returns the smallest exponent at which a sample of v are
// decimals, save for a few, and false if there is none.
func decimalExponent(v []float64) (int, bool) {
	stride := (len(v) + alpSample - 1) / alpSample
	count := (len(v) + stride - 1) / stride
	allowed := count / maxDecimalShare
	e := 0
	for i := 0; i < len(v); i += stride {
		k := e
		for k <= maxExponent {
			if _, ok := toDecimal(v[i], float10[k]); ok {
				break
			}
			k++
		}
		if k > maxExponent {
			if allowed--; allowed < 0 {
				return 0, false
			}
			continue
		}
		e = k
	}
	return e, true
}

// appendALP appends the ALP block of v at exponent e, or returns false if too
// many values are no decimals of that exponent.
func appendALP(dst []byte, v []float64, e int) ([]byte, bool) {
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	q, places := s.a[:len(v)], s.b[:0]
	most := len(v) / maxDecimalShare
	power := float10[e]
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
	if len(places) == 0 {
		return appendWords(append(dst, encDecimal, byte(e)), q), true
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
	return appendWords(dst, q), true
}

func decodeALP(dst []float64, block []byte) error {
	d := binio.NewDecoder(block)
	d.Byte()
	e := d.Byte()
	count := 0
	var places, values []byte
	if e&exceptionsFlag != 0 {
		count = d.Count(8)
		if count < 1 || count > len(dst) {
			d.Fail("number of exceptions")
		}
		e &^= exceptionsFlag
		places = d.Bytes(packedLen(count, placeWidth(len(dst))))
		values = d.Bytes(8 * count)
	}
	if e > maxExponent {
		d.Fail("exponent")
	}
	ints := d.Bytes(d.Len())
	if d.Err() != nil {
		return d.Err()
	}
	q := words(dst)
	if err := decodeWords(q, ints); err != nil {
		return err
	}
	if power := float10[e]; e == 0 {
		for i, x := range q {
			dst[i] = float64(int64(x))
		}
	} else {
		for i, x := range q {
			dst[i] = float64(int64(x)) / power
		}
	}
	if count == 0 {
		return nil
	}
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	at := s.a[:count]
	unpack(at, places, placeWidth(len(dst)))
	for i, p := range at {
		if p >= uint64(len(dst)) {
			return corrupt("exception place")
		}
		q[p] = binary.LittleEndian.Uint64(values[8*i:])
	}
	return nil
}
