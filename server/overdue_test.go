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
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/query"
	"tsdbd/server/memory"
	"tsdbd/store"
)

// slowServer is the API of a single server whose clients wait for limit.
type slowServer struct {
	*testing.T
	url     string
	store   *store.Store
	overdue *atomic.Int64
}

// openSlow opens a server on fs. release is called before it closes.
func openSlow(t *testing.T, fs vfs.FS, limit time.Duration, release func()) slowServer {
	t.Helper()
	st, err := store.Open("/data", store.Options{FS: fs, RetentionInterval: -1, CloseFlush: -1})
	if err != nil {
		t.Fatal(err)
	}
	discard := slog.New(slog.DiscardHandler)
	guard := memory.NewGuard(memory.GuardOptions{Limit: math.MaxInt64, Logger: discard, Short: func(bool) {}, Flush: func() {}, Queries: func() int64 { return 0 }})
	var overdue atomic.Int64
	e := engine{Store: st}
	w := writer{engine: e, guard: guard, limit: limit, overdue: &overdue, log: discard}
	h := httpapi.New(httpapi.Options{
		Writer: w, Query: query.New(query.Options{Storage: e, Admin: w.admin()}), Catalog: st,
		Health: storeHealth{st, limit, &overdue, nil},
	})
	web := httptest.NewServer(h)
	t.Cleanup(func() {
		release()
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
	return slowServer{t, web.URL, st, &overdue}
}

func (s slowServer) ask(method, path, body string) (int, string) {
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Error(err)
		return 0, ""
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.Error(err)
		return 0, ""
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		s.Error(err)
	}
	return answer.StatusCode, string(b)
}

// run returns the answer to a statement.
func (s slowServer) run(statement string) string {
	_, body := s.ask("POST", "/query?db=db&q="+url.QueryEscape(statement), "")
	return body
}

func (s slowServer) write(lines string) {
	s.Helper()
	if status, body := s.ask("POST", "/write?db=db", lines); status != http.StatusNoContent {
		s.Error(status, body)
	}
}

// healthy waits until /health is as wanted.
func (s slowServer) healthy(want bool, text string) {
	s.Helper()
	var status int
	var body string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if status, body = s.ask("GET", "/health", ""); (status == http.StatusOK) == want && strings.Contains(body, text) {
			return
		}
	}
	s.Errorf("health is %d %s, want %q", status, body, text)
}

// TestDiskHangs has the disk of a single server hang. Writes and statements fail in time, /health says
// what is wrong, queries are answered; and all is well when the disk answers again.
func TestDiskHangs(t *testing.T) {
	t.Parallel()
	disk := &vfstest.Hanging{FS: vfstest.New()}
	s := openSlow(t, disk, 100*time.Millisecond, disk.Release)
	s.write("m v=1 1")
	disk.Hang()
	var writes sync.WaitGroup
	for i := range 8 {
		writes.Go(func() {
			if status, body := s.ask("POST", "/write?db=db", fmt.Sprintf("m v=1 %d", i+2)); status != http.StatusServiceUnavailable || !strings.Contains(body, "has not ended within 100ms") {
				t.Errorf("a write gets %d %s", status, body)
			}
		})
	}
	for _, q := range []string{"CREATE DATABASE late", "DELETE FROM m WHERE time = 7"} {
		writes.Go(func() {
			if body := s.run(q); !strings.Contains(body, "has not ended within 100ms") {
				t.Errorf("%s gets %s", q, body)
			}
		})
	}
	writes.Wait()
	s.healthy(false, "8 writes have not ended within 100ms")
	s.healthy(false, "the disk hangs: a write to the log has lasted")
	if got := s.run("SELECT count(v) FROM m"); !strings.Contains(got, `"values":[["1970-01-01T00:00:00Z",1]]`) {
		t.Errorf("a query gets %s", got)
	}
	disk.Release()
	s.healthy(true, "ready")
	s.write("m v=1 100")
	if n := s.overdue.Load(); n != 0 {
		t.Errorf("%d writes are overdue", n)
	}
}

// slowFS calls removal before each removal of a directory.
type slowFS struct {
	vfs.FS
	removal func()
}

func (f slowFS) RemoveAll(name string) error {
	f.removal()
	return f.FS.RemoveAll(name)
}

// TestSlowDrop drops databases while the disk takes its time to remove the files of the
// first: each is gone when its statement is answered, and the server is healthy.
func TestSlowDrop(t *testing.T) {
	t.Parallel()
	removed := make(chan struct{})
	s := openSlow(t, slowFS{vfstest.New(), func() { <-removed }}, 30*time.Second, func() { close(removed) })
	for _, statement := range []string{"DROP DATABASE db", "CREATE DATABASE db", "DROP SHARD 3", "DROP DATABASE db"} {
		if strings.HasPrefix(statement, "DROP") {
			s.write("m v=1 1\nm v=1 9999999999999999")
		}
		if body := s.run(statement); strings.Contains(body, "error") {
			t.Errorf("%s gets %s", statement, body)
		}
		if got := s.run("SHOW DATABASES"); strings.HasPrefix(statement, "DROP DATABASE") && strings.Contains(got, `"db"`) {
			t.Errorf("behind %s: %s", statement, got)
		}
	}
	s.healthy(true, "ready")
	if n := s.overdue.Load(); n != 0 {
		t.Errorf("%d writes are overdue", n)
	}
}
