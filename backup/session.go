package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"tsdbd/transfer"
)

// begin opens a session.
func begin(ctx context.Context, c *transfer.Client, f *transfer.Filter) (*Manifest, error) {
	resp, err := c.Do(ctx, http.MethodPost, transfer.PathPrefix+"backup", f.Params(), nil, nil)
	if err != nil {
		return nil, err
	}
	if err := transfer.Answer(resp); err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	m := new(Manifest)
	if err := json.NewDecoder(resp.Body).Decode(m); err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	return m, m.Check()
}

// end closes a session.
func end(ctx context.Context, c *transfer.Client, session string) error {
	resp, err := c.Do(ctx, http.MethodDelete, transfer.PathPrefix+"backup", url.Values{"session": {session}}, nil, nil)
	if err != nil {
		return err
	}
	if err := transfer.Answer(resp); err != nil {
		return err
	}
	return resp.Body.Close()
}

// fetch fetches an object from offset on.
func fetch(ctx context.Context, c *transfer.Client, session, name string, offset int64) (io.ReadCloser, error) {
	h := http.Header{"Accept-Encoding": {"identity"}}
	if offset > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := c.Do(ctx, http.MethodGet, transfer.PathPrefix+"backup", url.Values{"session": {session}, "object": {name}}, h, nil)
	if err != nil {
		return nil, err
	}
	if err := transfer.Answer(resp); err != nil {
		return nil, err
	}
	if offset > 0 && resp.StatusCode != http.StatusPartialContent {
		_ = resp.Body.Close()
		return nil, errors.New("server does not send parts of files")
	}
	return resp.Body, nil
}

// Verify has the server check its files and returns its report, an
// inspect.VerifyReport as JSON.
func Verify(ctx context.Context, c *transfer.Client) (report []byte, err error) {
	resp, err := c.Do(ctx, http.MethodPost, transfer.PathPrefix+"verify", nil, nil, nil)
	if err != nil {
		return nil, err
	}
	if err := transfer.Answer(resp); err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
