package block

import (
	"encoding/binary"
	"math"
	"math/bits"

	"tsdbd/internal/binio"
)

// endOfFloats is the NaN that follows the last value.
const endOfFloats = 0x7FF8000000000001

// appendFloats decodes n floats by Gorilla's scheme: the first value in 64 bits, then
// the exclusive or of each value and the one before.
//
//	0        the same value
//	1 0      the significant bits are where they were before
//	1 1 l m  5 bits: leading zeros, 6 bits: significant bits, of which 0 means 64
//
// Each of the last two is followed by the significant bits.
func appendFloats(dst []float64, b []byte, n int) ([]float64, error) {
	if len(b) == 0 {
		return dst, nil
	}
	if b[0]>>4 != 1 {
		return dst, badEncoding("floats", b[0])
	}
	b = b[1:]
	end := uint(len(b)) * 8
	v, at := bitsAt(b, 0), uint(64)
	significant, trailing := uint(64), uint(0)
	for {
		if at > end {
			return dst, short("floats", len(b))
		}
		if v == endOfFloats {
			return dst, nil
		}
		if len(dst) == n {
			return dst, binio.Corruptf("", -1, "more floats than %d times", n)
		}
		f := math.Float64frombits(v)
		dst = append(dst, f)
		w := bitsAt(b, at)
		for w>>63 == 0 { // a run of zeros repeats the value
			same := uint(bits.LeadingZeros64(w))
			if at += same; at >= end || len(dst)+int(same) > n {
				return dst, binio.Corruptf("", -1, "more floats than %d times", n)
			}
			for range same {
				dst = append(dst, f)
			}
			w = bitsAt(b, at)
		}
		if w>>62 == 2 {
			at += 2
		} else {
			leading := uint(w>>57) & 31
			significant = uint(w>>51) & 63
			if significant == 0 {
				significant = 64
			}
			if leading+significant > 64 {
				return dst, binio.Corruptf("", -1, "a float of %d bits after %d zeros", significant, leading)
			}
			trailing = 64 - leading - significant
			at += 13
		}
		v ^= bitsAt(b, at) >> (64 - significant) << trailing
		at += significant
	}
}

// bitsAt returns 64 bits from bit at on; bits beyond the end are zero.
func bitsAt(b []byte, at uint) uint64 {
	i, shift := at>>3, at&7
	if i+9 <= uint(len(b)) {
		return binary.BigEndian.Uint64(b[i:])<<shift | uint64(b[i+8])>>(8-shift)
	}
	var tail [9]byte
	if i < uint(len(b)) {
		copy(tail[:], b[i:])
	}
	return binary.BigEndian.Uint64(tail[:])<<shift | uint64(tail[8])>>(8-shift)
}
