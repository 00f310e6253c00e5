package httpapi_test

import (
	"context"
	"strings"
	"testing"

	"tsdbd/httpapi"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/result"
)

func TestMaxRowLimit(t *testing.T) {
	store := newFakeStore()
	// Two series, the first of 5 rows in chunks of 3 and 2, the second of 2.
	rows := func(name string, partial bool, values ...int64) *result.Series {
		return &result.Series{
			Name: name, Columns: []string{"v", "n"}, Rows: len(values), Time: -1, Partial: partial,
			Values: []column.Vector{{Type: model.Integer, Ints: values}, {Type: model.Unknown}},
		}
	}
	emitted := 0
	store.execute = func(_ context.Context, emit func(*result.Result) error) error {
		emitted = 0
		for _, r := range []*result.Result{
			{Series: []*result.Series{rows("a", true, 1, 2, 3)}, Partial: true},
			{Series: []*result.Series{rows("a", false, 4, 5)}, Partial: true},
			{Series: []*result.Series{rows("b", false, 6, 7)}},
		} {
			emitted++
			if err := emit(r); err != nil {
				return err
			}
		}
		return nil
	}
	const a, b = `{"name":"a","columns":["v","n"],"values":[`, `{"name":"b","columns":["v","n"],"values":[`
	f := func(limit int, results int, series string) {
		t.Helper()
		_, base := start(t, store, httpapi.Options{Limits: httpapi.Limits{MaxRowLimit: limit}})
		want := `{"results":[{"statement_id":0,"series":[` + series + `]}]}` + "\n"
		if got := do(t, "GET", base+"/query?q=SELECT+v+FROM+m", ""); got.status != 200 || got.body != want {
			t.Errorf("limit %d:\n got %s\nwant %s", limit, got.body, want)
		}
		if emitted != results {
			t.Errorf("limit %d: %d results were read, want %d", limit, emitted, results)
		}
		// Chunked answers are not cut, and the other formats are well formed.
		if got := do(t, "GET", base+"/query?q=SELECT+v+FROM+m&chunked=true", ""); !strings.Contains(got.body, "[7,null]") {
			t.Errorf("limit %d chunked: %s", limit, got.body)
		}
		if got := do(t, "GET", base+"/query?q=SELECT+v+FROM+m", "", "Accept", "text/csv"); limit > 0 && limit < 7 && strings.Count(got.body, "\n") > limit+3 {
			t.Errorf("limit %d as CSV: %s", limit, got.body)
		}
		if got := do(t, "GET", base+"/query?q=SELECT+v+FROM+m", "", "Accept", "application/x-msgpack"); strings.Contains(got.body, "partial") != strings.Contains(series, "partial") {
			t.Errorf("limit %d as MessagePack: %q", limit, got.body)
		}
	}
	f(0, 3, a+`[1,null],[2,null],[3,null],[4,null],[5,null]]},`+b+`[6,null],[7,null]]}`)
	f(1, 1, a+`[1,null]],"partial":true}`)
	f(3, 1, a+`[1,null],[2,null],[3,null]],"partial":true}`)
	f(4, 2, a+`[1,null],[2,null],[3,null],[4,null]],"partial":true}`)
	f(5, 2, a+`[1,null],[2,null],[3,null],[4,null],[5,null]]}`)
	f(6, 3, a+`[1,null],[2,null],[3,null],[4,null],[5,null]]},`+b+`[6,null]],"partial":true}`)
	f(7, 3, a+`[1,null],[2,null],[3,null],[4,null],[5,null]]},`+b+`[6,null],[7,null]]}`)
	f(100, 3, a+`[1,null],[2,null],[3,null],[4,null],[5,null]]},`+b+`[6,null],[7,null]]}`)
}
