package httpapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"tsdbd/httpapi"
)

// TestErrorsV2 holds that errors of the v2 API have a code and a message for its clients, and
// error for those of InfluxDB 1.x.
func TestErrorsV2(t *testing.T) {
	_, _, opt := withUsers(t)
	store := newFakeStore()
	store.create("db")
	_, base := start(t, store, opt)
	f := func(method, path, body string, status int, code, message string, header ...string) {
		t.Helper()
		a := do(t, method, base+path, body, header...)
		var got struct{ Code, Message, Error string }
		err := json.Unmarshal([]byte(a.body), &got)
		if err != nil || a.status != status || got.Code != code || got.Error != got.Message || !strings.Contains(got.Message, message) || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %d %s %v, want %d %q %q", method, path, a.status, a.body, err, status, code, message)
		}
	}
	const root = "&u=root&p=rootpw"
	f("POST", "/api/v2/write?bucket=none"+root, "m v=1", 404, "not found", `database not found: "none"`)
	f("POST", "/api/v2/write?bucket=db"+root, "m v=", 400, "invalid", "unable to parse 'm v=': missing field value")
	f("POST", "/api/v2/write?bucket=db&precision=m"+root, "m v=1", 400, "invalid", "invalid precision", "Accept", "application/csv")
	f("POST", "/api/v2/write?bucket=db"+root, "m v=1", 415, "unsupported media type", "zstd", "Content-Encoding", "zstd")
	f("POST", "/api/v2/write?bucket=db"+root, "m v=1", 403, "forbidden", "http.allowed-origins", "Origin", "http://evil.example")
	f("POST", "/api/v2/write?bucket=db", "m v=1", 401, "unauthorized", "unable to parse authentication credentials")
	f("POST", "/api/v2/write?bucket=other&u=ann&p=annpw", "m v=1", 403, "forbidden", `not authorized to write to database "other"`)
	f("POST", "/api/v2/query?org=o"+root, "from()", 403, "forbidden", "Flux query service disabled")
	f("GET", "/api/v2/buckets?limit=x"+root, "", 400, "invalid", "limit must be a number")
	f("GET", "/api/v2/buckets/none?"+root, "", 404, "not found", "bucket not found")
	f("GET", "/api/v2/orgs", "", 401, "unauthorized", "credentials")
	deletes := func(predicate string) string {
		b, _ := json.Marshal(map[string]string{"start": "2020-01-01T00:00:00Z", "stop": "2021-01-01T00:00:00Z", "predicate": predicate})
		return string(b)
	}
	f("POST", "/api/v2/delete?bucket=db"+root, deletes(`_measurement="m" AND _field="v"`), 400, "invalid", "delete - a predicate cannot select a field")
	f("POST", "/api/v2/delete?bucket=db"+root, deletes(`host != "a"`), 400, "invalid", "only supports equality")

	g := func(path, want string) {
		t.Helper()
		if a := do(t, "GET", base+path+root, ""); a.status != 200 || a.body != want+"\n" {
			t.Errorf("%s: %d %s, want %s", path, a.status, a.body, want)
		}
	}
	const links = `{"links":{"self":"/api/v2/orgs"},"orgs":[`
	g("/api/v2/orgs?org=my+org", links+`{"id":"0000000000000001","name":"my org","links":{"self":"/api/v2/orgs/0000000000000001"}}]}`)
	g("/api/v2/orgs?", links+`{"id":"0000000000000001","name":"tsdbd","links":{"self":"/api/v2/orgs/0000000000000001"}}]}`)
	g("/api/v2/orgs?orgID=7", links+`]}`)
}

func TestReady(t *testing.T) {
	_, base := start(t, newFakeStore(), httpapi.Options{})
	a := do(t, "GET", base+"/ready", "")
	var got map[string]string
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != 200 || len(got) != 3 || got["status"] != "ready" || got["started"] == "" || got["up"] == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	_, base = start(t, newFakeStore(), httpapi.Options{Health: badHealth{}})
	if a := do(t, "GET", base+"/ready", ""); a.status != 503 || !strings.Contains(a.body, `"code":"unavailable","message":"read-only: disk failed"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}
