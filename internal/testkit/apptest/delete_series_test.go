package apptest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// delete_series deletes what a selector chooses between two times, or refuses.
func TestDeleteSeries(t *testing.T) {
	s := Start(t)
	s.Query("", "CREATE DATABASE p")
	s.Query("", "CREATE RETENTION POLICY other ON p DURATION INF REPLICATION 1")
	const lines = "up,__name__=up,job=a value=1 10\nup,__name__=up,job=a value=2 20\nup,__name__=up,job=b value=1 10\nup,__name__=up value=1 10\n" +
		"cpu,host=a idle=1,user=2 10\ncpu,host=b idle=1,user=2 10\nmem,host=a free=1,note=\"x\" 10"
	for _, rp := range []string{"autogen", "other"} {
		if status, body, err := s.Do(t.Context(), "POST", "/write", url.Values{"db": {"p"}, "rp": {rp}, "precision": {"s"}}, lines); err != nil || status != 204 {
			t.Fatal(status, body, err)
		}
	}
	del := func(path string, status int, want string, params ...string) {
		t.Helper()
		form := url.Values{}
		for i := 0; i < len(params); i += 2 {
			form.Add(params[i], params[i+1])
		}
		req, err := http.NewRequest("POST", s.URL+path+"?"+form.Encode(), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := readAll(resp)
		if err != nil || resp.StatusCode != status || !strings.Contains(body, want) {
			t.Errorf("%v: %d %s %v, want %d %s", params, resp.StatusCode, body, err, status, want)
		}
	}
	left := func(want ...string) {
		t.Helper()
		var got []string
		for _, q := range []string{`{__name__=~".+"}`} {
			resp, err := http.Get(s.URL + "/prometheus/p/api/v1/query_range?start=10&end=20&step=10&lookback_delta=1&query=" + url.QueryEscape(q))
			if err != nil {
				t.Fatal(err)
			}
			body, err := readAll(resp)
			if err != nil {
				t.Fatal(err)
			}
			for part := range strings.SplitSeq(body, `{"metric":`) {
				if labels, values, ok := strings.Cut(part, `,"values":`); ok {
					got = append(got, labels[1:len(labels)-1]+" "+strings.TrimRight(values, "},]")+"]]")
				}
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("left %q, want %q", got, want)
		}
	}
	const path = "/prometheus/p/api/v1/admin/tsdb/delete_series"
	del(path, 400, "no match[] parameter provided")
	del(path, 400, "match[]", "match[]", "up{")
	del("/prometheus/nosuch/api/v1/admin/tsdb/delete_series", 404, "database not found", "match[]", "up")
	del(path, 422, "the metric cpu_user is not alone in its rows", "match[]", "cpu_idle")
	del(path, 204, "", "match[]", `up{job="a"}`, "end", "15")
	del(path, 204, "", "match[]", `up{job=""}`, "match[]", `{host="b"}`)
	del(path, 204, "", "match[]", "mem_free")
	left(`"__name__":"up","job":"a" [[20,"2"]]`, `"__name__":"up","job":"b" [[10,"1"]]`,
		`"__name__":"cpu_idle","host":"a" [[10,"1"]]`, `"__name__":"cpu_user","host":"a" [[10,"2"]]`)
	del("/prometheus/p/other/api/v1/admin/tsdb/delete_series", 204, "", "match[]", "up")
	del("/prometheus/p/api/v1/admin/tsdb/clean_tombstones", 204, "")
}
