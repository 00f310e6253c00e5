package parquet

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/golang/snappy"

	"tsdbd/model"
	"tsdbd/model/column"
)

// Bounds of a page, of the dictionary of a column in a group, and of the texts in
// statistics.
const (
	pageRows        = 16 << 10
	pageBytes       = 512 << 10
	dictionaryBytes = 1 << 20
	boundBytes      = 64
	entryBytes      = 64 // of memory per entry of a dictionary, besides its text twice
)

// Codes of the format.
const (
	plain          = 0
	rle            = 3
	delta          = 5
	rleDictionary  = 8
	snappyCodec    = 1
	dataPage       = 0
	dictionaryPage = 2
)

// chunk is a column with what the open group has of it.
type chunk struct {
	Column
	bytes bool // some text is not UTF-8

	// The open page.
	rows    int     // with nulls
	levels  []uint8 // 1 for a value, 0 for a null; nil while there is no null
	ints    []int64
	data    []byte // values as PLAIN has them
	bits    packer // of booleans
	values  int    // that are not null
	indexes []uint32

	// The group.
	total      int // rows
	nulls      int64
	pages      []byte
	raw        int64 // bytes of the pages before compression
	entries    map[string]uint32
	dictionary []byte
	latest     string // the latest text, and its place in the dictionary
	place      uint32
	plainTexts bool   // the dictionary is full
	used       uint32 // encodings, by their codes
	least      []byte // nil: none
	greatest   []byte
	unbounded  bool // a bound is too long

	scratch *scratch
}

// scratch is memory that the columns of a Writer share.
type scratch struct{ body, packed []byte }

// size returns the bytes of memory that the open group has of the column.
func (c *chunk) size() int64 {
	return int64(cap(c.pages) + cap(c.levels) + 8*cap(c.ints) + cap(c.data) + cap(c.bits.dst) + 4*cap(c.indexes) +
		2*cap(c.dictionary) + entryBytes*len(c.entries))
}

// addNulls adds n rows without a value.
func (c *chunk) addNulls(n int) {
	for n > 0 {
		m := min(n, pageRows-c.rows)
		c.needLevels()
		c.levels = append(c.levels, make([]uint8, m)...)
		c.rows += m
		n -= m
		c.endPage(pageRows)
	}
}

// needLevels begins the levels of a page whose rows had values so far.
func (c *chunk) needLevels() {
	for len(c.levels) < c.rows {
		c.levels = append(c.levels, 1)
	}
}

// addValues makes room in the levels for n rows with values.
func (c *chunk) addValues(n int) {
	if len(c.levels) > 0 {
		for range n {
			c.levels = append(c.levels, 1)
		}
	}
	c.rows += n
	c.values += n
}

// addTimes adds times, which all rows have.
func (c *chunk) addTimes(times []int64) {
	for len(times) > 0 {
		n := min(len(times), pageRows-c.rows)
		c.addValues(n)
		c.ints = append(c.ints, times[:n]...)
		c.endPage(pageRows)
		times = times[n:]
	}
}

// addText adds n rows with one text.
func (c *chunk) addText(s string, n int) {
	for range n {
		c.addString(s)
	}
}

// add adds the n rows of v.
func (c *chunk) add(v *column.Vector, n int) {
	for i := 0; i < n; {
		m := 1
		if v.Valid == nil {
			m = min(n-i, pageRows-c.rows)
		} else if !v.Valid.Get(i) {
			c.addNulls(1)
			i++
			continue
		}
		if v.Type == model.String {
			for _, s := range v.Strings[i : i+m] {
				c.addString(s)
			}
			i += m
			continue
		}
		c.addValues(m)
		switch v.Type {
		case model.Float:
			for _, f := range v.Floats[i : i+m] {
				c.data = binary.LittleEndian.AppendUint64(c.data, math.Float64bits(f))
			}
		case model.Integer:
			c.ints = append(c.ints, v.Ints[i:i+m]...)
		case model.Unsigned:
			for _, u := range v.Uints[i : i+m] {
				c.ints = append(c.ints, int64(u))
			}
		case model.Boolean:
			for _, b := range v.Bools[i : i+m] {
				bit := uint64(0)
				if b {
					bit = 1
				}
				c.bits.add(bit, 1)
			}
		}
		c.endPage(pageRows)
		i += m
	}
}

