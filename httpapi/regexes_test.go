package httpapi_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tsdbd/httpapi"
	"tsdbd/query/admission"
	"tsdbd/query/result"
)

// TestRegexesAreCharged has queries with large regular expressions at a time.
// The parser compiles them, so they count before it reads the text, and until
// the answer is complete.
func TestRegexesAreCharged(t *testing.T) {
	store := newFakeStore()
	store.create("db")
	memory := admission.NewMemory(8 << 20)
	running, goOn := make(chan struct{}), make(chan struct{})
	first := true
	store.execute = func(context.Context, func(*result.Result) error) error {
		if first {
			first = false
			close(running)
			<-goOn
		}
		return nil
	}
	h := httpapi.New(httpapi.Options{Writer: store, Query: store, Memory: memory})
	defer h.Close()
	ask := func() (int, string) {
		q := "SELECT v FROM m WHERE h =~ /" + strings.Repeat("a{1000}", 40) + "/"
		w := serve(h, http.MethodGet, "/query?db=db&q="+url.QueryEscape(q), nil)
		return w.Code, w.Body.String()
	}
	done := make(chan int)
	go func() { code, _ := ask(); done <- code }()
	<-running
	if used := memory.Used(); used < 40*1000*40 {
		t.Errorf("a query with 40,000 instructions holds %d bytes", used)
	}
	if code, body := ask(); code != http.StatusServiceUnavailable || !strings.Contains(body, "query memory limit exceeded") {
		t.Errorf("a second one: %d %s", code, body)
	}
	close(goOn)
	if code := <-done; code != http.StatusOK {
		t.Errorf("the first one: %d", code)
	}
	if used := memory.Used(); used != 0 {
		t.Errorf("%d bytes are held at the end", used)
	}
	if code, body := ask(); code != http.StatusOK {
		t.Errorf("afterwards: %d %s", code, body)
	}
}
