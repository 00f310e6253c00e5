// Package relay passes a request of a client on to another node and copies the answer.
//
// Send does it. It knows nothing of who leads: the caller chooses the address, may decline
// the answer by its header, and may send the request again as long as nobody has read the
// Body.
package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
)

// Header has the name of the node that passes a request of a client on.
const Header = "X-Tsdbd-Forwarded"

// hopByHop are headers of one connection.
var hopByHop = []string{"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect"}

// Body is the body of a request. It notes whether it was read.
type Body struct {
	io.ReadCloser
	read atomic.Bool
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	b.read.Store(true)
	return b.ReadCloser.Read(p)
}

// Used reports whether somebody has read the body.
func (b *Body) Used() bool { return b.read.Load() }

// Close does nothing: the server closes the body, and the request may be sent again.
func (b *Body) Close() error { return nil }

// Send sends a request with a body to the node at an address, in the name of a node, and
// copies the answer to w. taken is called with the head of the answer; its error is
// returned, and nothing is copied. sent says that the node may have seen the request.
func Send(t http.RoundTripper, w http.ResponseWriter, r *http.Request, address, name string, body *Body, taken func(*http.Response) error) (sent bool, err error) {
	var connected atomic.Bool
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	out := (&http.Request{
		Method: r.Method, URL: &url.URL{Scheme: "http", Host: address, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery},
		Header: endToEnd(r.Header), Host: r.Host, ContentLength: r.ContentLength,
	}).WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		out.Body = body
	}
	out.Header.Set(Header, name)
	answer, err := t.RoundTrip(out)
	if err != nil {
		return connected.Load(), cmp.Or(context.Cause(ctx), err)
	}
	defer answer.Body.Close()
	if err := taken(answer); err != nil {
		return true, err
	}
	header := w.Header()
	for name, values := range endToEnd(answer.Header) {
		header[name] = values
	}
	for name := range answer.Trailer {
		header.Add("Trailer", name)
	}
	w.WriteHeader(answer.StatusCode)
	if err := copyAnswer(w, answer.Body, answer.ContentLength < 0); err != nil {
		return true, fmt.Errorf("answer of the node: %w", err)
	}
	for name, values := range answer.Trailer {
		header[name] = values
	}
	return true, nil
}

// endToEnd returns a copy of headers without those of one connection.
func endToEnd(h http.Header) http.Header {
	out := h.Clone()
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			out.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		out.Del(name)
	}
	return out
}

// copyAnswer copies a body. A stream goes on as it comes.
func copyAnswer(w http.ResponseWriter, body io.Reader, stream bool) error {
	if !stream {
		_, err := io.Copy(w, body)
		return err
	}
	flusher := http.NewResponseController(w)
	buf := make([]byte, 64<<10)
	for {
		k, err := body.Read(buf)
		if k > 0 {
			if _, err := w.Write(buf[:k]); err != nil {
				return err
			}
			_ = flusher.Flush() // not all can
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
