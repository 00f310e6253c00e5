package httpapi_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"tsdbd/httpapi"
)

// TestPagesAtAFollower holds that a node refuses a page before it forwards the request to
// the leader, which would take it for a node's.
func TestPagesAtAFollower(t *testing.T) {
	h, of, _, _, leaders := pair(t, httpapi.Options{})
	f := func(status int, calls, method, target, body string, header ...string) {
		t.Helper()
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.Host = "127.0.0.1:8086"
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		if w := serveRequest(h, r); w.Code != status || of.did() != calls {
			t.Errorf("%s %s %v: %d %s", method, target, header, w.Code, w.Body)
		}
	}
	before := leaders.fingerprint()
	evil := []string{"Origin", "http://evil.example", "Content-Type", form}
	f(403, "", "POST", "/query", "q=DROP+DATABASE+d", evil...)
	f(403, "", "POST", "/query?q=DROP+DATABASE+d", "", evil...)
	f(403, "", "GET", "/query?q=SHOW+STATS%3B+DROP+DATABASE+d", "", "Sec-Fetch-Site", "cross-site")
	f(403, "", "POST", "/write?db=d", "m v=1", evil...)
	if after := leaders.fingerprint(); after != before {
		t.Errorf("the leader has %s", after)
	}
	f(200, "read", "POST", "/query", "q=SELECT+v+FROM+m", evil...)
	f(204, "read, write", "POST", "/write?db=d", "m v=1", "Origin", "http://127.0.0.1:8086", "User-Agent", "Mozilla/5.0")
	f(200, "forward", "POST", "/query", "q=DROP+DATABASE+d", "Content-Type", form, "Sec-Fetch-Site", "same-origin")
	if _, err := leaders.database("d"); err == nil {
		t.Error("the page of the server cannot drop a database")
	}
}

// TestAskingForLogins holds that a browser asks a person for a login only if the person
// has opened the address.
func TestAskingForLogins(t *testing.T) {
	_, _, opt := withUsers(t)
	_, base := start(t, newFakeStore(), opt)
	f := func(asks bool, header ...string) {
		t.Helper()
		for _, path := range []string{"/metrics", "/query?q=SHOW+DATABASES"} {
			a := do(t, "GET", base+path, "", header...)
			if a.status != 401 || (a.header.Get("WWW-Authenticate") != "") != asks {
				t.Errorf("%s %v: %d %q", path, header, a.status, a.header.Get("WWW-Authenticate"))
			}
		}
	}
	f(true)
	f(true, "User-Agent", "Mozilla/5.0", "Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate")
	f(true, "Authorization", "Basic cm9vdDp3cm9uZw==")
	f(false, "User-Agent", "Mozilla/5.0", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors")
	f(false, "User-Agent", "Mozilla/5.0", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors")
	f(false, "User-Agent", "Mozilla/5.0", "Origin", "http://other.example")
}
