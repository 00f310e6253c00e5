package httpapi_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tsdbd/httpapi"
	"tsdbd/internal/testkit/badinput"
)

// FuzzWrite sends any body: it is stored or refused, and a body of which
// nothing parses changes nothing.
func FuzzWrite(f *testing.F) {
	for _, c := range badinput.Cases() {
		if strings.HasPrefix(c.Path, "/write") && len(c.Body) < 1000 {
			f.Add([]byte(c.Body), false)
		}
	}
	f.Add([]byte(badinput.Seed), true)
	f.Add([]byte(squeeze(badinput.Seed)), true)
	s := newFakeStore()
	h := httpapi.New(httpapi.Options{Writer: s, Query: s, Limits: httpapi.Limits{MaxBodySize: 1 << 20}})
	f.Cleanup(h.Close)
	f.Fuzz(func(t *testing.T, body []byte, packed bool) {
		s.databases = map[string]*fakeDatabase{}
		s.create("d")
		before := s.fingerprint()
		r, _ := http.NewRequest("POST", "/write?db=d", strings.NewReader(string(body)))
		if packed {
			r.Header.Set("Content-Encoding", "gzip")
		}
		w := serveRequest(h, r)
		switch w.Code {
		case 204:
		case 400, 413:
			var e struct{ Error string }
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error == "" {
				t.Errorf("%d with %q", w.Code, w.Body)
			}
			if !strings.HasPrefix(e.Error, "partial write: ") && s.fingerprint() != before {
				t.Errorf("refused with %q and stored", e.Error)
			}
		default:
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// FuzzQuery sends any statement and parameters: the answer is JSON with a
// status of the caller's, never a failure of ours.
func FuzzQuery(f *testing.F) {
	for _, c := range badinput.Cases() {
		u, err := url.Parse(c.Path)
		if err == nil && u.Path == "/query" && len(c.Path) < 1000 {
			f.Add(u.Query().Get("q"), u.Query().Get("params"))
		}
	}
	s := newFakeStore()
	h := httpapi.New(httpapi.Options{Writer: s, Query: s, Logger: slog.New(slog.DiscardHandler)})
	f.Cleanup(h.Close)
	f.Fuzz(func(t *testing.T, q, params string) {
		w := serve(h, "GET", "/query?q="+url.QueryEscape(q)+"&params="+url.QueryEscape(params), nil)
		if w.Code != 200 && w.Code != 400 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if !json.Valid(w.Body.Bytes()) {
			t.Errorf("not JSON: %q", w.Body)
		}
	})
}
