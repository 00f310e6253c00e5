package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"tsdbd/httpapi"
	"tsdbd/query/result"
)

// BenchmarkQuery asks for a table of one row: what is measured is the API.
func BenchmarkQuery(b *testing.B) {
	table := result.NewTable("m", "time", "v")
	table.AddRow(int64(1), 1.5)
	s := newFakeStore()
	s.execute = func(_ context.Context, emit func(*result.Result) error) error {
		return emit(&result.Result{Series: []*result.Series{table}})
	}
	h := httpapi.New(httpapi.Options{Writer: s, Query: s})
	defer h.Close()
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/query?db=d&q=SELECT+v+FROM+m+WHERE+host+%3D+%27a%27", nil))
		if w.Code != 200 {
			b.Fatal(w.Body)
		}
	}
}
