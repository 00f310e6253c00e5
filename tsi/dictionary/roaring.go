package dictionary

import (
	"encoding/binary"
	"math/bits"
)

// validRoaring checks the bytes of a serialised roaring bitmap, per the
// portable format of RoaringFormatSpec, in one pass: all bytes are used, keys,
// arrays and runs ascend, counts are right. The library's Validate is
// quadratic in the runs of a container (150 ms for 20,000 runs; this takes 0.1, see BenchmarkCheck).
func validRoaring(b []byte) bool {
	const (
		cookieRuns   = 12347
		cookieNoRuns = 12346
		noOffsets    = 4 // fewer containers, with runs: no offset header
	)
	if len(b) < 4 {
		return false
	}
	cookie := binary.LittleEndian.Uint32(b)
	var n int
	var runs []byte
	switch {
	case cookie&0xffff == cookieRuns:
		n = int(cookie>>16) + 1
		b = b[4:]
		if len(b) < (n+7)/8 {
			return false
		}
		runs, b = b[:(n+7)/8], b[(n+7)/8:]
	case cookie == cookieNoRuns && len(b) >= 8:
		if size := binary.LittleEndian.Uint32(b[4:]); size <= 1<<16 {
			n, b = int(size), b[8:]
			break
		}
		return false
	default:
		return false
	}
	if len(b) < 4*n {
		return false
	}
	heads := b[:4*n]
	b = b[4*n:]
	if runs == nil || n >= noOffsets {
		if len(b) < 4*n {
			return false
		}
		b = b[4*n:]
	}
	previous := -1
	for i := range n {
		key := int(binary.LittleEndian.Uint16(heads[4*i:]))
		cardinality := int(binary.LittleEndian.Uint16(heads[4*i+2:])) + 1
		if key <= previous {
			return false
		}
		previous = key
		size := 0
		switch {
		case runs != nil && runs[i/8]>>(i%8)&1 != 0:
			size = validRuns(b, cardinality)
		case cardinality <= 4096:
			size = validArray(b, cardinality)
		default:
			size = validWords(b, cardinality)
		}
		if size == 0 {
			return false
		}
		b = b[size:]
	}
	return len(b) == 0
}

func validRuns(b []byte, cardinality int) (size int) {
	if len(b) < 2 {
		return 0
	}
	n := int(binary.LittleEndian.Uint16(b))
	if len(b) < 2+4*n {
		return 0
	}
	end, total := -1, 0
	for i := range n {
		start := int(binary.LittleEndian.Uint16(b[2+4*i:]))
		length := int(binary.LittleEndian.Uint16(b[4+4*i:])) // less one
		if start <= end || start+length > 1<<16-1 {
			return 0
		}
		end = start + length
		total += length + 1
	}
	if total != cardinality {
		return 0
	}
	return 2 + 4*n
}

func validArray(b []byte, cardinality int) (size int) {
	if len(b) < 2*cardinality {
		return 0
	}
	previous := -1
	for i := range cardinality {
		v := int(binary.LittleEndian.Uint16(b[2*i:]))
		if v <= previous {
			return 0
		}
		previous = v
	}
	return 2 * cardinality
}

func validWords(b []byte, cardinality int) (size int) {
	const words = 1024
	if len(b) < 8*words {
		return 0
	}
	total := 0
	for i := range words {
		total += bits.OnesCount64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	if total != cardinality {
		return 0
	}
	return 8 * words
}
