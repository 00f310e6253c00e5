package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"tsdbd/exchange"
	"tsdbd/inspect"
	"tsdbd/internal/binio"
)

// begin opens a session.
func begin(ctx context.Context, c *exchange.Client, f *exchange.Filter, whole bool) (*Manifest, error) {
	m, params := new(Manifest), f.Params()
	if whole {
		params.Set("whole", "true")
	}
	if err := c.Ask(ctx, http.MethodPost, exchange.PathPrefix+"backup", params, nil, nil, m); err != nil {
		return nil, err
	}
	if err := binio.CheckVersion("", "backup of the server", uint64(m.Version), manifestVersion); err != nil {
		return nil, err
	}
	return m, m.check()
}

// keep asks for a session every so often until the context ends, so that it lives
// while its client is busy with files of its own.
func keep(ctx context.Context, c *exchange.Client, session string, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			// The next fetch reports what is wrong.
			_ = c.Ask(ctx, http.MethodGet, exchange.PathPrefix+"backup", url.Values{"session": {session}}, nil, nil, nil)
		}
	}
}

// end closes a session.
func end(ctx context.Context, c *exchange.Client, session string) error {
	return c.Ask(ctx, http.MethodDelete, exchange.PathPrefix+"backup", url.Values{"session": {session}}, nil, nil, nil)
}

// fetch fetches an object from offset on.
func fetch(ctx context.Context, c *exchange.Client, session, name string, offset int64) (io.ReadCloser, error) {
	h := http.Header{"Accept-Encoding": {"identity"}}
	if offset > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := c.Do(ctx, http.MethodGet, exchange.PathPrefix+"backup", url.Values{"session": {session}, "object": {name}}, h, nil)
	if err != nil {
		return nil, err
	}
	if offset > 0 && resp.StatusCode != http.StatusPartialContent {
		_ = resp.Body.Close()
		return nil, errors.New("server does not send parts of files")
	}
	return resp.Body, nil
}

// Verify has the server check its files.
func Verify(ctx context.Context, c *exchange.Client) (*inspect.VerifyReport, error) {
	report := new(inspect.VerifyReport)
	err := c.Ask(ctx, http.MethodPost, exchange.PathPrefix+"verify", nil, nil, nil, report)
	return report, err
}
