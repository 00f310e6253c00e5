package codec

import (
	"encoding/binary"
	"math"
	"sync"

	"tsdbd/internal/binio"
)

// An ALP-RD block ("real doubles", same paper) cuts each double in a left part
// of 7 to 16 bits, with few different values, and a right part as it is:
//
//	8 | left bits | code bits | dictionary, 2 bytes each, 1<<code bits of them |
//	number of exceptions | packed places | left parts, 2 bytes each |
//	packed code<<right bits + right part
//
// Exceptions are values whose left part is not in the dictionary; their code is 0.
const (
	minLeft     = 7
	maxLeft     = 16
	maxCodeBits = 3
	splitSample = 64
)

// split is a way to cut: rd.left bits on the left, in 1<<codeBits entries.
type split struct {
	left, codeBits uint
	dict           [1 << maxCodeBits]uint16
	bits           int // estimated size of the block
}

// splitTable finds the code of a left part: code+1, or 0.
type splitTable [1 << maxLeft]byte

var splitPool = sync.Pool{New: func() any { return new(splitTable) }}

// chooseSplit picks the cut from a sample.
func chooseSplit(v []uint64) split {
	var sample [splitSample]uint16
	n := min(len(v), splitSample)
	for i := range n {
		sample[i] = uint16(v[i*len(v)/n] >> 48)
	}
	s := sample[:n]
	sortShort(s)
	best := split{bits: math.MaxInt}
	for left := uint(maxLeft); left >= minLeft; left-- {
		// The most frequent left parts, most frequent first.
		var count [1<<maxCodeBits + 1]int
		var value [1<<maxCodeBits + 1]uint16
		shift := maxLeft - left
		for i := 0; i < n; {
			x, j := s[i]>>shift, i+1
			for j < n && s[j]>>shift == x {
				j++
			}
			k := 1 << maxCodeBits
			for ; k > 0 && count[k-1] < j-i; k-- {
				count[k], value[k] = count[k-1], value[k-1]
			}
			count[k], value[k] = j-i, x
			i = j
		}
		covered, next := 0, 0
		for b := uint(0); b <= maxCodeBits; b++ {
			for ; next < 1<<b; next++ {
				covered += count[next]
			}
			w := 64 - left + b
			size := len(v)*int(w) + 16<<b + (n-covered)*len(v)/n*int(16+placeWidth(len(v)))
			if size < best.bits {
				best = split{left: left, codeBits: b, bits: size}
				copy(best.dict[:], value[:1<<b])
			}
			if covered == n {
				break
			}
		}
	}
	best.bits += 8 * 6
	return best
}

// sortShort sorts in place by insertion, good for a sample that is half sorted.
func sortShort(s []uint16) {
	for i := 1; i < len(s); i++ {
		x, j := s[i], i
		for ; j > 0 && s[j-1] > x; j-- {
			s[j] = s[j-1]
		}
		s[j] = x
	}
}

// appendSplit appends the ALP-RD block of v cut as c says.
func appendSplit(dst []byte, v []uint64, c *split) []byte {
	table := splitPool.Get().(*splitTable)
	defer splitPool.Put(table)
	for i := 1<<c.codeBits - 1; i >= 0; i-- { // an unused slot repeats 0; the first wins
		table[c.dict[i]] = byte(i + 1)
	}
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	q, places := s.a[:len(v)], s.b[:0]
	right := 64 - c.left
	mask := uint64(1)<<right - 1
	for i, x := range v {
		code := uint64(table[uint16(x>>right)])
		if code == 0 {
			places = append(places, uint64(i))
			code = 1
		}
		q[i] = x&mask | (code-1)<<right
	}
	for _, x := range c.dict[:1<<c.codeBits] {
		table[x] = 0
	}
	dst = append(dst, encSplit, byte(c.left), byte(c.codeBits))
	for _, x := range c.dict[:1<<c.codeBits] {
		dst = binary.LittleEndian.AppendUint16(dst, x)
	}
	dst = binary.AppendUvarint(dst, uint64(len(places)))
	dst = appendPacked(dst, places, placeWidth(len(v)))
	for _, at := range places {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(v[at]>>right))
	}
	return appendPacked(dst, q, right+c.codeBits)
}

func decodeSplit(dst []uint64, block []byte) error {
	d := binio.NewDecoder(block)
	d.Byte()
	left, codeBits := uint(d.Byte()), uint(d.Byte())
	if left < minLeft || left > maxLeft || codeBits > maxCodeBits {
		d.Fail("split header")
		return d.Err()
	}
	right := 64 - left
	entries := d.Bytes(2 << codeBits)
	count := d.Uvarint()
	if count > uint64(len(dst)) {
		d.Fail("number of exceptions")
		count = 0
	}
	pw := placeWidth(len(dst))
	places := d.Bytes(packedLen(int(count), pw))
	lefts := d.Bytes(2 * int(count))
	packed := d.Bytes(packedLen(len(dst), right+codeBits))
	if d.Err() != nil {
		return d.Err()
	}
	if d.Len() != 0 {
		return corrupt("trailing bytes")
	}
	var dict [1 << maxCodeBits]uint64
	for i := range dict {
		entry := i & (1<<codeBits - 1)
		dict[i] = uint64(binary.LittleEndian.Uint16(entries[2*entry:])) << right
	}
	mask := uint64(1)<<right - 1
	w := right + codeBits
	n := splitVector(dst, packed, w, right, &dict)
	rest := dst[n:]
	unpack(rest, packed[uint(n)/8*w:], w)
	if codeBits == 0 {
		for i, x := range rest {
			rest[i] = x | dict[0]
		}
	} else {
		lefts := dict
		for i, x := range rest {
			rest[i] = x&mask | lefts[x>>(right&63)&(1<<maxCodeBits-1)]
		}
	}
	if count == 0 {
		return nil
	}
	s := wordPool.Get().(*wordScratch)
	defer wordPool.Put(s)
	at := s.a[:count]
	unpack(at, places, pw)
	for i, p := range at {
		if p >= uint64(len(dst)) {
			return corrupt("exception place")
		}
		dst[p] = dst[p]&mask | uint64(binary.LittleEndian.Uint16(lefts[2*i:]))<<right
	}
	return nil
}
