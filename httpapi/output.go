package httpapi

import (
	"errors"
	"io"
	"sync"
	"unicode/utf8"

	"tsdbd/query"
)

// holdBytes is how much of an answer is kept back before the first byte goes
// out: an answer that fails before that becomes an error as a whole.
const holdBytes = 1 << 20

// spillBytes is how much is gathered between writes after that.
const spillBytes = 64 << 10

// longText is the length from which on a text is encoded in pieces, and longRow
// the length of its texts from which on a row is: the buffer does not grow with
// the values.
const (
	longText = 32 << 10
	longRow  = 128 << 10
)

// output gathers an answer and passes it on in large pieces. It belongs to
// one request.
type output struct {
	w       io.Writer
	buf     []byte
	sent    int64 // bytes passed on, before indentation
	indent  *indenter
	scratch []byte // indented form of a piece of buf
	keep    bool   // the format needs the whole document: never spill
	limit   int    // with keep: the largest document

	account *query.Account           // with keep: charged for buf
	stopped func() bool              // whether the query has ended; nil: it has not
	outside func(func() error) error // runs what may wait, see query.Turn.Outside; nil: just runs it
}

var errDocumentTooLarge = errors.New("answer is too large to be sent as one document, use chunked=true")

var bufferPool = sync.Pool{New: func() any { b := make([]byte, 0, spillBytes); return &b }}

// ended reports whether the query has ended, so that encoding should.
func (o *output) ended() bool { return o.stopped != nil && o.stopped() }

// spill passes the buffer on if it has grown past the threshold.
func (o *output) spill() error {
	if o.keep || len(o.buf) < spillBytes || (o.sent == 0 && len(o.buf) < holdBytes) {
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
	o.buf = o.buf[:0]
	if o.indent == nil {
		_, err := o.w.Write(b)
		return err
	}
	for len(b) > 0 {
		n := min(len(b), spillBytes)
		o.scratch = o.indent.append(o.scratch[:0], b[:n])
		if _, err := o.w.Write(o.scratch); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
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

// wait runs what may wait without the query's share of the cores.
func (o *output) wait(f func() error) error {
	if o.outside == nil {
		return f()
	}
	return o.outside(f)
}

// extend makes room for n more bytes of a document that is kept whole, once the
// account has been charged for them.
func (o *output) extend(n int) error {
	need := len(o.buf) + n
	if need > o.limit {
		return errDocumentTooLarge
	}
	if need <= cap(o.buf) {
		return nil
	}
	grown := max(need, cap(o.buf)+cap(o.buf)/2, spillBytes)
	if err := o.wait(func() error { return o.account.SetAnswer(int64(cap(o.buf) + grown)) }); err != nil {
		return err
	}
	b := make([]byte, len(o.buf), grown)
	copy(b, o.buf)
	o.buf = b
	return o.account.SetAnswer(int64(grown))
}

// pieces cuts a text into pieces of at most longText bytes that do not cut
// characters.
func pieces(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for len(s) > longText {
			n := longText
			for n > longText-utf8.UTFMax && !utf8.RuneStart(s[n]) {
				n--
			}
			if !yield(s[:n]) {
				return
			}
			s = s[n:]
		}
		yield(s)
	}
}
