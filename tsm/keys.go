package tsm

import (
	"fmt"

	"tsdbd/internal/binio"
	"tsdbd/internal/keyblock"
	"tsdbd/model"
)

// A key page holds the keys of a group: a byte that is the keyblock.Form, and the
// keys in that form.

// maxKeyPage bounds the text of a page, so that no damage allocates more.
const maxKeyPage = groupSeries * (model.MaxKeyLength + 6)

// KeyCursor reads the series keys of a file. It is cheapest in ascending
// order. Its zero value is ready for Reset; it belongs to one goroutine.
type KeyCursor struct {
	r    *Reader
	page int // page in keys, -1 none
	keys keyblock.Page
}

// Reset points the cursor at a file, keeping its memory.
func (c *KeyCursor) Reset(r *Reader) { c.r, c.page = r, -1 }

// Key returns the key of series i. It is valid until the next call.
func (c *KeyCursor) Key(i int) ([]byte, error) {
	if i < 0 || i >= c.r.Len() {
		return nil, fmt.Errorf("tsm %s: series %d of %d", c.r.Path(), i, c.r.Len())
	}
	if p := i / groupSeries; p != c.page {
		c.page = -1
		page, off, err := c.r.keyPage(p)
		if err != nil {
			return nil, err
		}
		if len(page) == 0 || c.keys.Unpack(keyblock.Form(page[0]), page[1:], c.r.groupLen(p), maxKeyPage) != nil {
			return nil, binio.Corruptf(c.r.Path(), off, "tsm: bad key page")
		}
		c.page = p
	}
	return c.keys.Key(i % groupSeries), nil
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
