package operations

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tsdbd/meta"
	"tsdbd/query/admission"
	"tsdbd/query/history"
	"tsdbd/services/recorder"
)

// ask returns the status and the body of an answer.
func ask(serve func(http.ResponseWriter, *http.Request, *meta.User), method, url string, user *meta.User) (int, string) {
	w := httptest.NewRecorder()
	serve(w, httptest.NewRequest(method, url, nil), user)
	return w.Code, w.Body.String()
}

// TestQueries asks as users: an administrator sees all queries, others their own.
func TestQueries(t *testing.T) {
	h := history.New(func(text string) string { return text })
	for _, user := range []string{"ann", "bob"} {
		h.Add(&admission.Ended{Text: "of " + user, Language: admission.PromQL, Database: "d", User: user, At: time.Now(), Took: 1500 * time.Millisecond, Rows: 7, Failed: user == "bob"})
	}
	for _, c := range []struct {
		method, url string
		user        *meta.User
		code        int
		has, lacks  string
	}{
		{"GET", QueriesPath, nil, 200, `"of bob"`, ""},
		{"GET", QueriesPath + "?since=1h", &meta.User{Name: "root", Admin: true}, 200, `"of ann"`, ""},
		{"GET", QueriesPath, &meta.User{Name: "ann"}, 200, `{"query":"of ann","language":"promql","database":"d","user":"ann","count":1,"errors":0,"total_seconds":1.5,"worst_seconds":1.5,"rows":7,"last":"`, "bob"},
		{"GET", QueriesPath + "?since=1m", &meta.User{Name: "eve"}, 200, `"queries":[]`, "bob"},
		{"GET", QueriesPath + "?since=61m", nil, 400, `{"error":"since must be a duration such as 15m, at most 1h, not \"61m\""}`, "ann"},
		{"GET", QueriesPath + "?since=-1m", nil, 400, "since must be", "ann"},
		{"GET", QueriesPath + "?since=1", nil, 400, "since must be", "ann"},
		{"POST", QueriesPath, nil, 405, "Method Not Allowed", "ann"},
	} {
		code, body := ask(Queries(h), c.method, c.url, c.user)
		if code != c.code || !strings.Contains(body, c.has) || c.lacks != "" && strings.Contains(body, c.lacks) {
			t.Errorf("%s %s as %v: %d %s", c.method, c.url, c.user, code, body)
		}
	}
}

// TestRights asks what users may do.
func TestRights(t *testing.T) {
	for _, c := range []struct {
		logins bool
		user   *meta.User
		want   string
	}{
		{false, nil, `{"logins":false,"user":"","admin":true,"databases":{}}`},
		{true, &meta.User{Name: "root", Admin: true}, `{"logins":true,"user":"root","admin":true,"databases":{}}`},
		{true, &meta.User{Name: "ann", Privileges: map[string]meta.Privilege{"a": meta.ReadPrivilege, "b": meta.WritePrivilege, "c": meta.AllPrivileges, "d": 0}}, `{"logins":true,"user":"ann","admin":false,"databases":{"a":"READ","b":"WRITE","c":"ALL PRIVILEGES"}}`},
	} {
		if code, body := ask(Rights(c.logins), "GET", RightsPath, c.user); code != 200 || body != c.want+"\n" {
			t.Errorf("%d %s\nwant %s", code, body, c.want)
		}
	}
}

// TestFigures: each figure has a value for each time.
func TestFigures(t *testing.T) {
	s := recorder.New([]recorder.Figure{"heap_bytes", "requests_total"}, func(values []float64) { values[0], values[1] = 1e12, 2.5 })
	figures := Figures(s)
	code, body := ask(func(w http.ResponseWriter, r *http.Request, _ *meta.User) { figures(w, r) }, "GET", FiguresPath, nil)
	if code != 200 || !strings.Contains(body, `"figures":{"heap_bytes":[1000000000000,1000000000000],"requests_total":[2.5,2.5]}}`) {
		t.Errorf("%d %s", code, body)
	}
}
