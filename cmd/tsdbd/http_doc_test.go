package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHTTPPage holds that docs/http-api.md names every route of the matrix
// that tests who may use it.
func TestHTTPPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "http-api.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routeMatrix {
		path, _, _ := strings.Cut(r.path, "?")
		for _, dynamic := range []string{"/api/v2/buckets/", "/debug/pprof/", "/api/tsdbd/"} {
			if strings.HasPrefix(path, dynamic) {
				path = dynamic
			}
		}
		if path != "/nosuch" && !strings.Contains(string(text), "`"+path) {
			t.Errorf("%s is not on the page", path)
		}
	}
}
