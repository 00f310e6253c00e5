package keyblock

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/golang/snappy"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// Form is how the keys of a page are written.
type Form byte

// The forms of a page.
const (
	Plain   Form = iota // of each key: what it shares with the one before, the rest's length, the rest
	Snappy              // the same, in Snappy
	Columns             // as an Encoder writes them
)

// worthwhile is the number of keys from which on columns are worth a try.
const worthwhile = 8

// long is how many bytes of keys make a page long: three copies of them would take
// megabytes, so it is not written in each form for a comparison.
const long = 256 << 10

// Packer packs pages of keys in their shortest form and keeps its memory. It
// belongs to one goroutine.
type Packer struct {
	NoPlain bool // the format has no plain form

	encoder               Encoder
	columns, text, packed []byte
}

// Pack packs keys. The result is valid until the next call.
func (p *Packer) Pack(keys []string) (Form, []byte) {
	size := 0
	for _, k := range keys {
		size += len(k)
	}
	ok := len(keys) >= worthwhile
	if ok {
		if p.columns, ok = p.encoder.Append(p.columns[:0], keys); ok && 8*len(p.columns) < size {
			return Columns, p.columns
		}
	}
	if size > long {
		if ok && 2*len(p.columns) < size {
			return Columns, p.columns
		}
		p.text, p.columns, ok = p.columns, nil, false
	}
	p.text = slices.Grow(p.text[:0], size)
	last := ""
	for _, k := range keys {
		n := SharedPrefix(last, k)
		p.text = binary.AppendUvarint(p.text, uint64(n))
		p.text = binary.AppendUvarint(p.text, uint64(len(k)-n))
		p.text = append(p.text, k[n:]...)
		last = k
	}
	p.packed = snappy.Encode(p.packed[:cap(p.packed)], p.text)
	form, best := Snappy, p.packed
	if !p.NoPlain && len(p.text) <= len(best) {
		form, best = Plain, p.text
	}
	if ok && len(p.columns) < len(best) {
		form, best = Columns, p.columns
	}
	return form, best
}

// Page is an unpacked page: memory that is used again by Unpack. It belongs to one
// goroutine.
type Page struct {
	Text []byte   // the keys, one behind the other
	Ends []uint32 // of each key in Text

	columns Decoder
}

// snappied is memory that pages out of Snappy stand in until their keys are whole: a merge
// has many pages, and unpacks one at a time.
var snappied = sync.Pool{New: func() any { return new([]byte) }}

// Key returns key i, sharing memory with the page.
func (p *Page) Key(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = p.Ends[i-1]
	}
	return p.Text[start:p.Ends[i]:p.Ends[i]]
}

// Unpack reads the n keys of a page. One that is damaged, holds a key that is empty
// or too long, or unpacks to more than maxText bytes, is a *binio.CorruptError.
func (p *Page) Unpack(form Form, b []byte, n, maxText int) (err error) {
	p.Text, p.Ends = p.Text[:0], p.Ends[:0]
	switch form {
	case Columns:
		p.Text, p.Ends, err = p.columns.Decode(p.Text, p.Ends, b, n, maxText)
		return err
	case Snappy:
		// Snappy makes three bytes of 64 at best: no damage takes much memory.
		size, err := snappy.DecodedLen(b)
		if err != nil || size > maxText || size > 32*len(b)+64 {
			return damaged("bad length")
		}
		room := snappied.Get().(*[]byte)
		defer snappied.Put(room)
		if b, err = snappy.Decode((*room)[:cap(*room)], b); err != nil {
			return damaged(err.Error())
		}
		*room = b
	case Plain:
	default:
		return damaged("unknown form of a page")
	}
	p.Text = slices.Grow(p.Text, min(len(b), maxText))
	start, off := 0, 0 // of the key before; in b
	p.Ends = slices.Grow(p.Ends, min(n, len(b)))
	for range n {
		var shared, rest uint64
		shared, off = binio.Uvarint(b, off)
		if off >= 0 {
			rest, off = binio.Uvarint(b, off)
		}
		if off < 0 || shared > uint64(len(p.Text)-start) || rest > uint64(len(b)-off) {
			return damaged("bad key")
		}
		if size := shared + rest; size == 0 || size > model.MaxKeyLength || size > uint64(maxText-len(p.Text)) {
			return damaged("key empty or text too long")
		}
		last := start
		start = len(p.Text)
		p.Text = append(p.Text, p.Text[last:last+int(shared)]...)
		p.Text = append(p.Text, b[off:off+int(rest)]...)
		p.Ends = append(p.Ends, uint32(len(p.Text)))
		off += int(rest)
	}
	if off < len(b) {
		return damaged("bytes left over")
	}
	return nil
}
