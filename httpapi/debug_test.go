package httpapi_test

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"tsdbd/httpapi"
)

// TestDebugRequests watches clients of several users.
func TestDebugRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, opt := withUsers(t)
		store := newFakeStore()
		store.create("db")
		opt.Writer, opt.Query = store, store
		h := httpapi.New(opt)
		defer h.Close()
		done := make(chan *httptest.ResponseRecorder)
		go func() { done <- serve(h, "GET", "/debug/requests?seconds=30&u=root&p=rootpw", nil) }()
		synctest.Wait() // it counts
		for range 3 {
			serve(h, "POST", "/write?db=db&u=ann&p=annpw", strings.NewReader("m v=1"))
		}
		serve(h, "GET", "/query?q=SHOW+DATABASES&u=ann&p=annpw", nil)
		serve(h, "GET", "/query?q=SHOW+DATABASES&u=root&p=rootpw", nil)
		serve(h, "GET", "/query?q=SHOW+DATABASES&u=ann&p=wrong", nil) // not let in
		serve(h, "POST", "/write?db=nosuch&u=ann&p=annpw", strings.NewReader("m v=1"))
		a := <-done
		const want = "{\n" + `"ann:192.0.2.1": {"writes":3,"queries":1},` + "\n" + `"root:192.0.2.1": {"writes":0,"queries":1}` + "\n}\n"
		if a.Code != 200 || a.Body.String() != want {
			t.Errorf("%d %s, want %s", a.Code, a.Body, want)
		}
		for _, bad := range []string{"x", "-1", "21601", "1m"} {
			if a := serve(h, "GET", "/debug/requests?u=root&p=rootpw&seconds="+url.QueryEscape(bad), nil); a.Code != 400 {
				t.Errorf("seconds=%s: %d %s", bad, a.Code, a.Body)
			}
		}
	})
}

// TestDebugVars holds the members that do not come from the querier.
func TestDebugVars(t *testing.T) {
	_, base := start(t, newFakeStore(), httpapi.Options{})
	a := do(t, "GET", base+"/debug/vars", "")
	var vars map[string]json.RawMessage
	if err := json.Unmarshal([]byte(a.body), &vars); err != nil || a.status != 200 {
		t.Fatalf("%d %v %s", a.status, err, a.body)
	}
	for _, name := range []string{"system", "build", "cmdline", "memstats"} {
		if vars[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	if !strings.Contains(string(vars["build"]), httpapi.InfluxVersion) {
		t.Errorf("build %s", vars["build"])
	}
}
