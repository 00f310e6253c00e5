package httpapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/httpapi/boards"
	"tsdbd/meta"
	"tsdbd/prom/engine"
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
	h := New(Options{Writer: all, Query: all.Querier, Catalog: all, Boards: boards.New(boards.Options{Catalog: all.Catalog}), Explorer: &all.Executor, PromQL: engine.New(engine.Options{}), Registry: prometheus.NewRegistry(), Pprof: true, Mounts: []Mount{{Prefix: "/api/tsdbd/", Handler: http.NotFoundHandler()}}})
	defer h.Close()
	for path, rt := range h.routes {
		methods, ok := documented[path]
		if !ok && strings.HasPrefix(path, "/debug/pprof") {
			methods, ok = documented["/debug/pprof/"]
		}
		if !ok && path == "/api/v2/buckets/" {
			methods, ok = documented[path+"{database/policy}"]
		}
		if !ok && path == "/api/boards/" {
			methods, ok = documented[path+"{id}"]
		}
		if !ok && path == "/api/v1/label/" {
			methods, ok = documented[path+"{name}/values"]
		}
		if !ok && path == textPath+"/" {
			methods, ok = documented[path+"{metrics/job/...}"]
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

// placed is a cluster that notes what a Handler asks of it.
type placed struct{ forwarded, read bool }

func (*placed) Others() []string { return nil }
func (*placed) Ask(string, http.ResponseWriter, *http.Request) error {
	return errors.New("there is no other node")
}

func (*placed) Leads() bool      { return false }
func (*placed) TakesRows() bool  { return true }
func (*placed) Position() uint64 { return 0 }

func (*placed) Stamp(bool) func(http.Header) { return func(http.Header) {} }

func (p *placed) Forward(w http.ResponseWriter, _ *http.Request) error {
	p.forwarded = true
	w.WriteHeader(http.StatusTeapot)
	return nil
}

func (p *placed) Read(context.Context, uint64, string) (bool, time.Duration, error) {
	p.read = true
	return true, 0, nil
}

func (p *placed) Writer(http.Header, bool) Writer { return nil }

// TestRoutesInACluster holds every route with every method against the node that
// should answer it, by hand: L is the leader, A any node that is not behind, T the
// node that was asked, S as the statements say, R the leader with rows. It fails for a route that is not here.
func TestRoutesInACluster(t *testing.T) {
	want := map[string]string{
		"GET /query": "S", "POST /query": "S", "OPTIONS /query": "T",
		"POST /write": "R", "OPTIONS /write": "T", "POST /api/v2/write": "R", "OPTIONS /api/v2/write": "T",
		"POST /api/v2/delete": "L", "POST /api/v2/query": "T", "OPTIONS /api/v2/query": "T",
		"GET /api/boards": "A", "POST /api/boards": "L", "GET /api/boards/": "A", "PUT /api/boards/": "L", "DELETE /api/boards/": "L", "OPTIONS /api/boards": "T", "OPTIONS /api/boards/": "T",
		"GET /api/v2/buckets": "A", "POST /api/v2/buckets": "L",
		"GET /api/v2/buckets/": "A", "HEAD /api/v2/buckets/": "A", "PATCH /api/v2/buckets/": "L", "DELETE /api/v2/buckets/": "L", "OPTIONS /api/v2/buckets/": "L",
		"POST /api/v1/prom/write": "R", "POST /api/v1/write": "R", "POST /api/v1/otlp/v1/metrics": "R", "POST /v1/metrics": "R", "POST /opentelemetry/v1/metrics": "R", "POST /api/v1/prom/read": "S", "POST /api/v1/read": "S", "POST /api/v1/import": "R", "POST /api/v1/import/prometheus": "R", "PUT /api/v1/import/prometheus": "R", "POST /api/v1/import/prometheus/": "R", "PUT /api/v1/import/prometheus/": "R", "GET /api/v1/export": "S", "POST /api/v1/export": "S",
		"GET /api/v1/query": "S", "POST /api/v1/query": "S", "OPTIONS /api/v1/query": "T",
		"GET /api/v1/query_range": "S", "POST /api/v1/query_range": "S", "OPTIONS /api/v1/query_range": "T",
		"GET /api/v1/query_exemplars": "S", "POST /api/v1/query_exemplars": "S", "OPTIONS /api/v1/query_exemplars": "T",
		"GET /api/v1/series": "S", "POST /api/v1/series": "S", "OPTIONS /api/v1/series": "T",
		"GET /api/v1/labels": "S", "POST /api/v1/labels": "S", "OPTIONS /api/v1/labels": "T",
		"GET /api/v1/label/": "S", "OPTIONS /api/v1/label/": "T",
		"GET /api/v1/format_query": "T", "POST /api/v1/format_query": "T", "OPTIONS /api/v1/format_query": "T",
		"GET /federate": "S", "OPTIONS /federate": "T",
		"GET /api/v1/metadata": "S", "OPTIONS /api/v1/metadata": "T",
		"GET /api/v1/parse_query": "T", "POST /api/v1/parse_query": "T", "OPTIONS /api/v1/parse_query": "T",
		"GET /api/v1/rules": "T", "OPTIONS /api/v1/rules": "T",
		"GET /api/v1/alerts": "T", "OPTIONS /api/v1/alerts": "T",
		"GET /api/v1/targets": "T", "OPTIONS /api/v1/targets": "T",
		"POST /api/v1/admin/tsdb/delete_series": "L", "PUT /api/v1/admin/tsdb/delete_series": "L",
		"POST /api/v1/admin/tsdb/clean_tombstones": "L", "PUT /api/v1/admin/tsdb/clean_tombstones": "L",
		"GET /api/v1/": "T", "POST /api/v1/": "T", "OPTIONS /api/v1/": "T",
		"POST /api/v1/otlp/v1/logs": "T", "POST /v1/logs": "T", "POST /opentelemetry/v1/logs": "T",
		"POST /api/v1/otlp/v1/traces": "T", "POST /v1/traces": "T", "POST /opentelemetry/v1/traces": "T",
		"GET /api/v1/targets/metadata": "T", "OPTIONS /api/v1/targets/metadata": "T",
		"GET /api/v1/targets/relabel_steps": "T", "OPTIONS /api/v1/targets/relabel_steps": "T",
		"GET /api/v1/scrape_pools": "T", "OPTIONS /api/v1/scrape_pools": "T",
		"GET /api/v1/scrape_pools/config": "T", "OPTIONS /api/v1/scrape_pools/config": "T",
		"GET /api/v1/alertmanagers": "T", "OPTIONS /api/v1/alertmanagers": "T",
		"GET /api/v1/notifications": "T", "OPTIONS /api/v1/notifications": "T",
		"GET /api/v1/status/walreplay": "T", "OPTIONS /api/v1/status/walreplay": "T",
		"GET /api/v1/status/buildinfo": "T", "OPTIONS /api/v1/status/buildinfo": "T",
		"GET /api/v1/status/runtimeinfo": "T", "OPTIONS /api/v1/status/runtimeinfo": "T",
		"GET /api/v1/status/config": "T", "OPTIONS /api/v1/status/config": "T",
		"GET /api/v1/status/flags": "T", "OPTIONS /api/v1/status/flags": "T",
		"GET /api/v1/status/tsdb": "S", "OPTIONS /api/v1/status/tsdb": "T",
		"GET /ping": "T", "HEAD /ping": "T", "GET /status": "T", "HEAD /status": "T",
		"GET /ready": "T", "GET /api/v2/orgs": "T",
		"GET /health": "T", "HEAD /health": "T", "OPTIONS /health": "T",
		"GET /-/healthy": "T", "HEAD /-/healthy": "T", "GET /-/ready": "T", "HEAD /-/ready": "T",
		"GET /metrics": "T", "GET /debug/vars": "T", "GET /debug/requests": "T",
		"GET /debug/pprof/all": "T", "GET /debug/pprof": "T", "GET /debug/pprof/": "T", "POST /debug/pprof/": "T",
		"POST /api/tsdbd/": "T", "POST /api/tsdbd/define": "L",
	}
	all, c := &everything{}, &placed{}
	h := New(Options{
		Writer: all, Query: all.Querier, Catalog: all, Boards: boards.New(boards.Options{Catalog: all.Catalog}), Explorer: &all.Executor, PromQL: engine.New(engine.Options{}), Registry: prometheus.NewRegistry(), Pprof: true, Cluster: c,
		Mounts: []Mount{{Prefix: "/api/tsdbd/", Handler: http.NotFoundHandler()}, {Prefix: "/api/tsdbd/define", Handler: http.NotFoundHandler(), Place: query.Leader}},
	})
	defer h.Close()
	for path, rt := range h.routes {
		if rt.place == 0 {
			t.Errorf("%s has no place", path)
		}
		listed := slices.Collect(maps.Keys(rt.methods))
		if rt.any != nil {
			for key := range want {
				if method, of, _ := strings.Cut(key, " "); of == path {
					listed = append(listed, method)
				}
			}
		}
		if len(listed) == 0 {
			t.Errorf("%s is not in the table", path)
		}
		for _, method := range listed {
			got := map[query.Place]string{query.Leader: "L", query.AnyNode: "A", query.ThisNode: "T", byStatement: "S", byRows: "R"}[rt.placeOf(method)]
			if got != want[method+" "+path] {
				t.Errorf("%s %s: %q, want %q", method, path, got, want[method+" "+path])
			}
			if got == "T" || got == "S" {
				continue
			}
			*c = placed{}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			if w.Code != http.StatusTeapot || !c.forwarded || c.read != (got == "A" || got == "R") {
				t.Errorf("%s %s: %d, %+v", method, path, w.Code, *c)
			}
		}
	}
}
