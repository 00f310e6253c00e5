package httpapi

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/meta"
	"tsdbd/query"
)

// everything is what makes all routes be there.
type everything struct {
	Writer
	Querier
	query.Executor
}

func (*everything) Catalog() *meta.Data { return &meta.Data{} }

// TestRoutesAreDocumented holds that every route with every method stands in the
// table of docs/http-api.md, which the matrix of rights is held against.
func TestRoutesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "http-api.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{} // path -> methods
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && strings.Contains(cells[2], "`/") {
			documented[strings.Split(cells[2], "`")[1]] = cells[1]
		}
	}
	all := &everything{}
	h := New(Options{Writer: all, Query: all.Querier, Catalog: all, Explorer: &all.Executor, Registry: prometheus.NewRegistry(), Pprof: true, Mounts: []Mount{{Prefix: "/api/tsdbd/", Handler: http.NotFoundHandler()}}})
	defer h.Close()
	for path, rt := range h.routes {
		methods, ok := documented[path]
		if !ok && strings.HasPrefix(path, "/debug/pprof") {
			methods, ok = documented["/debug/pprof/"]
		}
		if !ok && path == "/api/v2/buckets/" {
			methods, ok = documented[path+"{database/policy}"]
		}
		if !ok {
			t.Errorf("%s is not in the table", path)
		}
		for method := range rt.methods {
			if !strings.Contains(methods, method) {
				t.Errorf("%s %s is not in the table", method, path)
			}
		}
	}
}
