package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"tsdbd/httpapi"
	"tsdbd/query/result"
)

// TestHintHeader: why rows are missing although a downsample has them stands in a header.
func TestHintHeader(t *testing.T) {
	s := newFakeStore()
	s.execute = func(_ context.Context, emit func(*result.Result) error) error {
		s.options.Unused("rows of raw are lost\nand more")
		return emit(&result.Result{})
	}
	_, url := start(t, s, httpapi.Options{})
	res, err := http.Get(url + "/query?q=SELECT+f+FROM+m&db=d")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if got := res.Header.Get("X-Tsdbd-Hint"); err != nil || got != "rows of raw are lost and more" || strings.Contains(string(body), "lost") {
		t.Errorf("%q, %s, %v", got, body, err)
	}
}
