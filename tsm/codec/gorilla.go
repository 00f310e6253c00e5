package codec

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unsafe"
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

// gorillaReach is how many bytes after that of the present bit the decoder may
// look at for one value: a control of 13 bits and 64 bits that start inside a byte.
const gorillaReach = 12

func decodeGorilla(dst []uint64, block []byte) error {
	if len(block) < 9 {
		return corrupt("gorilla length")
	}
	x := binary.BigEndian.Uint64(block[1:])
	dst[0] = x
	src := block[9:]
	// The last bytes are read from a copy that zeros follow, so that loads
	// need no other bound than this: byte pos/8 is at most last.
	var tail [3 * gorillaReach]byte
	inTail := false
	last := len(src) - gorillaReach
	end := uint(len(src)) * 8
	p := unsafe.Pointer(unsafe.SliceData(src))
	var pos uint
	var win gorillaWindow
	for i := 1; i < len(dst); {
		if int(pos>>3) > last {
			if inTail {
				return corrupt("gorilla short")
			}
			rest := copy(tail[:], src[pos>>3:])
			inTail, p, pos = true, unsafe.Pointer(&tail), pos&7
			last, end = rest, uint(rest)*8
		}
		c := loadBits(p, pos)
		if c>>63 == 0 {
			if c>>58 != 0 {
				pos++
				dst[i] = x
				i++
				continue
			}
			// A run without change; 57 of its bits are sure to be loaded.
			run := dst[i:min(i+min(bits.LeadingZeros64(c), 57), len(dst))]
			for j := range run {
				run[j] = x
			}
			pos += uint(len(run))
			i += len(run)
			continue
		}
		if c>>62 == 0b11 {
			if !win.set(uint(c>>57)&31, uint(c>>51)&63) {
				return corrupt("gorilla window")
			}
			pos += 13
		} else {
			if win.length == 0 {
				return corrupt("gorilla window")
			}
			if win.length <= maxLoadWidth-2 {
				n, at, y := win.values(dst[i:], p, pos, uint(last)*8, x)
				i, pos, x = i+n, at, y
				continue
			}
			pos += 2
		}
		// The byte behind the loaded eight makes up for the bits shifted out.
		sig := loadBits(p, pos) | uint64(*(*byte)(unsafe.Add(p, pos>>3+8)))>>(8-pos&7)
		x ^= sig >> ((64 - win.length) & 63) << (win.shift & 63)
		pos += win.length
		dst[i] = x
		i++
	}
	if !inTail {
		// The padding is looked at below; it lies within the copy.
		if int(pos>>3) < last {
			return corrupt("trailing bytes")
		}
		rest := copy(tail[:], src[pos>>3:])
		p, pos, end = unsafe.Pointer(&tail), pos&7, uint(rest)*8
	}
	if pos > end {
		return corrupt("gorilla short")
	}
	if end-pos >= 8 || loadBits(p, pos) != 0 {
		return corrupt("trailing bytes")
	}
	return nil
}

// gorillaWindow is the window of significant bits in force; length 0: none yet.
type gorillaWindow struct {
	length, shift uint
	// A load turned by turn has the significant bits where the value has them,
	// under bits, and the control bits under control, which are kept if they say
	// that the window stays.
	turn                uint
	bits, control, kept uint64
}

// set makes the window of a number of leading zeros and a length as written,
// where 0 means 64.
func (w *gorillaWindow) set(leading, length uint) bool {
	length += (64 - length) >> 6 << 6
	if leading+length > 64 {
		return false
	}
	w.length, w.shift = length, 64-leading-length
	w.turn = (2 - leading) & 63
	w.bits = ^uint64(0) >> ((64 - length) & 63) << (w.shift & 63)
	w.control = bits.RotateLeft64(0b11<<62, int(w.turn))
	w.kept = bits.RotateLeft64(0b10<<62, int(w.turn))
	return true
}

// values decodes values that keep the window from bit pos on into dst, the first
// of which does, and returns their number, the bit behind them, and the last. A
// load has to hold a value, and may be made up to bit limit. Almost all values
// without a pattern come through here, so it has one load and one turn a value
// and no chain of loads.
func (w *gorillaWindow) values(dst []uint64, p unsafe.Pointer, pos, limit uint, x uint64) (n int, at uint, y uint64) {
	turn, step := w.turn, 2+w.length
	mask, control, kept := w.bits, w.control, w.kept
	for i := range dst {
		v := bits.RotateLeft64(binary.BigEndian.Uint64((*[8]byte)(unsafe.Add(p, pos>>3))[:]), int(pos&7+turn))
		if v&control != kept {
			return i, pos, x
		}
		x ^= v & mask
		dst[i] = x
		if pos += step; pos > limit {
			return i + 1, pos, x
		}
	}
	return len(dst), pos, x
}

// loadBits returns at least 57 bits of the big-endian stream at p from bit pos
// on, at the top of the word.
func loadBits(p unsafe.Pointer, pos uint) uint64 {
	return binary.BigEndian.Uint64((*[8]byte)(unsafe.Add(p, pos>>3))[:]) << (pos & 7)
}
