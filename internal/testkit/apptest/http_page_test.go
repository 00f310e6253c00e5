package apptest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestHTTPPage holds that docs/http-api.md names every route of the matrix
// that tests who may use it.
func TestHTTPPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "http-api.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routeMatrix {
		path, _, _ := strings.Cut(r.path, "?")
		for _, dynamic := range []string{"/api/v1/label/", "/api/v1/import/prometheus/", "/api/v2/buckets/", "/api/boards/", "/debug/pprof/", "/api/tsdbd/", "/ui/"} {
			if strings.HasPrefix(path, dynamic) {
				path = dynamic
			}
		}
		if strings.HasPrefix(path, "/prometheus/") {
			path = "/prometheus/"
		}
		if path != "/nosuch" && !strings.Contains(string(text), "`"+path) {
			t.Errorf("%s is not on the page", path)
		}
	}
	// And the other way: every method of every route of the page is tested.
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.Contains(cells[2], "`/") {
			continue
		}
		path, _, _ := strings.Cut(strings.Split(cells[2], "`")[1], "{")
		for method := range strings.SplitSeq(strings.TrimSpace(cells[1]), ", ") {
			if !slices.ContainsFunc(routeMatrix, func(r routeRights) bool {
				return strings.HasPrefix(r.path, path) && (r.method == method || method == "" || method == "any")
			}) {
				t.Errorf("%s %s is not in the matrix", method, path)
			}
		}
	}
}
