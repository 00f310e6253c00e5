package encode

import (
	"errors"
	"io"
	"sync"
	"unicode/utf8"

	"tsdbd/query"
	"tsdbd/query/admission"
)

// holdBytes is the size up to which nothing of an answer is sent: an answer that
// fails before that becomes an error.
const holdBytes = 1 << 20

// spillBytes is the size of the writes after that.
const spillBytes = 64 << 10

// Texts longer than longText, and rows with longer texts than longRow, are encoded
// in pieces, so that the buffer does not grow with the values.
const (
	longText = 32 << 10
	longRow  = 128 << 10
)

// Options configure an Output. The zero value works.
type Options struct {
	// Account is charged for a document that is kept in memory.
	Account *admission.Account
	// Stopped reports whether the query has ended. Then encoding ends too. nil: it
	// has not.
	Stopped func() bool
	// Outside runs functions that may wait for the client or for memory, see
	// admission.Turn.Outside. nil: they just run.
	Outside func(func() error) error
	// Whole is called with the length of the answer before its first byte is written, if
	// all of the answer is there then. nil: nobody needs to know.
	Whole func(bytes int)
}

// maxDocument bounds a document that is kept in memory.
const maxDocument = 256 << 20

// Output buffers an answer and writes it in large pieces. It belongs to one request.
type Output struct {
	w       io.Writer
	opt     Options
	buf     []byte
	pooled  *[]byte // buf as it came from the pool
	sent    int64   // bytes written, before indentation
	indent  *indenter
	scratch []byte // indented form of a piece of buf
	keep    bool   // the format needs the whole document, never spill
	limit   int    // with keep: the largest document
}

// ErrTooLarge ends a document that is kept in memory.
var ErrTooLarge = errors.New("answer is too large to be sent as one document, use chunked=true")

var bufferPool = sync.Pool{New: func() any { b := make([]byte, 0, spillBytes); return &b }}

// NewOutput returns an output to w. The caller must call Free.
func NewOutput(w io.Writer, opt Options) *Output {
	pooled := bufferPool.Get().(*[]byte)
	return &Output{w: w, opt: opt, limit: maxDocument, buf: (*pooled)[:0], pooled: pooled}
}

// Free returns the buffer to the pool. It may be called again.
func (o *Output) Free() {
	if o.pooled != nil && cap(o.buf) <= 2*holdBytes {
		*o.pooled = o.buf[:0]
		bufferPool.Put(o.pooled)
	}
	o.buf, o.pooled = nil, nil
}

// AnySent reports whether a part of the answer has been written.
func (o *Output) AnySent() bool { return o.sent > 0 }

// ended reports whether the query has ended.
func (o *Output) ended() bool { return o.opt.Stopped != nil && o.opt.Stopped() }

// Append lets f append to the answer. It sends what has gathered if that is much.
func (o *Output) Append(f func(dst []byte) []byte) error {
	if o.ended() {
		return query.ErrStopped
	}
	o.buf = f(o.buf)
	return o.spill()
}

// spill writes the buffer if it is large enough.
func (o *Output) spill() error {
	if o.keep || len(o.buf) < spillBytes || (o.sent == 0 && len(o.buf) < holdBytes) {
		return nil
	}
	return o.Flush()
}

// Flush writes the buffer.
func (o *Output) Flush() error {
	if len(o.buf) == 0 {
		return nil
	}
	o.sent += int64(len(o.buf))
	b := o.buf
	o.buf = o.buf[:0]
	if o.indent == nil {
		return o.write(b)
	}
	for len(b) > 0 {
		n := min(len(b), spillBytes)
		o.scratch = o.indent.append(o.scratch[:0], b[:n])
		if err := o.write(o.scratch); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// Finish writes the end of the answer.
func (o *Output) Finish() error {
	if o.sent == 0 && o.indent == nil && o.opt.Whole != nil {
		o.opt.Whole(len(o.buf))
	}
	return o.Flush()
}

// write writes b. The client may be slow.
func (o *Output) write(b []byte) error {
	return o.Wait(func() error {
		_, err := o.w.Write(b)
		return err
	})
}

// eachRow calls f for n rows until the query has ended.
func (o *Output) eachRow(n int, f func(row int) error) error {
	for i := range n {
		if i%rowsPerSpill == 0 && o.ended() {
			return query.ErrStopped
		}
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

// fail replaces the answer by an error, and returns false if a part of it has been sent.
func (o *Output) fail(appendError func(dst []byte, message string) []byte, err error) bool {
	if o.sent > 0 {
		return false
	}
	o.buf = appendError(o.buf[:0], err.Error())
	return true
}

// reserve makes room for n more bytes, so that appending a row seldom grows
// the buffer.
func (o *Output) reserve(n int) {
	if cap(o.buf)-len(o.buf) >= n {
		return
	}
	b := make([]byte, len(o.buf), max(2*cap(o.buf), len(o.buf)+n))
	copy(b, o.buf)
	o.buf = b
}

// Wait runs a function that may wait, without the query's turn on the cores.
func (o *Output) Wait(f func() error) error {
	if o.opt.Outside == nil {
		return f()
	}
	return o.opt.Outside(f)
}

// extend charges the account for n more bytes of a document that is kept in memory,
// and makes room for them.
func (o *Output) extend(n int) error {
	need := len(o.buf) + n
	if need > o.limit {
		return ErrTooLarge
	}
	if need <= cap(o.buf) {
		return nil
	}
	grown := max(need, cap(o.buf)+cap(o.buf)/2, spillBytes)
	if err := o.Wait(func() error { return o.opt.Account.SetAnswer(int64(cap(o.buf) + grown)) }); err != nil {
		return err
	}
	b := make([]byte, len(o.buf), grown)
	copy(b, o.buf)
	o.buf = b
	return o.opt.Account.SetAnswer(int64(grown))
}

// pieces cuts a text between characters into pieces of at most longText bytes.
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
