package transport

import (
	"context"
	"net"
	"net/http"
	"time"
)

const (
	httpBuffer  = 64 << 10 // bytes, for each direction of a connection
	idleConns   = 16       // connections kept for each peer
	idleTimeout = 90 * time.Second
)

// Client returns the HTTP client for requests to http://ADDRESS/ of other nodes, where
// ADDRESS is what they advertise. It has no timeouts for answers, because streams are
// long: requests need a context. An error of a refused connection contains a *Refusal.
func (t *Transport) Client() *http.Client { return t.client }

func newClient(t *Transport) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			c, err := t.dial(ctx, address, HTTP)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		DisableCompression:    true,
		MaxIdleConnsPerHost:   idleConns,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: time.Second,
		ReadBufferSize:        httpBuffer,
		WriteBufferSize:       httpBuffer,
	}}
}
