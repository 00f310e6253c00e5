package codec

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// The Gorilla block is the value half of the stream of Pelkonen et al. (VLDB
// 2015), most significant bit first, without timestamps in between: the first
// value in 64 bits, then for each value its XOR with the one before:
//
//	0                                        the same value
//	1 0 <bits>                               significant bits in the last window
//	1 1 <leading:5> <length:6> <bits>        a new window; length 0 means 64
//
// Leading zeros are clamped to 31. The last byte is filled with zeros.

// appendGorilla appends the Gorilla block of v if it takes less than limit
// bytes, else it returns dst and false.
func appendGorilla(dst []byte, v []uint64, limit int) ([]byte, bool) {
	start := len(dst)
	// A value takes at most 77 bits, less than 10 bytes.
	dst = slices.Grow(dst, min(limit, 10*len(v))+32)
	buf := dst[:cap(dst)]
	buf[start] = encXOR
	binary.BigEndian.PutUint64(buf[start+1:], v[0])
	at := start + 9
	end := min(len(buf)-24, start+limit)
	// acc holds fill bits at its top, fill < 64.
	var acc uint64
	var fill uint
	leading, trailing := uint(65), uint(0) // no window yet: 65 is above any count
	length := uint(0)
	prev := v[0]
	for _, x := range v[1:] {
		if at > end {
			return dst[:start], false
		}
		d := x ^ prev
		prev = x
		if d == 0 {
			fill++
			if fill == 64 {
				binary.BigEndian.PutUint64(buf[at:], acc)
				at, acc, fill = at+8, 0, 0
			}
			continue
		}
		l, t := min(uint(bits.LeadingZeros64(d)), 31), uint(bits.TrailingZeros64(d))
		var head uint64
		var headBits uint
		if l >= leading && t >= trailing {
			head, headBits = 0b10, 2
		} else {
			leading, trailing = l, t
			length = 64 - l - t
			head, headBits = 0b11<<11|uint64(l)<<6|uint64(length&63), 13
		}
		// The head, at most 13 bits.
		acc |= head << (64 - headBits) >> fill
		if fill += headBits; fill >= 64 {
			binary.BigEndian.PutUint64(buf[at:], acc)
			at, fill = at+8, fill-64
			acc = head << (64 - fill) // 0 when fill is 0: shifts of 64 give 0
		}
		// The significant bits, 1 to 64.
		sig := d >> (trailing & 63) << ((64 - length) & 63)
		acc |= sig >> fill
		if fill += length; fill >= 64 {
			binary.BigEndian.PutUint64(buf[at:], acc)
			at, fill = at+8, fill-64
			acc = sig << (length - fill)
		}
	}
	binary.BigEndian.PutUint64(buf[at:], acc)
	at += int(fill+7) / 8
	if at-start >= limit {
		return dst[:start], false
	}
	return buf[:at], true
}

// bitReader reads a stream of bits, most significant first. Reading past the
// end gives zeros and is found out by over.
type bitReader struct {
	src  []byte
	at   int    // bytes taken
	acc  uint64 // the next have bits at its top; the rest is zero
	have uint
}

// fill tops acc up to at least 57 bits, or to what is left.
func (r *bitReader) fill() {
	if r.at+8 <= len(r.src) {
		r.acc |= binary.BigEndian.Uint64(r.src[r.at:]) >> r.have
		take := (64 - r.have) >> 3
		r.at += int(take)
		r.have += take << 3
		r.acc &= ^uint64(0) << (64 - r.have)
		return
	}
	for r.have <= 56 && r.at < len(r.src) {
		r.acc |= uint64(r.src[r.at]) << (56 - r.have)
		r.at++
		r.have += 8
	}
}

func decodeGorilla(dst []uint64, block []byte) error {
	if len(block) < 9 {
		return corrupt("gorilla length")
	}
	x := binary.BigEndian.Uint64(block[1:])
	dst[0] = x
	r := bitReader{src: block[9:]}
	leading, length := uint(0), uint(0)
	shift := uint(0)
	for i := 1; i < len(dst); i++ {
		if r.have < 13 {
			if r.fill(); r.have == 0 {
				return corrupt("gorilla short")
			}
		}
		if r.acc>>63 == 0 {
			r.acc <<= 1
			r.have--
			dst[i] = x
			continue
		}
		if r.acc>>62 == 0b11 {
			if r.have < 13 {
				return corrupt("gorilla short")
			}
			leading = uint(r.acc>>57) & 31
			length = uint(r.acc>>51) & 63
			if length == 0 {
				length = 64
			}
			if leading+length > 64 {
				return corrupt("gorilla window")
			}
			shift = 64 - leading - length
			r.acc <<= 13
			r.have -= 13
		} else {
			if length == 0 || r.have < 2 {
				return corrupt("gorilla window")
			}
			r.acc <<= 2
			r.have -= 2
		}
		var sig uint64
		if r.have >= length {
			sig = r.acc >> (64 - length)
			r.acc <<= length
			r.have -= length
		} else {
			// Take what is there, then the rest.
			got := r.have
			sig = r.acc >> (64 - length)
			rest := length - got
			r.acc, r.have = 0, 0
			r.fill()
			if r.have < rest {
				// 57 bits may be too few for a window of up to 64.
				return corrupt("gorilla short")
			}
			sig |= r.acc >> (64 - rest)
			r.acc <<= rest
			r.have -= rest
		}
		x ^= sig << shift
		dst[i] = x
	}
	if r.at != len(r.src) || r.have >= 8 || r.acc != 0 {
		return corrupt("trailing bytes")
	}
	return nil
}
