package server

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/httpapi"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/query"
	"tsdbd/server/memory"
	"tsdbd/store"
)

// TestDiskHangs has the disk of a single server hang. Writes get 503 in time, /health says
// what is wrong, queries are answered; and all is well when the disk answers again.
func TestDiskHangs(t *testing.T) {
	t.Parallel()
	disk := &vfstest.Hanging{FS: vfstest.New()}
	st, err := store.Open("/data", store.Options{FS: disk, RetentionInterval: -1, CloseFlush: -1})
	if err != nil {
		t.Fatal(err)
	}
	discard := slog.New(slog.DiscardHandler)
	guard := memory.NewGuard(memory.GuardOptions{Limit: math.MaxInt64, Logger: discard, Short: func(bool) {}, Flush: func() {}, Queries: func() int64 { return 0 }})
	var overdue atomic.Int64
	const limit = 100 * time.Millisecond
	e := engine{Store: st}
	h := httpapi.New(httpapi.Options{
		Writer: timely{guarded{e, guard}, limit, &overdue, discard}, Query: query.New(query.Options{Storage: e, Admin: e}), Catalog: st,
		Health: storeHealth{st, limit, &overdue},
	})
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		disk.Release()
		web.Close()
		h.Close()
		guard.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := st.Apply(t.Context(), meta.CreateDatabase{Name: "db"}); err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
		}
		return answer.StatusCode, string(b)
	}
	count := func() string {
		_, body := ask("GET", "/query?db=db&q="+url.QueryEscape("SELECT count(v) FROM m"), "")
		return body
	}
	healthy := func(want bool, text string) {
		t.Helper()
		var status int
		var body string
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if status, body = ask("GET", "/health", ""); (status == http.StatusOK) == want && strings.Contains(body, text) {
				return
			}
		}
		t.Errorf("health is %d %s, want %q", status, body, text)
	}
	if status, body := ask("POST", "/write?db=db", "m v=1 1"); status != http.StatusNoContent {
		t.Fatal(status, body)
	}
	disk.Hang()
	var writes sync.WaitGroup
	for i := range 8 {
		writes.Go(func() {
			if status, body := ask("POST", "/write?db=db", fmt.Sprintf("m v=1 %d", i+2)); status != http.StatusServiceUnavailable || !strings.Contains(body, "has not ended within 100ms") {
				t.Errorf("a write gets %d %s", status, body)
			}
		})
	}
	writes.Wait()
	healthy(false, "8 writes have not ended within 100ms")
	healthy(false, "the disk hangs: a write to the log has lasted")
	if got := count(); !strings.Contains(got, `"values":[["1970-01-01T00:00:00Z",1]]`) {
		t.Errorf("a query gets %s", got)
	}
	disk.Release()
	healthy(true, "ready")
	if status, body := ask("POST", "/write?db=db", "m v=1 100"); status != http.StatusNoContent {
		t.Errorf("a write gets %d %s", status, body)
	}
	if n := overdue.Load(); n != 0 {
		t.Errorf("%d writes are overdue", n)
	}
}
