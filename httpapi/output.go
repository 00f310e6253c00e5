package httpapi

import (
	"errors"
	"io"
	"sync"
)

// holdBytes is how much of an answer is kept back before the first byte goes
// out: an answer that fails before that becomes an error as a whole.
const holdBytes = 1 << 20

// spillBytes is how much is gathered between writes after that.
const spillBytes = 64 << 10

// output gathers an answer and passes it on in large pieces. It belongs to
// one request.
type output struct {
	w       io.Writer
	buf     []byte
	sent    int64 // bytes passed on, before indentation
	indent  *indenter
	scratch []byte // indented form of buf
	keep    bool   // the format needs the whole document: never spill
	limit   int    // with keep: the largest document
}

var errDocumentTooLarge = errors.New("answer is too large to be sent as one document, use chunked=true")

var bufferPool = sync.Pool{New: func() any { b := make([]byte, 0, spillBytes); return &b }}

// spill passes the buffer on if it has grown past the threshold.
func (o *output) spill() error {
	if o.keep {
		if len(o.buf) > o.limit {
			return errDocumentTooLarge
		}
		return nil
	}
	if len(o.buf) < spillBytes || (o.sent == 0 && len(o.buf) < holdBytes) {
		return nil
	}
	return o.flush()
}

// flush passes on what is buffered.
func (o *output) flush() error {
	if len(o.buf) == 0 {
		return nil
	}
	o.sent += int64(len(o.buf))
	b := o.buf
	if o.indent != nil {
		o.scratch = o.indent.append(o.scratch[:0], b)
		b = o.scratch
	}
	o.buf = o.buf[:0]
	_, err := o.w.Write(b)
	return err
}

// reserve makes room for n more bytes, so that appending a row seldom grows
// the buffer.
func (o *output) reserve(n int) {
	if cap(o.buf)-len(o.buf) >= n {
		return
	}
	b := make([]byte, len(o.buf), max(2*cap(o.buf), len(o.buf)+n))
	copy(b, o.buf)
	o.buf = b
}
