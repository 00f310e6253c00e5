package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// DefaultMaxBodySize is InfluxDB's limit of a request body in bytes.
const DefaultMaxBodySize = 25_000_000

// bodyTimeout bounds the time a body may take to arrive.
const bodyTimeout = 2 * time.Minute

// maxPooledBody is the largest buffer that goes back to the pool.
const maxPooledBody = 8 << 20

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

var gzipReaders sync.Pool

// readBody reads the body of r into a pooled buffer, which the caller gives
// back by releaseBody. Both the bytes received and the bytes they decompress
// to are held to limit; 0 means no limit.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) (*bytes.Buffer, error) {
	if limit > 0 && r.ContentLength > limit {
		return nil, errEntityTooLarge
	}
	// A body that trickles in for ever must not hold memory and a place among
	// the writes for ever.
	c := http.NewResponseController(w)
	if c.SetReadDeadline(time.Now().Add(bodyTimeout)) == nil {
		defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	}
	var src io.Reader = r.Body
	if limit > 0 {
		src = http.MaxBytesReader(unwrap(w), r.Body, limit)
	}
	buf := bodies.Get().(*bytes.Buffer)
	buf.Reset()
	if isGzip(r.Header) {
		if err := gunzip(buf, src, limit); err != nil {
			releaseBody(buf)
			return nil, err
		}
		return buf, nil
	}
	if n := r.ContentLength; n > 0 {
		buf.Grow(int(min(n, maxPooledBody)) + bytes.MinRead)
	}
	if _, err := buf.ReadFrom(src); err != nil {
		releaseBody(buf)
		return nil, bodyError(err)
	}
	return buf, nil
}

// unwrap returns the connection's writer, which MaxBytesReader tells to close.
func unwrap(w http.ResponseWriter) http.ResponseWriter {
	if u, ok := w.(interface{ Unwrap() http.ResponseWriter }); ok {
		return u.Unwrap()
	}
	return w
}

func releaseBody(buf *bytes.Buffer) {
	if buf.Cap() <= maxPooledBody {
		bodies.Put(buf)
	}
}

func isGzip(h http.Header) bool {
	return strings.EqualFold(strings.TrimSpace(h.Get("Content-Encoding")), "gzip")
}

// gunzip decompresses src into dst. An empty source is an empty body: some
// clients mark even that as compressed.
func gunzip(dst *bytes.Buffer, src io.Reader, limit int64) error {
	first := make([]byte, 1)
	if _, err := io.ReadFull(src, first); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return bodyError(err)
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
		return bodyError(err)
	}
	defer func() {
		_ = z.Close() // nothing to close below
		gzipReaders.Put(z)
	}()
	var bounded io.Reader = z
	if limit > 0 {
		bounded = io.LimitReader(z, limit+1)
	}
	if _, err := dst.ReadFrom(bounded); err != nil {
		return bodyError(err)
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
	switch {
	case errors.As(err, &tooLarge):
		return errEntityTooLarge
	case errors.As(err, &network):
		return errRequestInterrupted
	}
	return badRequest(err.Error())
}
