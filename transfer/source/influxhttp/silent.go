package influxhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// stallTime is how long a server may be silent before and within an answer.
const stallTime = 10 * time.Minute

var errStalled = fmt.Errorf("the server has sent nothing for %s", stallTime)

// guard is an http.RoundTripper that ends a request with errStalled, if the server is silent
// while it is waited for.
type guard struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	w := &watched{ctx: ctx, cancel: cancel, timer: time.AfterFunc(stallTime, func() { cancel(errStalled) })}
	resp, err := g.RoundTripper.RoundTrip(r.WithContext(ctx))
	w.timer.Stop()
	if err != nil {
		defer cancel(nil)
		return nil, w.cause(err)
	}
	w.ReadCloser, resp.Body = resp.Body, w
	return resp, nil
}

// watched is the body of an answer.
type watched struct {
	io.ReadCloser
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	w.timer.Reset(stallTime)
	n, err := w.ReadCloser.Read(p)
	w.timer.Stop()
	return n, w.cause(err)
}

// Close implements io.Closer.
func (w *watched) Close() error {
	defer w.cancel(nil)
	return w.ReadCloser.Close()
}

// cause returns the error of the request, which is errStalled if the silence ended it.
func (w *watched) cause(err error) error {
	if err != nil && errors.Is(context.Cause(w.ctx), errStalled) {
		return errStalled
	}
	return err
}
