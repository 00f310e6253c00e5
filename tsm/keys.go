package tsm

import (
	"encoding/binary"
	"fmt"

	"github.com/golang/snappy"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// A key page holds the keys of a group, each as shared prefix length with the
// key before, rest length and rest: a flag byte (0 plain, 1 Snappy) and the
// text, whichever is shorter.
const (
	keyPagePlain  = 0
	keyPageSnappy = 1
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

// encodeKeyPage appends the page of text, using scratch, which it returns.
func encodeKeyPage(dst, text, scratch []byte) (page, buf []byte) {
	scratch = snappy.Encode(scratch[:cap(scratch)], text)
	if len(scratch) < len(text) {
		return append(append(dst, keyPageSnappy), scratch...), scratch
	}
	return append(append(dst, keyPagePlain), text...), scratch
}

// decodeKeyPage returns the text of a page, in buf's memory where it fits.
func decodeKeyPage(buf, page []byte) ([]byte, bool) {
	if len(page) == 0 {
		return nil, false
	}
	switch page[0] {
	case keyPagePlain:
		return append(buf[:0], page[1:]...), true
	case keyPageSnappy:
		n, err := snappy.DecodedLen(page[1:])
		if err != nil || n > maxKeyPage || n > 32*len(page)+64 && n > 1<<20 {
			return nil, false
		}
		text, err := snappy.Decode(buf[:cap(buf)], page[1:])
		return text, err == nil
	}
	return nil, false
}

// KeyCursor reads the series keys of a file. It is cheapest in ascending
// order. Its zero value is ready for Reset; it belongs to one goroutine.
type KeyCursor struct {
	r    *Reader
	page int    // page decoded, -1 none
	text []byte // of the page
	off  int    // in text, of key next
	next int    // ordinal of the key at off
	key  []byte // key next-1
}

// Reset points the cursor at a file, keeping its memory.
func (c *KeyCursor) Reset(r *Reader) { c.r, c.page = r, -1 }

// Key returns the key of series i. It is valid until the next call.
func (c *KeyCursor) Key(i int) ([]byte, error) {
	if i < 0 || i >= c.r.Len() {
		return nil, fmt.Errorf("tsm %s: series %d of %d", c.r.path, i, c.r.Len())
	}
	if p := i / groupSeries; p != c.page || i < c.next-1 {
		if err := c.load(p); err != nil {
			return nil, err
		}
	}
	for c.next <= i {
		shared, off := uvarint(c.text, c.off)
		if off < 0 {
			return nil, c.corrupt()
		}
		rest, off := uvarint(c.text, off)
		if off < 0 || shared > uint64(len(c.key)) || rest > uint64(len(c.text)-off) {
			return nil, c.corrupt()
		}
		c.key = append(c.key[:shared], c.text[off:off+int(rest)]...)
		c.off = off + int(rest)
		c.next++
	}
	return c.key, nil
}

func (c *KeyCursor) load(p int) error {
	if p != c.page {
		c.page = -1
		page, _, err := c.r.keyPage(p)
		if err != nil {
			return err
		}
		text, ok := decodeKeyPage(c.text, page)
		if !ok {
			c.page = p
			return c.corrupt()
		}
		c.text, c.page = text, p
	}
	c.off, c.next, c.key = 0, p*groupSeries, c.key[:0]
	return nil
}

// corrupt forgets the page and returns the error for it.
func (c *KeyCursor) corrupt() error {
	_, off, err := c.r.keyPage(c.page)
	c.page = -1
	if err != nil {
		return err
	}
	return binio.Corruptf(c.r.path, off, "tsm: bad key page")
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
