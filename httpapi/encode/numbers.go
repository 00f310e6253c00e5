package encode

import (
	"math"
	"strconv"
)

// digits2 holds "00" to "99".
const digits2 = "00010203040506070809" +
	"10111213141516171819" +
	"20212223242526272829" +
	"30313233343536373839" +
	"40414243444546474849" +
	"50515253545556575859" +
	"60616263646566676869" +
	"70717273747576777879" +
	"80818283848586878889" +
	"90919293949596979899"

// fourDecimals bounds the fast path of AppendFloat: below it, a value times
// 10^4 has at most 15 significant digits. Decimals of 15 digits or fewer map to
// distinct float64s, so the one that maps to the value is the shortest.
const fourDecimals = 1e11

// AppendFloat appends a finite float as encoding/json prints it: the shortest
// digits that read back as f, with an exponent below 1e-6 and from 1e21 on.
func AppendFloat(dst []byte, f float64) []byte {
	if a := math.Abs(f); a < fourDecimals {
		if n := int64(a*1e4 + 0.5); n != 0 && float64(n)/1e4 == a {
			if f < 0 {
				dst = append(dst, '-')
			}
			return appendDecimal(dst, uint64(n))
		}
		if math.Float64bits(f) == 0 {
			return append(dst, '0')
		}
	}
	return appendShortest(dst, f)
}

// appendDecimal appends n / 10^4 without trailing zeros; n < 10^15.
func appendDecimal(dst []byte, n uint64) []byte {
	whole, frac := n/10000, uint32(n%10000)
	switch {
	case whole < 10:
		dst = append(dst, byte('0'+whole))
	case whole < 100:
		dst = append(dst, digits2[whole*2], digits2[whole*2+1])
	default:
		dst = strconv.AppendUint(dst, whole, 10)
	}
	if frac == 0 {
		return dst
	}
	hi, lo := frac/100, frac%100
	if lo == 0 {
		if hi%10 == 0 {
			return append(dst, '.', digits2[hi*2])
		}
		return append(dst, '.', digits2[hi*2], digits2[hi*2+1])
	}
	if lo%10 == 0 {
		return append(dst, '.', digits2[hi*2], digits2[hi*2+1], digits2[lo*2])
	}
	return append(dst, '.', digits2[hi*2], digits2[hi*2+1], digits2[lo*2], digits2[lo*2+1])
}

// appendShortest is AppendFloat without the fast path.
func appendShortest(dst []byte, f float64) []byte {
	a := math.Abs(f)
	if a != 0 && (a < 1e-6 || a >= 1e21) {
		dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
		// e-09 becomes e-9, as ECMAScript writes it.
		if n := len(dst); n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
			dst[n-2] = dst[n-1]
			dst = dst[:n-1]
		}
		return dst
	}
	return appendPlain(dst, f)
}

// appendPlain appends a float without an exponent; it must have one of two digits at most.
// The form of strconv with an exponent takes less time than the one without.
func appendPlain(dst []byte, f float64) []byte {
	var buf [32]byte
	b := strconv.AppendFloat(buf[:0], f, 'e', -1, 64) // such as -1.25e+03
	if b[0] == '-' {
		dst, b = append(dst, '-'), b[1:]
	}
	end := len(b) - len("e+03")
	exp, small := int(b[end+2]-'0')*10+int(b[end+3]-'0'), b[end+1] == '-'
	if end > 1 { // the digits without the point
		b[1] = b[0]
		b, end = b[1:], end-1
	}
	digits, zeros := b[:end], "00000000000000000000"
	switch {
	case small:
		return append(append(append(dst, "0."...), zeros[:exp-1]...), digits...)
	case len(digits) <= exp+1:
		return append(append(dst, digits...), zeros[:exp+1-len(digits)]...)
	}
	return append(append(append(dst, digits[:exp+1]...), '.'), digits[exp+1:]...)
}

func appendInt[T int | int64](dst []byte, v T) []byte {
	return strconv.AppendInt(dst, int64(v), 10)
}

func appendUint(dst []byte, v uint64) []byte { return strconv.AppendUint(dst, v, 10) }
