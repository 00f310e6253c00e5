package tsi

import (
	"encoding/binary"
	"math"
	"sort"

	"tsdbd/internal/binio"
	"tsdbd/internal/keyblock"
	"tsdbd/model"
)

// The values of one tag key stand in pages, sorted, each value with its
// posting:
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

func (w *pageWriter) reset() {
	w.buf, w.restarts, w.n, w.last = w.buf[:0], w.restarts[:0], 0, w.last[:0]
}

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

// finish completes the page but for its crc.
func (w *pageWriter) finish() []byte {
	for _, r := range w.restarts {
		w.buf = binary.LittleEndian.AppendUint16(w.buf, r)
	}
	w.buf = binary.LittleEndian.AppendUint16(w.buf, uint16(len(w.restarts)))
	return w.buf
}

// pageRef is a page of a dictionary: where it is and its first value.
type pageRef struct {
	first  string
	offset int64
	size   int32 // with the crc
	n      int32 // values
}

// dictCursor walks the values of a tag key in a file. value and post are valid
// until the next move.
type dictCursor struct {
	file *File
	tag  *fileTag
	page int    // next to load
	data []byte // entries of the loaded page
	d    int    // offset in data
	left int    // entries of the page
	at   int    // entries read since the last restart boundary

	value    []byte
	shared   int // bytes of value that the one before it had too
	post     posting
	base     uint32
	previous uint32
	restarts []byte
	pending  bool // seek has read the entry that next is to yield
	err      error
}

func (t *fileTag) cursor(f *File) dictCursor { return dictCursor{file: f, tag: t} }

// loadPage makes page i the current one.
func (c *dictCursor) loadPage(i int) bool {
	ref := &c.tag.pages[i]
	b, err := c.file.section(ref.offset, int64(ref.size))
	if err != nil {
		c.err = err
		return false
	}
	if len(b) < 2 {
		return c.corrupt("page too short")
	}
	n := int(binary.LittleEndian.Uint16(b[len(b)-2:]))
	if n*2 > len(b)-2 || n != (int(ref.n)+pageRestart-1)/pageRestart {
		return c.corrupt("bad restart count")
	}
	c.restarts = b[len(b)-2-2*n : len(b)-2]
	c.data = b[:len(b)-2-2*n]
	base, k := binary.Uvarint(c.data)
	if k <= 0 || base > model.MaxSeriesID {
		return c.corrupt("bad base")
	}
	c.base, c.previous = uint32(base), uint32(base)
	c.d, c.at, c.left, c.page = k, 0, int(ref.n), i+1
	c.value = c.value[:0]
	return true
}

func (c *dictCursor) corrupt(reason string) bool {
	at := int64(-1)
	if c.page > 0 && c.page <= len(c.tag.pages) {
		at = c.tag.pages[c.page-1].offset
	}
	c.err = binio.Corruptf(c.file.path, at, "value page: %s", reason)
	return false
}

// next moves to the next value; false at the end or on error.
func (c *dictCursor) next() bool {
	if c.pending {
		c.pending = false
		return true
	}
	for c.left == 0 {
		if c.err != nil || c.page >= len(c.tag.pages) || !c.loadPage(c.page) {
			return false
		}
	}
	return c.entry()
}

// entry reads the entry at the cursor.
func (c *dictCursor) entry() bool {
	b := c.data
	if c.d >= len(b) {
		return c.corrupt("entry out of bounds")
	}
	shared, suffix := int(b[c.d]>>4), int(b[c.d]&15)
	c.d++
	if shared == pageNibble {
		shared += c.uvarint()
	}
	if suffix == pageNibble {
		suffix += c.uvarint()
	}
	if c.at%pageRestart == 0 {
		c.previous = c.base
	}
	if c.err != nil || shared > len(c.value) || suffix > len(b)-c.d || shared+suffix > maxValueLength {
		return c.corrupt("bad value length")
	}
	c.value = append(c.value[:shared], b[c.d:c.d+suffix]...)
	c.shared = shared
	c.d += suffix
	c.at++
	c.left--
	return c.posting()
}

func (c *dictCursor) uvarint() int {
	v, n := binary.Uvarint(c.data[c.d:])
	if n <= 0 || v > math.MaxInt32 {
		c.corrupt("bad varint")
		return -1
	}
	c.d += n
	return int(v)
}

// posting reads the posting at the cursor.
func (c *dictCursor) posting() bool {
	h, n := binary.Uvarint(c.data[c.d:])
	if n <= 0 {
		return c.corrupt("bad posting")
	}
	c.d += n
	x := h >> 2
	switch h & 3 {
	case postingSingle:
		id := int64(c.previous) + binio.UnZigZag(x)
		if id <= 0 || id > model.MaxSeriesID {
			return c.corrupt("bad id")
		}
		// The pointers of the last posting stay: writing them costs more than
		// all the rest while the garbage collector runs.
		c.post.kind, c.post.id = postingSingle, uint32(id)
		c.previous = uint32(id)
		return true
	case postingList:
		size := c.uvarint()
		if size <= 0 || size > len(c.data)-c.d || x == 0 || x > uint64(size) {
			return c.corrupt("bad id list")
		}
		c.post = posting{kind: postingList, n: int(x), previous: c.previous, data: c.data[c.d : c.d+size]}
		first, n := binary.Uvarint(c.post.data)
		if n <= 0 {
			return c.corrupt("bad id list")
		}
		c.previous = uint32(int64(c.previous) + binio.UnZigZag(first))
		c.d += size
		return true
	case postingRoaring:
		if x > uint64(len(c.data)-c.d) {
			return c.corrupt("bad bitmap length")
		}
		c.post = posting{kind: postingRoaring, data: c.data[c.d : c.d+int(x)]}
		c.d += int(x)
		return true
	}
	offset := c.uvarint()
	if c.err != nil {
		return false
	}
	// section bounds the place when it is read.
	c.post = posting{kind: postingElsewhere, bitmap: x&1 != 0, file: c.file, offset: int64(offset), size: int64(x >> 1)}
	return true
}

// seek moves so that next yields the first value not less than v.
func (c *dictCursor) seek(v string) bool {
	pages := c.tag.pages
	c.pending = false
	// The last page whose first value is not greater than v.
	p := sort.Search(len(pages), func(i int) bool { return pages[i].first > v }) - 1
	if p < 0 {
		c.page, c.left = 0, 0
		return true
	}
	if !c.loadPage(p) {
		return false
	}
	// The last restart whose value is not greater than v.
	lo, hi := 0, len(c.restarts)/2
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		c.jump(mid)
		if !c.entry() {
			return false
		}
		if string(c.value) <= v {
			lo = mid
		} else {
			hi = mid
		}
	}
	c.jump(lo)
	for c.left > 0 {
		if !c.entry() {
			return false
		}
		if string(c.value) >= v {
			c.pending, c.shared = true, 0
			return true
		}
	}
	return true
}

// jump moves to restart r of the loaded page.
func (c *dictCursor) jump(r int) {
	c.d = int(binary.LittleEndian.Uint16(c.restarts[2*r:]))
	c.at = r * pageRestart
	c.left = int(c.tag.pages[c.page-1].n) - c.at
	c.value = c.value[:0]
}
