package tsm

import (
	"encoding/binary"
	"math/bits"

	"tsdbd/internal/binio"
	"tsdbd/model/column"
)

// The presence of a column that lacks values in some rows is before its
// values: a kind byte, then either a bit per row (bit i%8 of byte i/8, the
// bits left over zero) or the lengths of runs as varints, of rows with a value
// first, alternating, until the rows are covered.
const (
	presenceBits = 0
	presenceRuns = 1
)

// appendPresence appends the smaller form of valid's first rows bits, some of
// which are set and some clear.
func appendPresence(dst []byte, valid column.Bitmap, rows int) []byte {
	at := len(dst)
	limit := 1 + (rows+7)/8
	dst = append(dst, presenceRuns)
	set := true
	for i := 0; i < rows && len(dst)-at < limit; {
		n := runLength(valid, i, rows, set)
		dst = binary.AppendUvarint(dst, uint64(n))
		i += n
		set = !set
		if i == rows {
			if len(dst)-at < limit {
				return dst
			}
			break
		}
	}
	dst = append(dst[:at], presenceBits)
	for i := 0; i < rows; i += 8 {
		b := byte(valid[i>>6] >> (uint(i) & 63))
		if left := rows - i; left < 8 {
			b &= 1<<uint(left) - 1
		}
		dst = append(dst, b)
	}
	return dst
}

// runLength returns how many bits from i on equal set.
func runLength(valid column.Bitmap, i, rows int, set bool) int {
	start := i
	for i < rows {
		w := valid[i>>6] >> (uint(i) & 63)
		if set {
			w = ^w
		}
		left := 64 - i&63
		if n := bits.TrailingZeros64(w); n < left {
			return min(i+n, rows) - start
		}
		i += left
	}
	return rows - start
}

// decodePresence reads the presence at the start of b into valid, which has
// room for rows bits, and returns the values counted and the offset of the
// first byte after it, or -1 where it is malformed.
func decodePresence(valid column.Bitmap, b []byte, rows int) (count, off int) {
	if len(b) == 0 {
		return 0, -1
	}
	clear(valid)
	off = 1
	switch b[0] {
	case presenceBits:
		n := (rows + 7) / 8
		if len(b)-off < n {
			return 0, -1
		}
		for i, c := range b[off : off+n] {
			valid[i>>3] |= uint64(c) << (uint(i) & 7 * 8)
			count += bits.OnesCount8(c)
		}
		if r := uint(rows) & 7; r != 0 && b[n]>>r != 0 {
			return 0, -1
		}
		off += n
	case presenceRuns:
		for i, set := 0, true; i < rows; set = !set {
			var n uint64
			if n, off = binio.Uvarint(b, off); off < 0 || n > uint64(rows-i) || (n == 0 && i > 0) {
				return 0, -1
			}
			if set {
				setBits(valid, i, i+int(n))
				count += int(n)
			}
			i += int(n)
		}
	default:
		return 0, -1
	}
	if count == 0 || count == rows {
		return 0, -1
	}
	return count, off
}

// setBits sets bits [lo, hi).
func setBits(valid column.Bitmap, lo, hi int) {
	for lo < hi {
		n := min(64-lo&63, hi-lo)
		valid[lo>>6] |= ^uint64(0) >> uint(64-n) << (uint(lo) & 63)
		lo += n
	}
}
