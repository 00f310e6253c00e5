package boards

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"tsdbd/meta"
)

// catalog is a catalog in memory.
type catalog struct {
	mu     sync.Mutex
	data   *meta.Data
	failed error
}

func (c *catalog) Catalog() *meta.Data {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data
}

func (c *catalog) Apply(_ context.Context, cmd meta.Command) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	next, err := meta.Apply(cmd, c.data)
	if err = errors.Join(c.failed, err); err == nil {
		c.data = next
	}
	return err
}

// TestServe is the life of a board, request by request.
func TestServe(t *testing.T) {
	c := &catalog{data: &meta.Data{}}
	for _, db := range []string{"mine", "other"} {
		if err := c.Apply(t.Context(), meta.CreateDatabase{Name: db}); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewRegistry()
	api := New(Options{Catalog: c.Catalog, Apply: c.Apply, Registry: registry})
	f := func(request, body string, status int, want string) {
		t.Helper()
		method, target, _ := strings.Cut(request, " ")
		path, params, _ := strings.Cut(target, "?")
		r := httptest.NewRequest(method, "/api/boards/"+path+"?"+params, nil)
		w := httptest.NewRecorder()
		if err := api.Serve(w, r, r.URL.Query().Get("db"), path, []byte(body)); err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		if w.Code != status || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s %s:\n%d %s\nwant %d %s", request, body, w.Code, w.Body, status, want)
		}
	}
	f("GET ?db=mine", "", 200, `{"boards":[]}`)

	// A new board.
	f("POST ?db=mine", `{"name":"Host","board":{"version": 1, "panels": [{"text":"<b>"}]}}`, 201, `{"id":"3","name":"Host","edition":1}`)
	f("GET ?db=mine", "", 200, `{"boards":[{"id":"3","name":"Host","edition":1,"bytes":49,"changed":"`)
	f("GET 3?db=mine", "", 200, `{"id":"3","name":"Host","edition":1,"board":{"version":1,"panels":[{"text":"\u003cb\u003e"}]}}`)

	// Two editors begin from edition 1. The first one saves, the second one is told.
	f("PUT 3?db=mine", `{"name":"Hosts","edition":1,"board":{"version":1,"panels":[]}}`, 200, `{"id":"3","name":"Hosts","edition":2}`)
	f("PUT 3?db=mine", `{"name":"Mine","edition":1,"board":{"version":1,"panels":[]}}`, 409, `{"error":"board 3 has edition 2, the change began from edition 1","edition":2}`)
	f("DELETE 3?db=mine&edition=1", "", 409, `"edition":2`)
	f("GET 3?db=mine", "", 200, `"name":"Hosts","edition":2`)

	// A board is seen in its database only.
	f("GET 3?db=other", "", 404, "board not found: 3")
	f("DELETE 3?db=other&edition=2", "", 404, "board not found: 3")

	f("PUT 99?db=mine", `{"name":"x","edition":1,"board":{"version":1,"panels":[]}}`, 404, "board not found: 99")
	f("GET x?db=mine", "", 404, "board not found: x")
	f("GET 0?db=mine", "", 404, "board not found: 0")
	f("PUT 3?db=mine", `{"name":"x","board":{"version":1,"panels":[]}}`, 400, "edition must be the edition that the change began from")
	f("DELETE 3?db=mine", "", 400, "parameter edition must be")
	f("POST ?db=mine", `{"name":"x","edition":1,"board":{"version":1,"panels":[]}}`, 400, "a new board has no edition")
	f("POST ?db=mine", `{"name":"","board":{"version":1,"panels":[]}}`, 400, "its name must have 1 to 255 bytes")
	f("POST ?db=mine", `{"name":"x"}`, 400, "with a board")
	f("POST ?db=mine", ``, 400, "the body is not an object")
	f("POST ?db=mine", `{"name":"x","board":{"version":1,"panels":[]}} x`, 400, "")
	f("POST ?db=mine", `{"name":"x","title":"y","board":{}}`, 400, `unknown field \"title\"`)
	f("POST ?db=mine", `{"name":"x","board":{"version":3,"panels":[]}}`, 400, "document of a board of version 3 was written by a newer tsdbd; use that version or newer")
	f("POST ?db=mine", `{"name":"x","board":{"version":1,"panels":[{"text":"`+strings.Repeat("x", meta.MaxBoardBytes)+`"}]}}`, 413, "board is too large")

	if n, err := testutil.GatherAndCount(registry, "tsdbd_boards", "tsdbd_boards_bytes"); n != 2 || err != nil {
		t.Errorf("%d metrics, %v", n, err)
	}
	f("DELETE 3?db=mine&edition=2", "", 204, "")
	f("GET 3?db=mine", "", 404, "board not found")

	// The server is full, or members of a cluster may not know boards.
	for refusal, status := range map[error]int{meta.ErrTooManyBoards: http.StatusInsufficientStorage, meta.ErrLogFormat: http.StatusNotImplemented} {
		c.failed = refusal
		f("POST ?db=mine", `{"name":"x","board":{"version":1,"panels":[]}}`, status, refusal.Error())
	}

	// Other errors are for the caller to answer.
	c.failed = errors.New("disk")
	r := httptest.NewRequest("POST", "/", nil)
	if err := api.Serve(httptest.NewRecorder(), r, "mine", "", []byte(`{"name":"x","board":{"version":1,"panels":[]}}`)); !errors.Is(err, c.failed) {
		t.Errorf("a failed disk: %v", err)
	}
	if err := api.Serve(httptest.NewRecorder(), r, "gone", "", nil); !errors.Is(err, meta.ErrDatabaseNotFound) {
		t.Errorf("a database that is not there: %v", err)
	}
}

// TestCreateAtOnce: of many that create boards of the same name, each gets an id of its own.
func TestCreateAtOnce(t *testing.T) {
	c := &catalog{data: &meta.Data{}}
	if err := c.Apply(t.Context(), meta.CreateDatabase{Name: "mine"}); err != nil {
		t.Fatal(err)
	}
	api := New(Options{Catalog: c.Catalog, Apply: c.Apply})
	var answers sync.Map
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			w := httptest.NewRecorder()
			if err := api.Serve(w, httptest.NewRequest("POST", "/", nil), "mine", "", []byte(`{"name":"x","board":{"version":1,"panels":[]}}`)); err != nil {
				t.Error(err)
			}
			if _, twice := answers.LoadOrStore(w.Body.String(), true); twice || w.Code != http.StatusCreated {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		})
	}
	all.Wait()
}
