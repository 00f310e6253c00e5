package codec

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"tsdbd/internal/vector"
)

// Packed values lie least significant bit first: value i of width w occupies
// bits i*w to i*w+w-1 of the stream, bit b being bit b%8 of byte b/8. The
// stream ends with the byte of its last bit; the bits left over are zero.

// maxLoadWidth is the widest value that one unaligned 64-bit load holds
// whatever bit of its first byte it starts at.
const maxLoadWidth = 57

// minVector is the number of values from which on a call of a vector loop pays.
const minVector = 16

// loops is the form of the loops that have more than one.
var loops = vector.Best()

// packedLen returns the bytes that count values of width w take.
func packedLen(count int, w uint) int { return int((uint(count)*w + 7) / 8) }

// appendPacked appends values of width w, 0 to 64. No value may be wider.
func appendPacked(dst []byte, v []uint64, w uint) []byte {
	if w == 0 || len(v) == 0 {
		return dst
	}
	size := packedLen(len(v), w)
	at := len(dst)
	start := at
	dst = slices.Grow(dst, size+16)[:at+size+16] // room for whole words
	switch {
	case w <= 8:
		for ; len(v) >= 8; v = v[8:] {
			x := (*[8]uint64)(v)
			lo := x[0] | x[1]<<w | x[2]<<(2*w) | x[3]<<(3*w)
			hi := x[4] | x[5]<<w | x[6]<<(2*w) | x[7]<<(3*w)
			binary.LittleEndian.PutUint64(dst[at:], lo|hi<<(4*w))
			at += int(w)
		}
	case w <= 16:
		for ; len(v) >= 8; v = v[8:] {
			x := (*[8]uint64)(v)
			lo := x[0] | x[1]<<w | x[2]<<(2*w) | x[3]<<(3*w)
			hi := x[4] | x[5]<<w | x[6]<<(2*w) | x[7]<<(3*w)
			binary.LittleEndian.PutUint64(dst[at:], lo|hi<<(4*w))
			binary.LittleEndian.PutUint64(dst[at+8:], hi>>(64-4*w))
			at += int(w)
		}
	}
	var acc uint64
	var fill uint
	if w <= 32 {
		for ; len(v) >= 2; v = v[2:] {
			x := v[0] | v[1]<<w
			acc |= x << fill
			fill += 2 * w
			if fill >= 64 {
				binary.LittleEndian.PutUint64(dst[at:], acc)
				at += 8
				fill -= 64
				acc = x >> (2*w - fill)
			}
		}
	}
	for _, x := range v {
		acc |= x << fill
		fill += w
		if fill >= 64 {
			binary.LittleEndian.PutUint64(dst[at:], acc)
			at += 8
			fill -= 64
			acc = x >> (w - fill) // 0 when x just fitted and w is 64
		}
	}
	if fill > 0 {
		binary.LittleEndian.PutUint64(dst[at:], acc)
	}
	return dst[:start+size]
}

// load64 reads 8 bytes at offset off from p. The caller has checked the bound.
func load64(p unsafe.Pointer, off uint) uint64 {
	return binary.LittleEndian.Uint64((*[8]byte)(unsafe.Add(p, off))[:])
}

// unpack fills dst with values of width w. src must hold exactly
// packedLen(len(dst), w) bytes; nothing beyond them is read.
func unpack(dst []uint64, src []byte, w uint) {
	switch {
	case len(dst) == 0:
	case w == 0:
		clear(dst)
	case w <= maxLoadWidth:
		n := 0
		if len(dst) >= minVector {
			n = unpackVector(dst, src, w)
		}
		n += unpackGroups(dst[n:], src[uint(n)/8*w:], w)
		unpackTail(dst[n:], src[uint(n)/8*w:], w)
	default:
		unpackWide(dst, src, w)
	}
}

// unpackGroups unpacks whole groups of 8 values (w bytes each) as long as
// 8 bytes follow the group, and returns how many values that made.
func unpackGroups(dst []uint64, src []byte, w uint) int {
	groups := len(dst) / 8
	if len(src) < 8 {
		return 0
	}
	groups = min(groups, (len(src)-8)/int(w))
	if groups == 0 {
		return 0
	}
	mask := uint64(1)<<w - 1
	p := unsafe.Pointer(unsafe.SliceData(src))
	o1, s1 := 1*w/8, 1*w%8
	o2, s2 := 2*w/8, 2*w%8
	o3, s3 := 3*w/8, 3*w%8
	o4, s4 := 4*w/8, 4*w%8
	o5, s5 := 5*w/8, 5*w%8
	o6, s6 := 6*w/8, 6*w%8
	o7, s7 := 7*w/8, 7*w%8
	out := dst[:groups*8]
	for len(out) >= 8 {
		d := (*[8]uint64)(out)
		d[0] = load64(p, 0) & mask
		d[1] = load64(p, o1) >> (s1 & 63) & mask
		d[2] = load64(p, o2) >> (s2 & 63) & mask
		d[3] = load64(p, o3) >> (s3 & 63) & mask
		d[4] = load64(p, o4) >> (s4 & 63) & mask
		d[5] = load64(p, o5) >> (s5 & 63) & mask
		d[6] = load64(p, o6) >> (s6 & 63) & mask
		d[7] = load64(p, o7) >> (s7 & 63) & mask
		p = unsafe.Add(p, w)
		out = out[8:]
	}
	return groups * 8
}

// unpackTail unpacks values with an accumulator that takes single bytes at the
// end of src.
func unpackTail(dst []uint64, src []byte, w uint) {
	mask := uint64(1)<<w - 1
	var acc uint64
	var have uint
	for i := range dst {
		if have < w {
			if len(src) >= 8 {
				// Top up to at least 57 bits, as whole bytes.
				acc |= binary.LittleEndian.Uint64(src) << have
				take := (64 - have) / 8
				src = src[take:]
				have += take * 8
				if have < 64 {
					acc &= 1<<have - 1
				}
			} else {
				for have < w {
					acc |= uint64(src[0]) << have
					src = src[1:]
					have += 8
				}
			}
		}
		dst[i] = acc & mask
		acc >>= w
		have -= w
	}
}

// unpackWide is unpack for widths above maxLoadWidth: a value may touch nine
// bytes.
func unpackWide(dst []uint64, src []byte, w uint) {
	mask := ^uint64(0) >> (64 - w)
	var bit uint
	i := 0
	if len(src) >= 9 {
		last := uint(len(src) - 9)
		p := unsafe.Pointer(unsafe.SliceData(src))
		for ; i < len(dst) && bit>>3 <= last; i++ {
			off, s := bit>>3, bit&7
			hi := uint64(*(*byte)(unsafe.Add(p, off+8)))
			dst[i] = (load64(p, off)>>s | hi<<(64-s)) & mask
			bit += w
		}
	}
	for ; i < len(dst); i++ {
		var b [16]byte
		copy(b[:9], src[bit>>3:])
		s := bit & 7
		dst[i] = (binary.LittleEndian.Uint64(b[:])>>s | uint64(b[8])<<(64-s)) & mask
		bit += w
	}
}
