package dictionary

import (
	"encoding/binary"

	"tsdbd/internal/keyblock"
)

// Pages hold the values of one tag key, sorted, each value with its posting:
//
//	page   | base uvarint | entries ... | restart offsets u16 each | restarts u16 | crc u32 |
//	entry  | shared 4 bits, suffix 4 bits | [uvarint shared-15] | [uvarint suffix-15] | suffix | posting |
//
// shared is how many bytes the value shares with the one before it; a nibble
// of 15 is continued by a varint. Every 32nd entry is a restart: it shares
// nothing, and its place is in the offsets, so that a lookup is two binary
// searches (page, restart) and a walk of 16 values on average.
const (
	pageBytes      = 4096
	pageRestart    = 32
	pageNibble     = 15
	maxValueLength = 1 << 16
)

// pageWriter builds pages.
type pageWriter struct {
	buf      []byte
	restarts []uint16
	n        int
	last     []byte
	base     uint32
	previous uint32
}

// reset begins the next page. The last value stays, for the bound between the two.
func (w *pageWriter) reset() { w.buf, w.restarts, w.n = w.buf[:0], w.restarts[:0], 0 }

// start begins an entry; the posting is appended to w.buf next.
func (w *pageWriter) start(value []byte, firstID uint32) {
	if w.n == 0 {
		w.base = firstID
		w.buf = binary.AppendUvarint(w.buf, uint64(firstID))
	}
	shared := 0
	if w.n%pageRestart == 0 {
		w.restarts = append(w.restarts, uint16(len(w.buf)))
		w.previous = w.base
	} else {
		shared = keyblock.SharedPrefix(w.last, value)
	}
	suffix := len(value) - shared
	w.buf = append(w.buf, byte(min(shared, pageNibble)<<4|min(suffix, pageNibble)))
	if shared >= pageNibble {
		w.buf = binary.AppendUvarint(w.buf, uint64(shared-pageNibble))
	}
	if suffix >= pageNibble {
		w.buf = binary.AppendUvarint(w.buf, uint64(suffix-pageNibble))
	}
	w.buf = append(w.buf, value[shared:]...)
	w.last = append(w.last[:0], value...)
	w.n++
}

// finish completes the page, without its crc.
func (w *pageWriter) finish() []byte {
	for _, r := range w.restarts {
		w.buf = binary.LittleEndian.AppendUint16(w.buf, r)
	}
	w.buf = binary.LittleEndian.AppendUint16(w.buf, uint16(len(w.restarts)))
	return w.buf
}