// addString adds a row with a text, by its place in the dictionary, or as it is once the
// dictionary is full.
func (c *chunk) addString(s string) {
	if !c.plainTexts {
		if place, ok := c.lookup(s); ok {
			c.addValues(1)
			c.indexes = append(c.indexes, place)
			c.endPage(pageRows)
			return
		}
		c.endPage(1) // of places in the dictionary
		c.plainTexts, c.entries, c.latest = true, nil, ""
	}
	c.addValues(1)
	c.data = appendText(c.data, s)
	c.boundText(s)
	c.endPage(pageRows)
}

// lookup returns the place of a text in the dictionary. It returns false if the dictionary
// is full.
func (c *chunk) lookup(s string) (uint32, bool) {
	if len(c.entries) > 0 && s == c.latest {
		return c.place, true
	}
	place, ok := c.entries[s]
	if !ok {
		if len(c.dictionary)+len(s)+4 > dictionaryBytes {
			return 0, false
		}
		if c.entries == nil {
			c.entries = map[string]uint32{}
		}
		place = uint32(len(c.entries))
		c.dictionary = appendText(c.dictionary, s)
		c.entries[strings.Clone(s)] = place
		c.boundText(s)
	}
	c.latest, c.place = s, place
	return place, true
}

func appendText(dst []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(s))), s...)
}

// boundText widens the bounds of a column of texts.
func (c *chunk) boundText(s string) {
	c.bytes = c.bytes || !utf8.ValidString(s)
	switch {
	case c.unbounded:
	case len(s) > boundBytes:
		c.unbounded = true
	default:
		if c.least == nil || s < string(c.least) {
			c.least = append(make([]byte, 0, boundBytes), s...)
		}
		if c.greatest == nil || s > string(c.greatest) {
			c.greatest = append(make([]byte, 0, boundBytes), s...)
		}
	}
}

// endPage ends a page of at least rows rows, or of many bytes. It does nothing if the page
// is empty.
func (c *chunk) endPage(rows int) {
	if c.rows == 0 || c.rows < rows && len(c.data) < pageBytes {
		return
	}
	body := c.scratch.body[:0]
	if !c.Required {
		body = append(body, 0, 0, 0, 0)
		if len(c.levels) == 0 {
			body = append(binary.AppendUvarint(body, uint64(c.rows)<<1), 1)
		} else {
			body = appendHybrid(body, c.levels, 1)
		}
		binary.LittleEndian.PutUint32(body, uint32(len(body)-4))
		c.used |= 1 << rle
	}
	encoding := plain
	switch {
	case c.values == 0:
	case len(c.ints) > 0:
		encoding = delta
		body = appendDelta(body, c.ints)
		c.boundInts()
	case len(c.indexes) > 0:
		encoding = rleDictionary
		width := max(1, bits.Len(uint(len(c.entries)-1)))
		body = appendHybrid(append(body, byte(width)), c.indexes, width)
	case c.Type == model.Boolean:
		packed := c.bits.finish()
		c.boundBooleans(packed)
		body = append(body, packed...)
	default:
		if c.Type == model.Float {
			c.boundFloats()
		}
		body = append(body, c.data...)
	}
	c.used |= 1 << encoding
	c.nulls += int64(c.rows - c.values)
	c.total += c.rows
	c.pages = c.page(c.pages, dataPage, encoding, c.rows, body)
	c.scratch.body = body
	c.rows, c.values = 0, 0
	c.levels, c.ints, c.data, c.indexes, c.bits.dst = c.levels[:0], c.ints[:0], c.data[:0], c.indexes[:0], c.bits.dst[:0]
}

