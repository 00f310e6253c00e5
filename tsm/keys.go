package tsm

import (
	"encoding/binary"
	"fmt"

	"github.com/golang/snappy"

	"tsdbd/internal/binio"
	"tsdbd/internal/keyblock"
	"tsdbd/model"
)

// A key page holds the keys of a group: a flag byte and, whichever is shorter,
// the columns of package keyblock, or each key as shared prefix length with the
// key before, rest length and rest, plain or in Snappy.
const (
	keyPagePlain   = 0
	keyPageSnappy  = 1
	keyPageColumns = 2
	// maxKeyPage bounds the text of a page, so that no damage allocates more.
	maxKeyPage = groupSeries * (model.MaxKeyLength + 6)
)

// appendKey appends key to the text of a page.
func appendKey(dst []byte, last, key string) []byte {
	n := 0
	for n < len(last) && n < len(key) && last[n] == key[n] {
		n++
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	dst = binary.AppendUvarint(dst, uint64(len(key)-n))
	return append(dst, key[n:]...)
}

// keyPageEncoder makes key pages and keeps its memory.
type keyPageEncoder struct {
	encoder               keyblock.Encoder
	columns, text, packed []byte
}

// append appends the page of keys to dst.
func (e *keyPageEncoder) append(dst []byte, keys []string) []byte {
	size := 0
	for _, k := range keys {
		size += len(k)
	}
	ok := len(keys) >= keyblock.Worthwhile
	if ok {
		if e.columns, ok = e.encoder.Append(e.columns[:0], keys); ok && 8*len(e.columns) < size {
			return append(append(dst, keyPageColumns), e.columns...)
		}
	}
	e.text = e.text[:0]
	last := ""
	for _, k := range keys {
		e.text = appendKey(e.text, last, k)
		last = k
	}
	e.packed = snappy.Encode(e.packed[:cap(e.packed)], e.text)
	flag, best := byte(keyPagePlain), e.text
	if len(e.packed) < len(best) {
		flag, best = keyPageSnappy, e.packed
	}
	if ok && len(e.columns) < len(best) {
		flag, best = keyPageColumns, e.columns
	}
	return append(append(dst, flag), best...)
}

// keyPage is an unpacked page: reusable memory for decode.
type keyPage struct {
	text    []byte
	ends    []uint32
	packed  []byte
	columns keyblock.Decoder
}

// decode unpacks a page of n keys and reports whether it is sound.
func (p *keyPage) decode(page []byte, n int) bool {
	p.text, p.ends = p.text[:0], p.ends[:0]
	if len(page) == 0 {
		return false
	}
	text := page[1:]
	switch page[0] {
	case keyPagePlain:
	case keyPageSnappy:
		size, err := snappy.DecodedLen(text)
		if err != nil || size > maxKeyPage || size > 32*len(page)+64 && size > 1<<20 {
			return false
		}
		if text, err = snappy.Decode(p.packed[:cap(p.packed)], text); err != nil {
			return false
		}
		p.packed = text
	case keyPageColumns:
		var err error
		p.text, p.ends, err = p.columns.Decode(p.text, p.ends, text, n, maxKeyPage)
		return err == nil
	default:
		return false
	}
	start := 0 // of the key before
	for off := 0; len(p.ends) < n; {
		var shared, rest uint64
		if shared, off = uvarint(text, off); off < 0 {
			return false
		}
		if rest, off = uvarint(text, off); off < 0 || shared > uint64(len(p.text)-start) || rest > uint64(len(text)-off) ||
			shared+rest > model.MaxKeyLength {
			return false
		}
		last := start
		start = len(p.text)
		p.text = append(p.text, p.text[last:last+int(shared)]...)
		p.text = append(p.text, text[off:off+int(rest)]...)
		p.ends = append(p.ends, uint32(len(p.text)))
		off += int(rest)
	}
	return true
}

// key returns key i of the page.
func (p *keyPage) key(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = p.ends[i-1]
	}
	return p.text[start:p.ends[i]:p.ends[i]]
}

// KeyCursor reads the series keys of a file. It is cheapest in ascending
// order. Its zero value is ready for Reset; it belongs to one goroutine.
type KeyCursor struct {
	r    *Reader
	page int // page in keys, -1 none
	keys keyPage
}

// Reset points the cursor at a file, keeping its memory.
func (c *KeyCursor) Reset(r *Reader) { c.r, c.page = r, -1 }

// Key returns the key of series i. It is valid until the next call.
func (c *KeyCursor) Key(i int) ([]byte, error) {
	if i < 0 || i >= c.r.Len() {
		return nil, fmt.Errorf("tsm %s: series %d of %d", c.r.path, i, c.r.Len())
	}
	if p := i / groupSeries; p != c.page {
		c.page = -1
		page, off, err := c.r.keyPage(p)
		if err != nil {
			return nil, err
		}
		if !c.keys.decode(page, min(groupSeries, c.r.Len()-p*groupSeries)) {
			return nil, binio.Corruptf(c.r.path, off, "tsm: bad key page")
		}
		c.page = p
	}
	return c.keys.key(i % groupSeries), nil
}

// Key returns the series key of series i. Walks over many keys use a KeyCursor.
func (r *Reader) Key(i int) (string, error) {
	c, _ := r.keyCursors.Get().(*KeyCursor)
	if c == nil {
		c = new(KeyCursor)
		c.Reset(r)
	}
	defer r.keyCursors.Put(c)
	key, err := c.Key(i)
	return string(key), err
}

// Search returns the ordinal of the first series whose key is not less than
// key, Len if there is none, and whether it is key itself.
func (r *Reader) Search(key string) (int, bool, error) {
	var c KeyCursor
	c.Reset(r)
	// The last page whose first key is not greater than key.
	lo, hi := 0, (r.Len()+groupSeries-1)/groupSeries
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		k, err := c.Key(m * groupSeries)
		if err != nil {
			return 0, false, err
		}
		if string(k) <= key {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo == 0 {
		return 0, false, nil
	}
	for i := (lo - 1) * groupSeries; i < min(lo*groupSeries, r.Len()); i++ {
		k, err := c.Key(i)
		if err != nil {
			return 0, false, err
		}
		if string(k) >= key {
			return i, string(k) == key, nil
		}
	}
	return min(lo*groupSeries, r.Len()), false, nil
}
