package apptest

import (
	"net/http"
	"strings"
	"testing"
)

// TestPage asks for / as a browser and as programs do, with logins on, and with the
// page switched off.
func TestPage(t *testing.T) {
	f := func(s *Server, path, accept string, status int, kind, text string) http.Header {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if accept != "" {
			req.Header.Set("Accept", accept)
		}
		resp, err := s.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := readAll(resp)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != status || !strings.HasPrefix(resp.Header.Get("Content-Type"), kind) || !strings.Contains(body, text) {
			t.Errorf("%s for %q: %d %s, want %d %s with %q\n%s", path, accept, resp.StatusCode, resp.Header.Get("Content-Type"), status, kind, text, body)
		}
		return resp.Header
	}
	t.Setenv("TSDBD_HTTP_AUTH_ENABLED", "true")
	s := Start(t)
	head := f(s, "/", "text/html,application/xhtml+xml", 200, "text/html", `<div id="app">`)
	if !strings.Contains(head.Get("Content-Security-Policy"), "default-src 'none'") || head.Get("Set-Cookie") != "" || head.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers of the page: %v", head)
	}
	for _, accept := range []string{"", "*/*", "application/json"} {
		f(s, "/", accept, 200, "text/plain", "time-series database")
	}
	f(s, "/index.html", "text/html", 404, "text/plain", "404 page not found\n")

	t.Setenv("TSDBD_HTTP_UI_ENABLED", "false")
	s = Start(t)
	f(s, "/", "text/html", 404, "text/plain", "404 page not found\n")
	f(s, "/ui/index.js", "", 404, "text/plain", "404 page not found\n")
}
