package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tsdbd/httpapi"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query"
	"tsdbd/query/result"
)

// TestWarningsBesideCSV: what CSV has no place for goes by the header, or by the
// trailer when the header has gone.
func TestWarningsBesideCSV(t *testing.T) {
	const long = 200_000 // rows, more than are held back
	numbers := make([]int64, long)
	var results []*result.Result
	s := newFakeStore()
	s.execute = func(_ context.Context, emit func(*result.Result) error) error {
		for _, r := range results {
			if err := emit(r); err != nil {
				return err
			}
		}
		return nil
	}
	_, base := start(t, s, httpapi.Options{})
	get := func(accept, more string) (header, trailer http.Header, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", base+"/query?q=SELECT+v+FROM+m"+more, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp.Status, err)
		}
		return resp.Header, resp.Trailer, string(b)
	}
	warning := func(text string) []result.Message { return []result.Message{{Level: "warning", Text: text}} }
	rows := &result.Series{Name: "m", Columns: []string{"time", "v"}, Rows: long, Values: []column.Vector{
		{Type: model.Integer, Ints: numbers}, {Type: model.Integer, Ints: numbers},
	}}
	f := func(h http.Header, name string, want ...string) {
		t.Helper()
		if got := h.Values(name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}

	results = []*result.Result{
		{StatementID: 0, Messages: warning("points are\nmissing")},
		{StatementID: 1, Err: errors.New("no such thing")},
		{StatementID: 2, Err: query.ErrNotExecuted},
		{StatementID: 3, Messages: []result.Message{{Level: result.LevelInfo, Text: "no rows"}}},
	}
	h, _, body := get("application/csv", "")
	f(h, "X-Influxdb-Warning", "points are missing")
	f(h, "X-Influxdb-Error", "no such thing")
	if body != "" {
		t.Errorf("body %q", body)
	}
	h, _, body = get("application/json", "")
	f(h, "X-Influxdb-Warning")
	f(h, "X-Influxdb-Error")
	if !strings.Contains(body, `points are\nmissing`) || !strings.Contains(body, `{"statement_id":3,"messages":[{"level":"info","text":"no rows"}]}`) {
		t.Errorf("body %q", body)
	}

	results = []*result.Result{
		{StatementID: 0, Series: []*result.Series{rows}, Messages: warning("first")},
		{StatementID: 1, Messages: warning("second")},
		{StatementID: 2, Err: errors.New("no such thing")},
	}
	for _, more := range []string{"", "&chunked=true"} {
		h, late, body := get("text/csv", more)
		f(h, "X-Influxdb-Warning", "first")
		f(late, "X-Influxdb-Warning", "second")
		f(late, "X-Influxdb-Error", "no such thing")
		if strings.Count(body, "\n") != long+1 {
			t.Errorf("%d lines", strings.Count(body, "\n"))
		}
	}

	results = nil
	for i := range 1000 {
		results = append(results, &result.Result{StatementID: i, Messages: warning(fmt.Sprintf("%0500d", i))})
	}
	h, _, _ = get("text/csv", "")
	if got := h.Values("X-Influxdb-Warning"); len(got) != 5 || !strings.HasPrefix(got[4], "and more") {
		t.Errorf("%d warnings: %q", len(got), got)
	}
}
