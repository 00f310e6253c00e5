package heal

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Rate bounds how many bytes a second are fetched: what is healed must not be felt.
const Rate = 64 << 20

// Slow returns a transport that reads answers no faster than Rate.
func Slow(t http.RoundTripper) http.RoundTripper { return slow{t} }

type slow struct{ http.RoundTripper }

// RoundTrip sends a request.
func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &slowBody{ReadCloser: resp.Body, ctx: r.Context(), begin: time.Now()}
	}
	return resp, err
}

type slowBody struct {
	io.ReadCloser
	ctx   context.Context
	begin time.Time
	n     int64
}

// Read reads and then waits as long as the bytes so far were too fast.
func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n += int64(n)
	due := time.Duration(float64(b.n) / Rate * float64(time.Second))
	if wait := due - time.Since(b.begin); wait > 10*time.Millisecond {
		select {
		case <-time.After(wait):
		case <-b.ctx.Done():
		}
	}
	return n, err
}
