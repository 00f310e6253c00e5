// Package body reads the bodies of HTTP requests into memory that is bounded for
// each and for all of them.
//
// A Budget is what all bodies may hold. Budget.Read reads one, whose Release gives
// the memory back; Unsnappy replaces a body by what it decompresses to. A Budget
// is safe for concurrent use, a Body belongs to one request.
package body

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/gzip"
)

// The errors that say what is wrong with a body, or that others hold the memory.
// Any other error of Read is the connection's or of the compression.
var (
	ErrTooLarge = errors.New("body is too large")
	ErrBusy     = errors.New("too many requests with large bodies")
	ErrSnappy   = errors.New("snappy: corrupt input")
)

// timeout bounds the time a body may take to arrive.
const timeout = 2 * time.Minute

// maxPooled is the largest buffer that goes back to the pool.
const maxPooled = 8 << 20

// A client may send the whole body before it reads the answer. drain reads what
// it sends, up to these bounds, for the answer to a body that is too large:
// otherwise the connection is reset and the client never sees why.
const (
	maxDrain  = 128 << 20
	drainTime = 20 * time.Second
)

var (
	pool        = sync.Pool{New: func() any { return new(Body) }}
	gzipReaders sync.Pool
)

// Budget bounds the memory of all bodies together (W9): many clients with large
// bodies at a time are asked to come back. Its zero value has no room.
type Budget struct {
	limit atomic.Int64
	used  atomic.Int64
}

// SetLimit sets what all bodies may hold, in bytes.
func (b *Budget) SetLimit(n int64) { b.limit.Store(n) }

// Used returns what all bodies hold, in bytes.
func (b *Budget) Used() int64 { return b.used.Load() }

// Share returns n, or less if that is much of what all bodies may hold.
func (b *Budget) Share(n int) int { return int(min(int64(n), b.limit.Load()/8)) }

// Body is a body in memory.
type Body struct {
	bytes.Buffer
	budget *Budget
	taken  int64
}

func (b *Budget) open() *Body {
	body := pool.Get().(*Body)
	body.Reset()
	body.budget = b
	return body
}

// Empty returns an empty body with room for n bytes, which are charged. The caller must
// call Release.
func (b *Budget) Empty(n int) (*Body, error) {
	body := b.open()
	if err := body.Charge(n); err != nil {
		body.Release()
		return nil, err
	}
	body.Grow(n)
	return body, nil
}

// Charge takes n bytes of the budget until Release, for what the caller makes of the
// body. It returns ErrTooLarge if the body would hold more than all of the budget, and
// ErrBusy if other bodies hold it.
func (b *Body) Charge(n int) error {
	b.taken += int64(n)
	used, limit := b.budget.used.Add(int64(n)), b.budget.limit.Load()
	switch {
	case b.taken > limit:
		return ErrTooLarge
	case used > limit:
		return ErrBusy
	}
	return nil
}

// Release gives the memory back. The caller must not use the bytes afterwards.
func (b *Body) Release() {
	b.budget.used.Add(-b.taken)
	b.budget, b.taken = nil, 0
	if b.Cap() <= maxPooled {
		pool.Put(b)
	}
}

// Read reads the body of r into pooled memory, decompressed if its header says
// gzip. The caller must call Release. limit bounds both the bytes received and the
// bytes they decompress to; 0 is no bound. w is the writer of the connection.
func (b *Budget) Read(w http.ResponseWriter, r *http.Request, limit int64) (*Body, error) {
	// A body that trickles in for ever must not hold memory and a place among
	// the writes for ever.
	c := http.NewResponseController(w)
	if c.SetReadDeadline(time.Now().Add(timeout)) == nil {
		defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	}
	if limit > 0 && r.ContentLength > limit {
		drain(c, r)
		return nil, ErrTooLarge
	}
	var src io.Reader = r.Body
	if limit > 0 {
		src = http.MaxBytesReader(w, r.Body, limit) // tells the connection to close
	}
	body := b.open()
	var err error
	if isGzip(r.Header) {
		err = body.gunzip(src, limit)
	} else {
		if n := r.ContentLength; n > 0 {
			body.Grow(int(min(n, maxPooled)) + bytes.MinRead)
		}
		_, err = body.ReadFrom(reader{src, body})
	}
	if err == nil {
		return body, nil
	}
	body.Release()
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		err = ErrTooLarge
	}
	if errors.Is(err, ErrTooLarge) {
		drain(c, r)
	}
	return nil, err
}

func drain(c *http.ResponseController, r *http.Request) {
	if r.Header.Get("Expect") != "" || r.ContentLength > maxDrain {
		return // it waits for leave, or would not be done
	}
	if c.SetReadDeadline(time.Now().Add(drainTime)) == nil {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrain)
	}
}

// reader charges what it reads to a body.
type reader struct {
	io.Reader
	body *Body
}

func (r reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if short := r.body.Charge(n); short != nil {
		return n, short
	}
	return n, err
}

// isGzip reports whether a body is compressed. x-gzip is the old name of gzip.
func isGzip(h http.Header) bool { return encoding(h) == "gzip" || encoding(h) == "x-gzip" }

// Reads reports whether Read decodes the Content-Encoding of a body, or there is none.
func Reads(h http.Header) bool {
	return isGzip(h) || encoding(h) == "" || encoding(h) == "identity"
}

func encoding(h http.Header) string {
	return strings.ToLower(strings.TrimSpace(h.Get("Content-Encoding")))
}

// gunzip decompresses src. An empty source is an empty body: some clients mark
// even that as compressed.
func (b *Body) gunzip(src io.Reader, limit int64) error {
	first := make([]byte, 1)
	if _, err := io.ReadFull(src, first); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	src = io.MultiReader(bytes.NewReader(first), src)
	z, _ := gzipReaders.Get().(*gzip.Reader)
	var err error
	if z == nil {
		z, err = gzip.NewReader(src)
	} else {
		err = z.Reset(src)
	}
	if err != nil {
		return err
	}
	defer func() {
		_ = z.Close() // nothing to close below
		gzipReaders.Put(z)
	}()
	var bounded io.Reader = z
	if limit > 0 {
		bounded = io.LimitReader(z, limit+1)
	}
	if _, err := b.ReadFrom(reader{bounded, b}); err != nil {
		return err
	}
	if limit > 0 && int64(b.Len()) > limit {
		return ErrTooLarge
	}
	return nil
}

// Unsnappy releases b and returns what it decompresses to, in snappy's block
// format and within limit. The caller must call Release.
func (b *Body) Unsnappy(limit int64) (*Body, error) {
	defer b.Release()
	n, err := snappy.DecodedLen(b.Bytes())
	switch {
	case errors.Is(err, snappy.ErrTooLarge), // for an int, which the limit may be larger than
		limit > 0 && int64(n) > limit:
		return nil, ErrTooLarge
	case err != nil,
		n/64 > b.Len(): // a lie that would cost memory: an element of three bytes makes 64 at most
		return nil, ErrSnappy
	}
	out, err := b.budget.Empty(n)
	if err != nil {
		return nil, err
	}
	plain, err := snappy.Decode(out.AvailableBuffer()[:n], b.Bytes())
	if err != nil {
		out.Release()
		return nil, ErrSnappy
	}
	_, _ = out.Write(plain) // in place
	return out, nil
}
