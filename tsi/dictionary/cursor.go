package dictionary

import (
	"encoding/binary"
	"math"
	"sort"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// Cursor walks the values of a tag key in a file. Value and Posting are valid until the
// next move.
type Cursor struct {
	Value   []byte
	Shared  int // bytes of Value that the one before it had too
	Posting Posting

	source Source
	tag    *Tag
	page   int    // next to load
	data   []byte // entries of the loaded page
	d      int    // offset in data
	left   int    // entries of the page
	at     int    // entries read since the last restart boundary

	base     uint32
	previous uint32
	restarts []byte
	pending  bool // Seek has read the entry that Next is to yield
	err      error
}

// Cursor returns a cursor before the first value. source is the file that the tag
// was read from.
func (t *Tag) Cursor(source Source) *Cursor { return &Cursor{source: source, tag: t} }

// Err returns what ended the walk too early, or nil.
func (c *Cursor) Err() error { return c.err }

// Tag returns the tag that the cursor walks.
func (c *Cursor) Tag() *Tag { return c.tag }

// At gives damage of a posting the file's path.
func (c *Cursor) At(err error) error { return binio.InFile(err, c.source.Path()) }

// loadPage makes page i the current one.
func (c *Cursor) loadPage(i int) bool {
	ref := &c.tag.pages[i]
	c.page, c.left = i+1, 0
	b, err := c.source.Checked(ref.offset, int64(ref.size))
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
	c.d, c.at, c.left = k, 0, int(ref.n)
	c.Value = c.Value[:0]
	return true
}

func (c *Cursor) corrupt(reason string) bool {
	at := int64(-1)
	if c.page > 0 && c.page <= len(c.tag.pages) {
		at = c.tag.pages[c.page-1].offset
	}
	c.err = binio.Corruptf(c.source.Path(), at, "value page: %s", reason)
	return false
}

// Next moves to the next value; false at the end or on error.
func (c *Cursor) Next() bool {
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
func (c *Cursor) entry() bool {
	shared, suffix, ok := c.text(len(c.Value))
	if !ok {
		return false
	}
	c.Value, c.Shared = append(c.Value[:shared], suffix...), shared
	return c.posting()
}

// text reads the value of the entry at the cursor: how many bytes it shares with the value
// before it, which has n bytes, and the other bytes.
func (c *Cursor) text(n int) (shared int, suffix []byte, ok bool) {
	b := c.data
	if c.d >= len(b) {
		return 0, nil, c.corrupt("entry out of bounds")
	}
	shared, size := int(b[c.d]>>4), int(b[c.d]&15)
	c.d++
	if shared == pageNibble {
		shared += c.uvarint()
	}
	if size == pageNibble {
		size += c.uvarint()
	}
	if c.at%pageRestart == 0 {
		c.previous = c.base
	}
	if c.err != nil || shared > n || size > len(b)-c.d || shared+size > maxValueLength {
		return 0, nil, c.corrupt("bad value length")
	}
	suffix = b[c.d : c.d+size]
	c.d += size
	c.at++
	c.left--
	return shared, suffix, true
}

func (c *Cursor) uvarint() int {
	v, n := binary.Uvarint(c.data[c.d:])
	if n <= 0 || v > math.MaxInt32 {
		c.corrupt("bad varint")
		return -1
	}
	c.d += n
	return int(v)
}

// posting reads the posting at the cursor.
func (c *Cursor) posting() bool {
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
		c.Posting.kind, c.Posting.id = postingSingle, uint32(id)
		c.previous = uint32(id)
		return true
	case postingList:
		size := c.uvarint()
		if size <= 0 || size > len(c.data)-c.d || x == 0 || x > uint64(size) {
			return c.corrupt("bad id list")
		}
		c.Posting = Posting{kind: postingList, n: int(x), previous: c.previous, data: c.data[c.d : c.d+size]}
		first, n := binary.Uvarint(c.Posting.data)
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
		c.Posting = Posting{kind: postingRoaring, data: c.data[c.d : c.d+int(x)]}
		c.d += int(x)
		return true
	}
	offset := c.uvarint()
	if c.err != nil {
		return false
	}
	// section bounds the place when it is read.
	c.Posting = Posting{kind: postingElsewhere, bitmap: x&1 != 0, source: c.source, offset: int64(offset), size: int64(x >> 1)}
	return true
}

// Seek moves so that Next yields the first value not less than v.
func (c *Cursor) Seek(v string) bool {
	pages := c.tag.pages
	c.pending = false
	// The last page whose bound is not greater than v.
	p := sort.Search(len(pages), func(i int) bool { return pages[i].bound > v }) - 1
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
		if string(c.Value) <= v {
			lo = mid
		} else {
			hi = mid
		}
	}
	c.jump(lo)
	n, same := 0, 0 // bytes of the last value, and how many of them v has too
	for c.left > 0 {
		shared, suffix, ok := c.text(n)
		if !ok || !c.posting() {
			return false
		}
		if n = shared + len(suffix); shared > same {
			continue // where the last value is less than v, this one is as well
		}
		rest := v[shared:]
		k := 0
		for k < len(rest) && k < len(suffix) && suffix[k] == rest[k] {
			k++
		}
		if k == len(rest) || k < len(suffix) && suffix[k] > rest[k] {
			c.Value = append(append(c.Value[:0], v[:shared]...), suffix...)
			c.pending, c.Shared = true, 0
			return true
		}
		same = shared + k
	}
	return true
}

// jump moves to restart r of the loaded page.
func (c *Cursor) jump(r int) {
	c.d = int(binary.LittleEndian.Uint16(c.restarts[2*r:]))
	c.at = r * pageRestart
	c.left = int(c.tag.pages[c.page-1].n) - c.at
	c.Value = c.Value[:0]
}
