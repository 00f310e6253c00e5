package codec

import (
	"math"
	"math/bits"
)

// floatSample is how many neighbouring values, in four places, the estimate
// of the Gorilla size looks at.
const floatSample = 64

// minSpareBits is how many low bits must be zero in all values for their words
// to be tried as integers.
const minSpareBits = 16

// AppendFloats appends the block of v, 1 to MaxValues values of any kind; all
// bits are kept, those of NaNs, infinities and negative zeros too.
func AppendFloats(dst []byte, v []float64) []byte {
	checkCount(len(v))
	return appendWithRuns(dst, words(v), families, appendPlainFloats)
}

// appendFloatConst appends one value: its leading bytes up to the last that is
// not zero, or the ALP form if that is shorter.
func appendFloatConst(dst []byte, x float64) []byte {
	u := math.Float64bits(x)
	keep := 8 - bits.TrailingZeros64(u)/8
	// An ALP block of one value takes four bytes at least.
	for e := 0; e <= 6 && keep > 4; e++ {
		if d, ok := toDecimal(x, float10[e]); ok {
			at := len(dst)
			dst = appendPlainWords(append(dst, encDecimal, byte(e)), []uint64{uint64(d)}, smallest)
			if len(dst)-at < 1+keep {
				return dst
			}
			dst = dst[:at]
			break
		}
	}
	dst = append(dst, encConst)
	for i := range keep {
		dst = append(dst, byte(u>>(56-8*i)))
	}
	return dst
}

// appendPlainFloats appends the values with bits w, without runs.
func appendPlainFloats(dst []byte, w []uint64, c choice) []byte {
	at, v := len(dst), floats(w)
	if allEqual(w) {
		return appendFloatConst(dst, v[0])
	}
	limit := 1 + 8*len(v) // of raw
	if out, ok := appendDecimals(dst, v); ok {
		dst = out
		if limit = len(dst) - at; limit <= decimalShare*len(v) {
			return dst
		}
	}
	end := len(dst)
	if end == at && trailingZeros(w) >= minSpareBits {
		// Doubles that were 32-bit floats: integers with a common factor.
		dst = appendPlainWords(dst, w, c)
		end = len(dst)
		limit = end - at
	}
	// The estimate is off by a few hundredths; the encoder gives up at the limit.
	if size := gorillaEstimate(w); size-size/16 < limit {
		dst, _ = appendGorilla(dst, w, limit)
	}
	return smaller(dst, at, end, w)
}

// trailingZeros returns the number of low bits that are zero in all words, or
// some number below minSpareBits.
func trailingZeros(w []uint64) int {
	var all uint64
	for _, x := range w {
		if all |= x; all&(1<<minSpareBits-1) != 0 {
			break
		}
	}
	return bits.TrailingZeros64(all)
}

// smaller keeps the smaller of the blocks dst[at:end] and dst[end:], of which
// either may be empty, or raw if that is smaller still.
func smaller(dst []byte, at, end int, w []uint64) []byte {
	first, second := end-at, len(dst)-end
	switch raw := 1 + 8*len(w); {
	case second > 0 && second < raw && (first == 0 || second < first):
		return append(dst[:at], dst[end:]...)
	case first > 0 && first <= raw:
		return dst[:end]
	}
	return appendRaw(dst[:at], w)
}

// gorillaEstimate estimates the size of the Gorilla block of v in bytes.
func gorillaEstimate(v []uint64) int {
	size, count := 0, 0
	pieces, piece := 4, floatSample/4
	if len(v) <= floatSample {
		pieces, piece = 1, len(v)-1
	}
	for p := range pieces {
		from := 1
		if pieces > 1 {
			from += p * (len(v) - 1 - piece) / (pieces - 1)
		}
		leading, trailing := 65, 0
		for i := from; i < from+piece; i++ {
			d := v[i] ^ v[i-1]
			count++
			if d == 0 {
				size++
				continue
			}
			l, t := min(bits.LeadingZeros64(d), 31), bits.TrailingZeros64(d)
			if l >= leading && t >= trailing {
				size += 2 + 64 - leading - trailing
				continue
			}
			leading, trailing = l, t
			size += 13 + 64 - l - t
		}
	}
	return 9 + size*(len(v)-1)/count/8
}

// NoNaN reports whether the form of a block of floats says that no value is NaN: all
// are decimals, or all are one number. A block of another form must be decoded.
func NoNaN(block []byte) bool {
	switch {
	case len(block) < 3: // a constant with zeros behind its first byte is finite
		return len(block) > 0 && block[0] == encConst
	case block[0] == encDecimal:
		return block[1] <= maxExponent // without exceptions
	}
	return block[0] == encConst && (block[1]&0x7f != 0x7f || block[2]&0xf0 != 0xf0)
}

// DecodeFloats appends the n values of block to dst. Damage gives a
// *binio.CorruptError and dst as it was.
func DecodeFloats(dst []float64, block []byte, n int) ([]float64, error) {
	return decode(dst, block, n, func(dst []float64, block []byte) error { return decodeFloats(words(dst), block) })
}

func decodeFloatRuns(dst []uint64, block []byte) error {
	return decodeRuns(dst, block, func(dst []uint64, block []byte) error {
		if len(block) > 0 && block[0] == encRuns {
			return corrupt("runs of runs")
		}
		return decodeFloats(dst, block)
	})
}

func decodeFloatConst(dst []uint64, block []byte) error {
	if len(block) > 9 {
		return corrupt("constant length")
	}
	var u uint64
	for i, b := range block[1:] {
		u |= uint64(b) << (56 - 8*i)
	}
	fillLinear(dst, u, 0)
	return nil
}
