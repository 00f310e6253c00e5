package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/config"
	"tsdbd/server/memory"
	"tsdbd/store"
)

// nodeConfig returns settings of a node on a free port and a directory of the
// test, changed by lines of a file.
func nodeConfig(t testing.TB, env ...string) *config.Config {
	t.Helper()
	from := config.Source{Dir: filepath.Join(t.TempDir(), "data"), Address: "127.0.0.1:0", Level: "error", Heap: 1 << 30}
	c, _, err := from.Load(env)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func post(t testing.TB, url, body string) (status int, answer string) {
	t.Helper()
	resp, err := http.Post(url, "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// Open opens a node with the limit of the heap that this process has.
func Open(ctx context.Context, c *config.Config, o Options) (*Server, error) {
	heap, source := memory.Limit()
	return open(ctx, c, o, heap, source)
}

// TestOpenAndClose: two nodes of one process serve; one that is closed has left
// its port and its data, with all that was written.
func TestOpenAndClose(t *testing.T) {
	c := nodeConfig(t)
	one, err := Open(context.Background(), c, Options{Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	two, err := Open(context.Background(), nodeConfig(t, "TSDBD_UDP_0_ENABLED=true", "TSDBD_UDP_0_BIND_ADDRESS=127.0.0.1:0", "TSDBD_MONITOR_STORE_ENABLED=true"), Options{Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Server{one, two} {
		if status, body := post(t, s.URL()+"/query?q=CREATE+DATABASE+d", ""); status != 200 {
			t.Errorf("%d %s", status, body)
		}
		if status, body := post(t, s.URL()+"/write?db=d", "m v=7 1"); status != 204 {
			t.Errorf("%d %s", status, body)
		}
	}
	url := one.URL()
	if err := errors.Join(one.Close(), two.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := http.Get(url + "/ping"); err == nil {
		t.Error("a closed node answers")
	}
	if one, err = Open(context.Background(), c, Options{Stderr: io.Discard}); err != nil {
		t.Fatal(err)
	}
	if _, body := post(t, one.URL()+"/query?db=d&q=SELECT+v+FROM+m", ""); !strings.Contains(body, `,7]]`) {
		t.Error(body)
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpenFails fails in a later step each time: what the earlier steps opened is
// closed, so that the store can be opened at once.
func TestOpenFails(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none", "x")
	for want, env := range map[string][]string{
		"ca-certs":    {"TSDBD_SUBSCRIBER_CA_CERTS=" + none},
		"access log":  {"TSDBD_HTTP_ACCESS_LOG=true", "TSDBD_HTTP_ACCESS_LOG_PATH=" + none},
		"udp input":   {"TSDBD_UDP_0_ENABLED=true", "TSDBD_UDP_0_BIND_ADDRESS=127.0.0.1:99999"},
		"certificate": {"TSDBD_HTTP_HTTPS_ENABLED=true", "TSDBD_HTTP_HTTPS_CERTIFICATE=" + none},
		"listen unix": {"TSDBD_HTTP_UNIX_SOCKET_ENABLED=true", "TSDBD_HTTP_BIND_SOCKET=" + none},
	} {
		c := nodeConfig(t, env...)
		if _, err := Open(context.Background(), c, Options{Stderr: io.Discard}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		st, err := store.Open(c.Data.Dir, store.Options{})
		if err != nil {
			t.Errorf("%s: the store is still open: %v", want, err)
			continue
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}
