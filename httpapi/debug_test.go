package httpapi_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"tsdbd/httpapi"
)

// TestDebugRequests watches clients of several users.
func TestDebugRequests(t *testing.T) {
	_, _, opt := withUsers(t)
	store := newFakeStore()
	store.create("db")
	_, base := start(t, store, opt)
	done := make(chan answer)
	go func() { done <- do(t, "GET", base+"/debug/requests?seconds=0.4&u=root&p=rootpw", "") }()
	time.Sleep(150 * time.Millisecond)
	for range 3 {
		do(t, "POST", base+"/write?db=db&u=ann&p=annpw", "m v=1")
	}
	do(t, "GET", base+"/query?q=SHOW+DATABASES&u=ann&p=annpw", "")
	do(t, "GET", base+"/query?q=SHOW+DATABASES&u=root&p=rootpw", "")
	do(t, "GET", base+"/query?q=SHOW+DATABASES&u=ann&p=wrong", "") // not let in
	do(t, "POST", base+"/write?db=nosuch&u=ann&p=annpw", "m v=1")
	a := <-done
	const want = "{\n" + `"ann:127.0.0.1": {"writes":3,"queries":1},` + "\n" + `"root:127.0.0.1": {"writes":0,"queries":1}` + "\n}\n"
	if a.status != 200 || a.body != want {
		t.Errorf("%d %s, want %s", a.status, a.body, want)
	}
	for _, bad := range []string{"x", "-1", "21601", "1m"} {
		if a := do(t, "GET", base+"/debug/requests?u=root&p=rootpw&seconds="+url.QueryEscape(bad), ""); a.status != 400 {
			t.Errorf("seconds=%s: %d %s", bad, a.status, a.body)
		}
	}
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
