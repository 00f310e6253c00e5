package dictionary

import (
	"encoding/binary"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/keyblock"
)

// Writer writes the values of one tag key after the other.
type Writer struct {
	section func(b []byte) (offset int64, size int) // writes b and its crc
	set     setEncoder
	page    pageWriter
	scratch []byte

	tag openTag
}

// openTag is the tag whose values come.
type openTag struct {
	pages   []byte // page entries of the tag section
	n       int    // of them
	end     int64  // of the last page
	values  int
	bound   []byte // of the open page: above all values before it, not above its first
	prior   []byte // bound of the last page
	opened  int    // values before the open page
	present Collector
}

// NewWriter returns a writer for a file: section writes bytes and their crc, and
// returns their place.
func NewWriter(section func(b []byte) (offset int64, size int)) *Writer {
	return &Writer{section: section}
}

// Add adds a value greater than those before and its ids, ascending, at least
// one.
func (w *Writer) Add(value []byte, ids []uint32) {
	p := &w.page
	if len(p.buf) >= pageBytes {
		w.cut()
	}
	if p.n == 0 {
		// As short as can be: a value may have 64 kB, and the bounds of all pages stay in memory.
		w.tag.bound = append(w.tag.bound[:0], value[:min(keyblock.SharedPrefix(p.last, value)+1, len(value))]...)
		w.tag.opened = w.tag.values
	}
	w.tag.values++
	for _, id := range ids {
		w.tag.present.Add(id)
	}
	var kind uint8
	var data []byte
	if len(ids) > 1 {
		// A large set is the same with any previous; a small one is encoded again.
		if kind, data = w.set.encode(0, ids); len(data) > postingInline {
			w.addElsewhere(value, ids, kind, data)
			return
		}
	}
	p.start(value, ids[0])
	switch {
	case len(ids) == 1:
		//lint:ignore SA4016 postingSingle is 0, and named for the reader
		p.buf = binary.AppendUvarint(p.buf, binio.ZigZag(int64(ids[0])-int64(p.previous))<<2|postingSingle)
		p.previous = ids[0]
	case kind == postingList:
		w.scratch = appendIDList(w.scratch[:0], p.previous, ids)
		p.buf = binary.AppendUvarint(p.buf, uint64(len(ids))<<2|postingList)
		p.buf = binary.AppendUvarint(p.buf, uint64(len(w.scratch)))
		p.buf = append(p.buf, w.scratch...)
		p.previous = ids[0]
	default:
		p.buf = binary.AppendUvarint(p.buf, uint64(len(data))<<2|postingRoaring)
		p.buf = append(p.buf, data...)
	}
}

// addElsewhere writes a large set in front of the page that refers to it.
func (w *Writer) addElsewhere(value []byte, ids []uint32, kind uint8, data []byte) {
	bitmap := uint64(1)
	if kind == postingList {
		bitmap = 0
		w.scratch = binary.AppendUvarint(w.scratch[:0], uint64(len(ids)))
		w.scratch = append(w.scratch, data...)
		data = w.scratch
	}
	offset, size := w.section(data)
	p := &w.page
	p.start(value, ids[0])
	p.buf = binary.AppendUvarint(p.buf, (uint64(size)<<1|bitmap)<<2|postingElsewhere)
	p.buf = binary.AppendUvarint(p.buf, uint64(offset))
}

func (w *Writer) cut() {
	if w.page.n == 0 {
		return
	}
	offset, size := w.section(w.page.finish())
	w.tag.pages = binary.AppendUvarint(w.tag.pages, uint64(offset-w.tag.end))
	w.tag.pages = binary.AppendUvarint(w.tag.pages, uint64(size))
	w.tag.pages = binary.AppendUvarint(w.tag.pages, uint64(w.tag.values-w.tag.opened))
	shared := keyblock.SharedPrefix(w.tag.prior, w.tag.bound)
	w.tag.pages = binary.AppendUvarint(w.tag.pages, uint64(shared))
	w.tag.pages = binio.AppendString(w.tag.pages, string(w.tag.bound[shared:]))
	w.tag.prior = append(w.tag.prior[:0], w.tag.bound...)
	w.tag.end = offset + int64(size)
	w.tag.n++
	w.page.reset()
}

// Finish writes the tag section and begins the next tag; all is the measurement's
// set. It returns size 0 when no value was added.
func (w *Writer) Finish(all *roaring.Bitmap) (offset int64, size int) {
	w.cut()
	g := &w.tag
	defer func() {
		*g = openTag{pages: g.pages[:0], bound: g.bound[:0], prior: g.prior[:0]}
		w.page.last = w.page.last[:0]
	}()
	if g.values == 0 {
		return 0, 0
	}
	b := binary.AppendUvarint(nil, uint64(g.values))
	if present := g.present.Set(); present.Equals(all) {
		b = append(b, setAll)
	} else {
		b = w.AppendSet(b, present)
	}
	b = binary.AppendUvarint(b, uint64(g.n))
	return w.section(append(b, g.pages...))
}

// AppendSet appends a set as ReadSet reads it.
func (w *Writer) AppendSet(dst []byte, set *roaring.Bitmap) []byte { return w.set.appendSet(dst, set) }
