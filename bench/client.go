package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// client speaks to a server over its HTTP API.
type client struct {
	http    *http.Client
	url, db string
	retries atomic.Int64 // of writes that the server had no room for
}

// newClient returns a client that keeps some connections open. It asks for
// plain answers: unpacking them is not what is measured.
func newClient(url, db string, connections int) *client {
	return &client{
		http: &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true}},
		url:  strings.TrimSuffix(url, "/"), db: db,
	}
}

func (c *client) close() { c.http.CloseIdleConnections() }

func (c *client) do(ctx context.Context, method, path string, params url.Values, body []byte) ([]byte, error) {
	target := c.url + path
	if len(params) > 0 {
		target += "?" + params.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, &statusError{path, resp.StatusCode, string(bytes.TrimSpace(b))}
	}
	return b, nil
}

// statusError is an answer that is not a success.
type statusError struct {
	path   string
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: %d: %.300s", e.path, e.status, e.text) }

// full tells whether the server had no room for a write at the moment.
func (e *statusError) full() bool {
	return e.status == http.StatusServiceUnavailable || e.status == http.StatusInternalServerError && strings.Contains(e.text, "cache-max-memory-size")
}

// command sends a statement that changes something.
func (c *client) command(ctx context.Context, text string) error {
	b, err := c.do(ctx, http.MethodPost, "/query", url.Values{"q": {text}}, nil)
	if err != nil {
		return err
	}
	if _, err := parseAnswer(b); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// load sends the bodies in order, some at a time. One that the server has no
// room for is sent again, for a minute.
func (c *client) load(ctx context.Context, bodies [][]byte, connections int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	params := url.Values{"db": {c.db}}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(bodies) {
					return
				}
				if err := c.write(ctx, params, bodies[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (c *client) write(ctx context.Context, params url.Values, body []byte) error {
	for begin := time.Now(); ; {
		_, err := c.do(ctx, http.MethodPost, "/write", params, body)
		if e, ok := err.(*statusError); !ok || !e.full() || time.Since(begin) > time.Minute {
			return err
		}
		c.retries.Add(1)
		time.Sleep(20 * time.Millisecond)
	}
}
