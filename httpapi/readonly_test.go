package httpapi_test

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"tsdbd/httpapi"
)

func TestReadOnly(t *testing.T) {
	s := newFakeStore()
	_, base := start(t, s, httpapi.Options{})
	refused := func(text, statements string) string {
		return `{"error":"read_only=true refuses a statement that changes something: ` + text + `","refused":[` + statements + `]}` + "\n"
	}
	const (
		drop   = `{"statement":"DROP DATABASE d","database":"d","destroys":true}`
		create = `{"statement":"CREATE DATABASE d","database":"d","destroys":false}`
	)
	f := func(q, params, want string, header ...string) {
		t.Helper()
		s.options.Text = nil
		a := do(t, "POST", base+"/query?db=d&q="+url.QueryEscape(q)+params, "", header...)
		if ran := s.options.Text != nil; ran != (a.status == 200) || want != "" && (a.status != 400 || a.body != want) || want == "" && a.status != 200 {
			t.Errorf("%s %s: ran %v, %d %s", q, params, ran, a.status, a.body)
		}
	}
	f("CREATE DATABASE d", "", "")
	f("CREATE DATABASE d", "&read_only=false", "")
	f("CREATE DATABASE d", "&read_only=", "")
	f("SELECT v FROM m; SHOW DATABASES; EXPLAIN SELECT v FROM m", "&read_only=true", "")
	f("DROP DATABASE d", "&read_only=true", refused(`DROP DATABASE d (database \"d\")`, drop))
	// One true is enough, one refused statement too.
	f("DROP DATABASE d", "&read_only=true&read_only=false", refused(`DROP DATABASE d (database \"d\")`, drop))
	f("SHOW DATABASES; CREATE DATABASE d; DROP DATABASE d", "&read_only=true", refused(`CREATE DATABASE d (database \"d\")`, create+","+drop))
	f("DROP MEASUREMENT m", "&read_only=true&async=true", refused(`DROP MEASUREMENT m (database \"d\")`, `{"statement":"DROP MEASUREMENT m","database":"d","destroys":true}`))
	f("KILL QUERY 1", "&read_only=true", refused(`KILL QUERY 1`, `{"statement":"KILL QUERY 1","database":"","destroys":true}`))
	f("SELECT v INTO t FROM m", "&read_only=true", refused(`SELECT v INTO t FROM m (database \"d\")`, `{"statement":"SELECT v INTO t FROM m","database":"d","destroys":false}`))
	f("DROP DATABASE d", "&read_only=true", "error\n"+`"read_only=true refuses a statement that changes something: DROP DATABASE d (database ""d"")"`+"\n", "Accept", "text/csv")
	long := strings.Repeat("m", 300)
	f("DROP MEASUREMENT "+long, "&read_only=true", refused(`DROP MEASUREMENT `+long[:183]+`... (database \"d\")`, `{"statement":"DROP MEASUREMENT `+long+`","database":"d","destroys":true}`))
	// A value that means nothing runs nothing.
	f("DROP DATABASE d", "&read_only=yes", `{"error":"read_only must be true or false, not \"yes\""}`+"\n")
	f("SHOW DATABASES", "&read_only=1", `{"error":"read_only must be true or false, not \"1\""}`+"\n")
	// A form cannot take back what the URL asks for.
	if a := do(t, "POST", base+"/query?read_only=true", "read_only=false&q=DROP+DATABASE+d", "Content-Type", form); a.status != 400 {
		t.Errorf("form against URL: %d %s", a.status, a.body)
	}
}

// TestReadOnlyInACluster: the node that the client asks refuses, and the flag goes with
// what it forwards.
func TestReadOnlyInACluster(t *testing.T) {
	h, of, _, own, leaders := pair(t, httpapi.Options{})
	ask := func(target, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", target, strings.NewReader(body))
		r.Header.Set("Content-Type", form)
		return serveRequest(h, r)
	}
	if w := ask("/query?read_only=true", "q=CREATE+DATABASE+x"); w.Code != 400 || of.did() != "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	of.behind = true
	if w := ask("/query?db=d", "read_only=true&q=SELECT+v+FROM+m"); w.Code != 200 || of.did() != "read, forward" || of.body != "read_only=true&q=SELECT+v+FROM+m" {
		t.Errorf("%d %s, forwarded %q", w.Code, w.Body, of.body)
	}
	for _, s := range []*fakeStore{own, leaders} {
		if _, err := s.database("x"); err == nil {
			t.Error("the database was created")
		}
	}
}

// TestPartialParameter: what damage has left is for those who ask for it.
func TestPartialParameter(t *testing.T) {
	s := newFakeStore()
	_, base := start(t, s, httpapi.Options{})
	for params, want := range map[string]bool{"": false, "&partial=true": true, "&partial=false": false} {
		if a := do(t, "GET", base+"/query?q=SHOW+DATABASES"+params, ""); a.status != 200 || s.options.Partial != want {
			t.Errorf("%q: %d, partial %v", params, a.status, s.options.Partial)
		}
	}
	if a := do(t, "GET", base+"/query?q=SHOW+DATABASES&partial=1", ""); a.status != 400 {
		t.Errorf("partial=1: %d", a.status)
	}
}

// TestHintsParameter: hints are for those who ask for them.
func TestHintsParameter(t *testing.T) {
	s := newFakeStore()
	_, base := start(t, s, httpapi.Options{})
	for params, want := range map[string]bool{"": false, "&hints=true": true, "&hints=false": false} {
		if a := do(t, "GET", base+"/query?q=SHOW+DATABASES"+params, ""); a.status != 200 || s.options.Hints != want {
			t.Errorf("%q: %d, hints %v", params, a.status, s.options.Hints)
		}
	}
	if a := do(t, "GET", base+"/query?q=SHOW+DATABASES&hints=1", ""); a.status != 400 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
