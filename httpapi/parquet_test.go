package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"tsdbd/httpapi"
	"tsdbd/internal/testkit/parquettest"
	"tsdbd/meta"
	"tsdbd/query/admission"
	"tsdbd/query/result"
)

// TestParquetAnswers asks for Parquet: an answer, errors before and behind its first byte.
func TestParquetAnswers(t *testing.T) {
	const media = "application/vnd.apache.parquet"
	s := newFakeStore()
	s.execute = oneTable
	_, base := start(t, s, httpapi.Options{})
	ask := func(q string) answer {
		t.Helper()
		return do(t, "GET", base+"/query?epoch=s&chunked=true&q="+q, "", "Accept", media)
	}
	a := ask("SELECT+v+FROM+m")
	columns, err := parquettest.Read([]byte(a.body))
	if err != nil || a.status != 200 || a.header.Get("Content-Type") != media {
		t.Fatalf("%d %v %v", a.status, a.header, err)
	}
	if got := fmt.Sprint(columns[0].Values, columns[1].Values, columns[1].Type, columns[2].Values); got != "[m] [-1500000]INT64 TIMESTAMP[1.5]" {
		t.Error(got)
	}
	refused := func(status int, want string) {
		t.Helper()
		if a := ask("SELECT+v+FROM+m"); a.status != status || a.header.Get("Content-Type") != "application/json" || a.body != want || a.header.Get("X-Influxdb-Error") == "" {
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
	}
	for _, c := range []struct {
		err    error
		status int
		want   string
	}{
		{errors.New("no such field"), 400, `{"error":"no such field"}` + "\n"},
		{fmt.Errorf("%w: x", meta.ErrDatabaseNotFound), 404, `{"error":"database not found: x"}` + "\n"},
		{admission.ErrMemory, 503, `{"error":"query memory limit exceeded"}` + "\n"},
	} {
		s.execute = func(_ context.Context, emit func(*result.Result) error) error {
			for _, r := range []*result.Result{longAnswer(), {Err: c.err}} {
				if err := emit(r); err != nil {
					return err
				}
			}
			return nil
		}
		refused(c.status, c.want)
	}
	if a := ask("SELECT+v+FROM+m%3BSELECT+v+FROM+m"); a.status != 400 || a.body != `{"error":"an answer in Parquet is one table: send one statement, not 2"}`+"\n" {
		t.Errorf("two statements: %d %s", a.status, a.body)
	}

	s.execute = func(_ context.Context, emit func(*result.Result) error) error {
		for range 80 {
			if err := emit(longAnswer()); err != nil {
				return err
			}
		}
		return emit(&result.Result{Err: errors.New("query interrupted")})
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", base+"/query?q=SELECT+v+FROM+m", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", media)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err == nil || len(b) == 0 {
		t.Errorf("an answer that failed late has %d bytes and an end", len(b))
	}
}
