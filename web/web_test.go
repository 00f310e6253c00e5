package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestPage asks for the document and its files as browsers and as programs do.
func TestPage(t *testing.T) {
	page := New()
	ask := func(method, path string, header ...string) *http.Response {
		r := httptest.NewRequest(method, path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		return w.Result()
	}
	text := func(a *http.Response) string {
		t.Helper()
		body := io.Reader(a.Body)
		if a.Header.Get("Content-Encoding") == "gzip" {
			z, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = z
		}
		b, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}

	a := ask("GET", "/", "Accept", "text/html,*/*")
	document := text(a)
	if a.StatusCode != 200 || !strings.Contains(document, `<div id="app">`) || a.Header.Get("Content-Security-Policy") != security {
		t.Fatalf("%d %v\n%s", a.StatusCode, a.Header, document)
	}
	if packed := text(ask("GET", "/", "Accept", "text/html", "Accept-Encoding", "gzip, br")); packed != document {
		t.Errorf("with gzip the document is\n%s", packed)
	}
	if again := ask("GET", "/", "Accept", "text/html", "If-None-Match", a.Header.Get("ETag")); again.StatusCode != 304 || text(again) != "" {
		t.Errorf("the document is sent again: %d", again.StatusCode)
	}
	if strings.Contains(document, "<style") || regexp.MustCompile(`<script(?: [^>]*)?>[^<]`).MatchString(document) || strings.Contains(document, "://") {
		t.Errorf("the document has code or foreign addresses in it:\n%s", document)
	}

	links := regexp.MustCompile(`(?:src|href)="\./([^"]+)"`).FindAllStringSubmatch(document, -1)
	if len(links) < 3 {
		t.Fatalf("files of the document: %q", links)
	}
	for _, link := range links {
		a := ask("GET", "/"+link[1])
		if a.StatusCode != 200 || !strings.Contains(a.Header.Get("Cache-Control"), "immutable") || text(a) == "" {
			t.Errorf("%s: %d %v", link[1], a.StatusCode, a.Header)
		}
	}
	if kind := ask("GET", "/"+links[0][1]).Header.Get("Content-Type"); kind == "" {
		t.Errorf("%s has no type", links[0][1])
	}

	for _, accept := range []string{"", "*/*", "application/json"} {
		if a := ask("GET", "/", "Accept", accept); a.StatusCode != 200 || text(a) != about {
			t.Errorf("Accept %q: %d %v", accept, a.StatusCode, a.Header)
		}
	}
	if a := ask("GET", "/ui/nosuch"); a.StatusCode != 404 {
		t.Errorf("a file that is not there: %d", a.StatusCode)
	}
	if a := ask("POST", "/"); a.StatusCode != 405 || a.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d %v", a.StatusCode, a.Header)
	}
	size := 0
	for _, f := range page.files {
		size += len(f.packed)
	}
	if size > 300_000 {
		t.Errorf("the page has %d bytes of gzip, want 300,000 at most", size)
	}
}

// TestLink follows links of other pages: the way to the page is relative, and carries their
// parameters, if the server gets them.
func TestLink(t *testing.T) {
	for _, c := range [][2]string{
		{"/graph?g0.expr=sum(up)%20%3E%201&g0.range_input=1h", "./#/?g0.expr=sum(up)%20%3E%201&g0.range_input=1h"},
		{"/graph", "./"},
		{"/vmui/?g0.expr=up", "./../#/?g0.expr=up"},
		{"/vmui/", "./../"},
		{"/ui", "./"},
	} {
		w := httptest.NewRecorder()
		Link(w, httptest.NewRequest("GET", c[0], nil))
		if w.Code != 302 || w.Header().Get("Location") != c[1] {
			t.Errorf("%s leads to %q, %d", c[0], w.Header().Get("Location"), w.Code)
		}
	}
	w := httptest.NewRecorder()
	New().ServeHTTP(w, httptest.NewRequest("GET", AssetPrefix, nil))
	if w.Code != 302 || w.Header().Get("Location") != "./../" {
		t.Errorf("%s leads to %q, %d", AssetPrefix, w.Header().Get("Location"), w.Code)
	}
}
