package httpapi_test

import (
	"io"
	"net/http"
	"testing"

	"tsdbd/httpapi"
)

// TestMounts asks handlers of other packages, as several users.
func TestMounts(t *testing.T) {
	_, _, opt := withUsers(t)
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, text+" "+r.Method+" "+r.URL.Path)
		})
	}
	opt.Mounts = []httpapi.Mount{
		{Prefix: "/", Name: "root", Access: httpapi.Open, Handler: says("root")},
		{Prefix: "/ui/", Name: "ui", Access: httpapi.LoggedIn, Handler: says("ui")},
		{Prefix: "/ui/admin/", Name: "ui_admin", Handler: says("admin")},
		{Prefix: "/ui/one", Name: "one", Access: httpapi.Open, Handler: says("one")},
	}
	_, base := start(t, newFakeStore(), opt)
	f := func(method, path, user string, status int, body string) {
		t.Helper()
		a := do(t, method, base+path+user, "")
		if a.status != status || status == 200 && a.body != body {
			t.Errorf("%s %s%s: %d %s, want %d %s", method, path, user, a.status, a.body, status, body)
		}
		if a.header.Get("X-Influxdb-Version") == "" {
			t.Errorf("%s %s: headers %v", method, path, a.header)
		}
	}
	const ann, root = "?u=ann&p=annpw", "?u=root&p=rootpw"
	f("GET", "/", "", 200, "root GET /")
	f("PUT", "/", "", 200, "root PUT /")
	f("GET", "/x/y", "", 404, "")
	f("GET", "/ui", "", 404, "")
	f("GET", "/ui/", "", 401, "")
	f("OPTIONS", "/ui/", "", 401, "")
	f("GET", "/ui/a/b", ann, 200, "ui GET /ui/a/b")
	f("GET", "/ui/admin/", ann, 403, "")
	f("GET", "/ui/admin/x", root, 200, "admin GET /ui/admin/x")
	f("GET", "/ui/one", "", 200, "one GET /ui/one")
	f("GET", "/ui/one/two", ann, 200, "ui GET /ui/one/two")
	f("HEAD", "/ping", "", 204, "")
	f("GET", "/debug/vars", "", 401, "")
}
