package dictionary

import (
	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
)

// Source is the file that a tag was read from: a *mapped.File.
type Source interface {
	// Checked returns the bytes at an offset, size with their crc, which is right.
	Checked(offset, size int64) ([]byte, error)
	Path() string
}

// Tag is a tag key of a measurement in a file: how many values it has, which
// series have it, and where the pages of values are. It is read-only.
type Tag struct {
	Values  int
	Present *roaring.Bitmap
	pages   []pageRef
}

// pageRef is a page of values: where it is, and a text that is above all values before it
// and not above its first.
type pageRef struct {
	bound  string
	offset int64
	size   int32 // with the crc
	n      int32 // values
}

// ReadTag reads what Writer.Finish wrote. all is the measurement's set, fileSize
// bounds the pages. What is not sound is the decoder's error.
func ReadTag(d *binio.Decoder, all *roaring.Bitmap, fileSize int) *Tag {
	t := &Tag{Values: int(d.Uvarint()), Present: ReadSet(d, all)}
	n := d.Count(5)
	t.pages = make([]pageRef, 0, n)
	end, total, prior := int64(0), 0, ""
	for range n {
		p := pageRef{}
		p.offset = end + int64(d.Uvarint())
		size, values := d.Uvarint(), d.Uvarint()
		shared := d.Uvarint()
		suffix := d.Bytes(d.Count(1))
		if size > uint64(fileSize) || values == 0 || values > size || shared > uint64(len(prior)) || p.offset < 0 {
			d.Fail("bad page")
		}
		if d.Err() != nil {
			return t
		}
		p.size, p.n = int32(size), int32(values)
		p.bound = prior[:shared] + string(suffix)
		if p.bound <= prior {
			d.Fail("pages out of order")
		}
		end, prior = p.offset+int64(size), p.bound
		total += int(values)
		t.pages = append(t.pages, p)
	}
	if total != t.Values || d.Len() > 0 {
		d.Fail("values do not add up")
	}
	return t
}

// Find returns the posting of a value, and whether there is one.
func (t *Tag) Find(source Source, value string) (Posting, bool, error) {
	var room [64]byte // most values fit
	c := t.Cursor(source)
	c.Value = room[:0]
	if !c.Seek(value) || !c.Next() || string(c.Value) != value {
		return Posting{}, false, c.err
	}
	return c.Posting, true, nil
}

// Before returns a text from which on there are n values or a few more, "" if there
// are fewer.
func (t *Tag) Before(n int) string {
	for i := len(t.pages) - 1; i >= 0; i-- {
		if n -= int(t.pages[i].n); n <= 0 {
			return t.pages[i].bound
		}
	}
	return ""
}
