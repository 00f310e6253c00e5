package codec

import (
	"encoding/binary"
	"math/bits"

	"tsdbd/internal/binio"
)

// A Rice block is a frame whose offsets are written in as many bits as they
// need: the low bits of all of them packed, the rest of each in unary, zeros
// and a one, least significant bit first:
//
//	12 | mode | width | [first or slope] | [first rate] | base | [factor] | [exceptions, their width] |
//	packed low bits | packed exception places | packed exception offsets | unary rests
//
// With flagSigned the offsets lie on both sides of the base and are written
// zigzag. The unary part goes to the end of the block and ends with the byte
// of its last one.

// flagSigned is a mode bit of Rice blocks.
const flagSigned = 16

// riceBlock is a Rice block of so many offsets taken apart.
type riceBlock struct {
	frame
	low, places, exceptions, rests []byte
}

func readRice(block []byte, n int) (r riceBlock, err error) {
	d := binio.NewDecoder(block)
	if err = r.read(&d, n); err != nil {
		return r, err
	}
	n -= r.lead()
	if r.width > maxLoadWidth {
		return r, corrupt("rice header")
	}
	r.low = d.Bytes(packedLen(n, r.width))
	r.places = d.Bytes(packedLen(r.frame.exceptions, placeWidth(n)))
	r.exceptions = d.Bytes(packedLen(r.frame.exceptions, r.excWidth))
	r.rests = d.Bytes(d.Len())
	return r, d.Err()
}

func decodeRice(dst []uint64, block []byte) error {
	r, err := readRice(block, len(dst))
	if err != nil {
		return err
	}
	q := r.offsets(dst)
	if !hasVector && r.mode == modeDelta && r.frame.exceptions == 0 && r.signed {
		unpack(q, r.low, r.width)
		dst[0] = r.first
		if !sumRests(q, r.rests, r.width, r.first, r.base, r.factor) {
			return corrupt("rice rests")
		}
		return nil
	}
	n, taken, next := restsVector(q, r.rests)
	if !restsFrom(q[n:], r.rests, taken, next) {
		return corrupt("rice rests")
	}
	if r.width > 0 || r.signed {
		s := wordPool.Get().(*wordScratch)
		defer wordPool.Put(s)
		low, zigzag := s.a[:len(q)], uint64(0)
		unpack(low, r.low, r.width)
		if r.signed {
			zigzag = 1
		}
		for i := joinVector(q, low, r.width, zigzag); i < len(q); i++ {
			u := q[i]<<(r.width&63) | low[i]
			if r.signed {
				u = uint64(binio.UnZigZag(u))
			}
			q[i] = u
		}
	}
	if r.frame.exceptions > 0 {
		if err := r.patch(q, r.places, r.exceptions); err != nil {
			return err
		}
	}
	r.restore(dst, nil)
	return nil
}

// restWord returns the 64 bits of rests from byte at on, zeros behind its end.
func restWord(rests []byte, at int) uint64 {
	if len(rests)-at >= 8 {
		return binary.LittleEndian.Uint64(rests[at:])
	}
	var b [8]byte
	copy(b[:], rests[at:])
	return binary.LittleEndian.Uint64(b[:])
}

// restsFrom fills q with the unary rests from byte at on; next is the bit after
// the last one before. It returns false if there
// are not exactly as many, or bytes follow the last.
func restsFrom(q []uint64, rests []byte, at, next int) bool {
	if len(rests) == 0 || rests[len(rests)-1] == 0 {
		return false
	}
	for ; at < len(rests); at += 8 {
		w := restWord(rests, at)
		n := bits.OnesCount64(w)
		if n > len(q) {
			return false
		}
		for i := range q[:n] {
			p := 8*at + bits.TrailingZeros64(w)
			q[i] = uint64(p - next)
			next = p + 1
			w &= w - 1
		}
		q = q[n:]
	}
	return len(q) == 0
}

// sumRests puts the unary rests above the low bits in q, signed offsets of delta
// mode, and sums them up to values. One loop does it, the additions hide behind
// the bit scan; with vectors each step apart is faster.
func sumRests(q []uint64, rests []byte, low uint, x, base, factor uint64) bool {
	if len(rests) == 0 || rests[len(rests)-1] == 0 {
		return false
	}
	next := 0
	for at := 0; at < len(rests); at += 8 {
		w := restWord(rests, at)
		n := bits.OnesCount64(w)
		if n > len(q) {
			return false
		}
		out := q[:n]
		if low == 0 && factor == 1 {
			for i := range out {
				p := 8*at + bits.TrailingZeros64(w)
				u := uint64(p - next)
				next = p + 1
				w &= w - 1
				x += base + (u>>1 ^ -(u & 1))
				out[i] = x
			}
		} else {
			for i, u := range out {
				p := 8*at + bits.TrailingZeros64(w)
				u |= uint64(p-next) << (low & 63)
				next = p + 1
				w &= w - 1
				x += base + factor*(u>>1^-(u&1))
				out[i] = x
			}
		}
		q = q[n:]
	}
	return len(q) == 0
}

// appendRests appends what is above the low bits of u in unary.
func appendRests(dst []byte, u []uint64, low uint) []byte {
	var acc uint64
	fill := uint(0)
	for _, x := range u {
		fill += uint(x >> low)
		for fill >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, acc)
			acc, fill = 0, fill-64
		}
		acc |= 1 << fill
		if fill++; fill == 64 {
			dst = binary.LittleEndian.AppendUint64(dst, acc)
			acc, fill = 0, 0
		}
	}
	for ; fill > 0; fill -= min(fill, 8) {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}
