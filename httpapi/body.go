package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
)

// DefaultMaxBodySize is InfluxDB's limit of a request body in bytes.
const DefaultMaxBodySize = 25_000_000

// bodyTimeout bounds the time a body may take to arrive.
const bodyTimeout = 2 * time.Minute

// maxPooledBody is the largest buffer that goes back to the pool.
const maxPooledBody = 8 << 20

// DefaultMaxBodyMemory bounds the bodies held at a time, in bytes.
const DefaultMaxBodyMemory = 512 << 20

// body is a request's body in memory. Whoever reads one calls release.
type body struct {
	bytes.Buffer
	budget *budget
	taken  int64
}

var bodies = sync.Pool{New: func() any { return new(body) }}

// budget bounds the memory of all bodies together (W9): many clients with
// large bodies at a time are asked to come back.
type budget struct {
	limit atomic.Int64
	used  atomic.Int64
}

// A client may send the whole body before it reads the answer. drain reads what
// it sends, up to these bounds, for the answer to a body that is too large:
// otherwise the connection is reset and the client never sees why.
const (
	maxDrain  = 128 << 20
	drainTime = 20 * time.Second
)

func drain(c *http.ResponseController, r *request) {
	if r.Header.Get("Expect") != "" || r.ContentLength > maxDrain {
		return // it waits for leave, or would not be done
	}
	if c.SetReadDeadline(time.Now().Add(drainTime)) == nil {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrain)
	}
}

// budgetReader charges what it reads to a body's budget.
type budgetReader struct {
	io.Reader
	body *body
}

func (r budgetReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if short := r.body.charge(n); short != nil {
		return n, short
	}
	return n, err
}

// charge takes n bytes of the budget. A body that is larger than all of it is
// refused for good, another is to come again.
func (b *body) charge(n int) error {
	b.taken += int64(n)
	used, limit := b.budget.used.Add(int64(n)), b.budget.limit.Load()
	switch {
	case b.taken > limit:
		return errEntityTooLarge
	case used > limit:
		return errTooManyBodies
	}
	return nil
}

// release gives the memory back; the bytes are gone for the caller.
func (b *body) release() {
	b.budget.used.Add(-b.taken)
	b.budget, b.taken = nil, 0
	if b.Cap() <= maxPooledBody {
		bodies.Put(b)
	}
}

var gzipReaders sync.Pool

// readBody reads the body of r into pooled memory. Both the bytes received and
// the bytes they decompress to are held to Limits.MaxBodySize.
func (h *Handler) readBody(w *response, r *request) (*body, error) {
	limit := h.limits.Load().MaxBodySize // 0 is no limit
	// A body that trickles in for ever must not hold memory and a place among
	// the writes for ever.
	c := http.NewResponseController(w)
	if c.SetReadDeadline(time.Now().Add(bodyTimeout)) == nil {
		defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	}
	if limit > 0 && r.ContentLength > limit {
		drain(c, r)
		return nil, errEntityTooLarge
	}
	var src io.Reader = r.Body
	if limit > 0 {
		src = http.MaxBytesReader(w.ResponseWriter, r.Body, limit) // tells the connection to close
	}
	buf := bodies.Get().(*body)
	buf.Reset()
	buf.budget = &h.bodies
	var err error
	if isGzip(r.Header) {
		err = gunzip(buf, src, limit)
	} else {
		if n := r.ContentLength; n > 0 {
			buf.Grow(int(min(n, maxPooledBody)) + bytes.MinRead)
		}
		_, err = buf.ReadFrom(budgetReader{src, buf})
	}
	if err != nil {
		buf.release()
		if err = bodyError(err); err == errEntityTooLarge {
			drain(c, r)
		}
		return nil, err
	}
	return buf, nil
}

// isGzip tells whether a body is compressed. x-gzip is its old name.
func isGzip(h http.Header) bool {
	encoding := strings.TrimSpace(h.Get("Content-Encoding"))
	return strings.EqualFold(encoding, "gzip") || strings.EqualFold(encoding, "x-gzip")
}

// gunzip decompresses src into dst. An empty source is an empty body: some
// clients mark even that as compressed.
func gunzip(dst *body, src io.Reader, limit int64) error {
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
	if _, err := dst.ReadFrom(budgetReader{bounded, dst}); err != nil {
		return err
	}
	if limit > 0 && int64(dst.Len()) > limit {
		return errEntityTooLarge
	}
	return nil
}

// bodyError classes a failed read: too large, a connection that broke or timed
// out (the client should send again), or a body that is not what it says.
func bodyError(err error) error {
	var tooLarge *http.MaxBytesError
	var network net.Error
	var api *apiError
	switch {
	case errors.As(err, &api):
		return err
	case errors.As(err, &tooLarge):
		return errEntityTooLarge
	case errors.As(err, &network):
		return errRequestInterrupted
	}
	return badRequest(err.Error())
}
