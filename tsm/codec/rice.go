package codec

import (
	"encoding/binary"
	"math/bits"
	"unsafe"

	"tsdbd/internal/binio"
	"tsdbd/internal/vector"
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
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	q := r.offsets(dst)
	rests, low, zigzag := (*[MaxValues + restRoom]byte)(unsafe.Pointer(&s.b)), s.a[:len(q)], uint(0)
	if !readRests(rests, len(q), r.rests) {
		return corrupt("rice rests")
	}
	unpack(low, r.low, r.width)
	if r.signed {
		zigzag = 1
	}
	if loops == vector.InGo && r.mode == modeDelta && r.frame.exceptions == 0 && r.signed {
		dst[0] = r.first
		r.sum(q, rests[:len(q)], low)
		return nil
	}
	n := joinVector(q, rests[:len(q)], low, r.width, zigzag)
	join(q[n:], rests[n:len(q)], low[n:], r.width, zigzag)
	if r.frame.exceptions > 0 {
		if err := r.patch(q, r.places, r.exceptions); err != nil {
			return err
		}
	}
	r.restore(dst, nil)
	return nil
}

// join sets q[i] to rests[i]<<w | low[i], and takes zigzag off it if that is 1, not 0.
// The slices are equally long, w below 64.
func join(q []uint64, rests []byte, low []uint64, w, zigzag uint) {
	rests, low = rests[:len(q)], low[:len(q)]
	for i := range q {
		u := uint64(rests[i])<<(w&63) | low[i]
		q[i] = u>>(zigzag&63) ^ -(u & uint64(zigzag))
	}
}

// sum is join of signed offsets and restore in one loop, which hides the additions.
func (f *frame) sum(q []uint64, rests []byte, low []uint64) {
	rests, low = rests[:len(q)], low[:len(q)]
	w, x, base, factor := f.width&63, f.first, f.base, f.factor
	if w == 0 && factor == 1 { // walks in small steps
		for i, r := range rests {
			u := uint64(r)
			x += base + (u>>1 ^ -(u & 1))
			q[i] = x
		}
		return
	}
	for i := range q {
		u := uint64(rests[i])<<w | low[i]
		x += base + factor*(u>>1^-(u&1))
		q[i] = x
	}
}

// restTable has the unary rests of each byte.
var restTable = func() (table [256]restByte) {
	for b := range table {
		e, next := &table[b], 0
		for w := uint(b); w != 0; w &= w - 1 {
			place := bits.TrailingZeros(w)
			e.zeros |= uint64(place-next) << (8 * e.ones)
			e.ones++
			next = place + 1
		}
		if e.tail = uint8(8 - next); next == 0 {
			e.keep = 0xff
		}
	}
	return table
}()

// restByte is what eight bits hold of unary rests.
type restByte struct {
	zeros uint64 // before each one, a byte each
	ones  uint8
	tail  uint8 // zeros behind the last one
	keep  uint8 // all bits if there is no one: the zeros before still count
}

// restRoom is how many bytes readRests may write behind the last rest.
const restRoom = 64 + 8

// readRests reads n unary rests into dst, a byte each. It returns false if there are
// not exactly as many, if bytes follow the last, or if 8 bytes in a row are zero: an
// encoder writes no such rest, and without them a rest is 126 at most.
func readRests(dst *[MaxValues + restRoom]byte, n int, rests []byte) bool {
	if len(rests) == 0 || rests[len(rests)-1] == 0 {
		return false
	}
	done, carry := uint(0), uint64(0)
	for len(rests) > 0 {
		var last [8]byte
		w := &last
		if len(rests) >= 8 {
			w, rests = (*[8]byte)(rests), rests[8:]
		} else {
			copy(last[:], rests)
			rests = nil
		}
		if *w == [8]byte{} || done > uint(n) {
			return false
		}
		p := unsafe.Pointer(&dst[done]) // restRoom follows
		k := uint(0)
		k, carry = putRests(p, k, w[0], carry)
		k, carry = putRests(p, k, w[1], carry)
		k, carry = putRests(p, k, w[2], carry)
		k, carry = putRests(p, k, w[3], carry)
		k, carry = putRests(p, k, w[4], carry)
		k, carry = putRests(p, k, w[5], carry)
		k, carry = putRests(p, k, w[6], carry)
		k, carry = putRests(p, k, w[7], carry)
		done += k
	}
	return done == uint(n)
}

// putRests writes the rests that end in b to p, from byte at on, always 8 bytes. carry
// is the zeros since the last one. It returns where the next rest goes, and its carry.
func putRests(p unsafe.Pointer, at uint, b byte, carry uint64) (uint, uint64) {
	e := &restTable[b]
	binary.LittleEndian.PutUint64((*[8]byte)(unsafe.Add(p, at))[:], e.zeros+carry)
	return at + uint(e.ones), carry&uint64(e.keep) + uint64(e.tail)
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