// page appends a page with its header to dst.
func (c *chunk) page(dst []byte, kind int32, encoding, rows int, body []byte) []byte {
	if need := snappy.MaxEncodedLen(len(body)); need > len(c.scratch.packed) {
		c.scratch.packed = make([]byte, need)
	}
	packed := snappy.Encode(c.scratch.packed, body)
	var t thrift
	t.begin()
	t.i32(1, kind)
	t.i32(2, int32(len(body)))
	t.i32(3, int32(len(packed)))
	t.i32(4, int32(crc32.ChecksumIEEE(packed)))
	if kind == dataPage {
		t.structure(5)
		t.i32(1, int32(rows))
		t.i32(2, int32(encoding))
		t.i32(3, rle)
		t.i32(4, rle)
	} else {
		t.structure(7)
		t.i32(1, int32(rows))
		t.i32(2, int32(encoding))
	}
	t.end()
	t.end()
	c.raw += int64(len(t.b) + len(body))
	return append(append(dst, t.b...), packed...)
}

// boundInts widens the bounds by the integers of the page.
func (c *chunk) boundInts() {
	lo, hi := c.ints[0], c.ints[0]
	flip := int64(0)
	if c.Type == model.Unsigned {
		flip = math.MinInt64 // so that the order of integers is that of unsigned ones
	}
	lo, hi = lo^flip, hi^flip
	for _, v := range c.ints {
		lo, hi = min(lo, v^flip), max(hi, v^flip)
	}
	if c.least != nil {
		lo = min(lo, int64(binary.LittleEndian.Uint64(c.least))^flip)
		hi = max(hi, int64(binary.LittleEndian.Uint64(c.greatest))^flip)
	}
	c.setBounds(uint64(lo^flip), uint64(hi^flip))
}

// boundFloats widens the bounds by the floats of the page. NaN has no place in them, and
// zeros have the sign that makes them include both zeros.
func (c *chunk) boundFloats() {
	lo, hi := math.Inf(1), math.Inf(-1)
	if c.least != nil {
		lo = math.Float64frombits(binary.LittleEndian.Uint64(c.least))
		hi = math.Float64frombits(binary.LittleEndian.Uint64(c.greatest))
	}
	numbers := c.least != nil
	for b := c.data; len(b) > 0; b = b[8:] {
		if v := math.Float64frombits(binary.LittleEndian.Uint64(b)); !math.IsNaN(v) {
			lo, hi, numbers = min(lo, v), max(hi, v), true
		}
	}
	if !numbers {
		return
	}
	if lo == 0 {
		lo = math.Copysign(0, -1)
	}
	if hi == 0 {
		hi = 0
	}
	c.setBounds(math.Float64bits(lo), math.Float64bits(hi))
}

func (c *chunk) setBounds(lo, hi uint64) {
	c.least = binary.LittleEndian.AppendUint64(c.least[:0], lo)
	c.greatest = binary.LittleEndian.AppendUint64(c.greatest[:0], hi)
}

// boundBooleans widens the bounds by the booleans of the page.
func (c *chunk) boundBooleans(packed []byte) {
	ones := 0
	for _, b := range packed {
		ones += bits.OnesCount8(b)
	}
	if ones < c.values && (c.least == nil || c.least[0] == 1) {
		c.least = []byte{0}
	}
	if ones > 0 {
		c.greatest = []byte{1}
	}
	if c.least == nil {
		c.least = []byte{1}
	}
	if c.greatest == nil {
		c.greatest = []byte{0}
	}
}

// finish ends the last page and returns the dictionary's page, nil if there is none.
func (c *chunk) finish() []byte {
	c.endPage(1)
	if c.used&(1<<rleDictionary) == 0 {
		return nil
	}
	c.used |= 1 << plain
	entries := 0
	for b := c.dictionary; len(b) > 0; entries++ {
		b = b[4+binary.LittleEndian.Uint32(b):]
	}
	return c.page(nil, dictionaryPage, plain, entries, c.dictionary)
}

// reset empties the chunk for the next group.
func (c *chunk) reset() {
	c.total, c.nulls, c.raw, c.used = 0, 0, 0, 0
	c.pages, c.dictionary, c.latest = c.pages[:0], c.dictionary[:0], ""
	clear(c.entries)
	c.plainTexts, c.unbounded = false, false
	c.least, c.greatest = nil, nil
}

// bounds returns the least and the greatest value, nil if they are not known.
func (c *chunk) bounds() (least, greatest []byte) {
	if c.unbounded {
		return nil, nil
	}
	return bytes.Clone(c.least), bytes.Clone(c.greatest)
}
