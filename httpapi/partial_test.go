package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/httpapi"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/model/scan/scantest"
	"tsdbd/prom/engine"
	"tsdbd/query"
	"tsdbd/query/admission"
	"tsdbd/query/result"
)

// TestPrometheusPartial: requests about times that have lost samples fail with the reason,
// and with partial=true answers say what they lack.
func TestPrometheusPartial(t *testing.T) {
	h, s := promServer(t, httpapi.Options{Limits: httpapi.Limits{PrometheusDatabase: "mydb"}}, admission.Limits{})
	s.Write(t, "mydb", "autogen", "s", "up,__name__=up,job=a value=1 100")
	s.Lost = []scan.Loss{{Shard: 7, Range: model.TimeRange{Min: 0, Max: 200e9}, Path: "db-1/shard-7/quarantine/1.tsm"}}
	const lost = "points are missing in shard 7, 1970-01-01T00:00:00Z to 1970-01-01T00:03:20Z: damaged file set aside as db-1/shard-7/quarantine/1.tsm"
	all := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 200e3)
	all = append(all, member(3, append(member(2, []byte("job")), member(3, []byte("a"))...))...)
	message := string(snappy.Encode(nil, member(1, all)))
	for _, path := range []string{
		"/api/v1/query?query=up&time=110",
		"/api/v1/query?query=count_over_time(up[5m:1s])&time=300",
		"/api/v1/query?query=up+offset+1h&time=3710",
		"/api/v1/query_range?query=sum(rate(up[1m]))&start=0&end=150&step=10",
		"/api/v1/query_range?query=sum(up)%2Bvector(1)&start=0&end=5000000&step=1000",
		"/api/v1/series?match[]=up&start=0&end=150",
		"/api/v1/labels?start=0&end=150",
		"/api/v1/label/job/values?start=0&end=150",
		"/api/v1/metadata?metric=up",
		"/api/v1/export?match[]=up&start=0&end=150",
		"/api/v1/read?db=mydb",
	} {
		ask := func(more string) *httptest.ResponseRecorder {
			if strings.HasPrefix(path, "/api/v1/read") {
				return serveRequest(h, httptest.NewRequest("POST", path+more, strings.NewReader(message)))
			}
			return serveRequest(h, httptest.NewRequest("GET", path+more, nil))
		}
		if w := ask(""); w.Code != 500 || !strings.Contains(w.Body.String(), lost+". For an answer from what is left, add partial=true") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if w := ask("&partial=true"); w.Code != 200 || !strings.Contains(w.Body.String(), lost) && w.Header().Get("X-Influxdb-Warning") != lost {
			t.Errorf("%s, partial: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
		if w := ask("&partial=1"); w.Code != 400 {
			t.Errorf("%s, partial=1: %d", path, w.Code)
		}
	}
	if w := serveRequest(h, httptest.NewRequest("GET", "/api/v1/query?time=100000&query=up", nil)); w.Code != 200 || strings.Contains(w.Body.String(), "missing") {
		t.Errorf("after the damage: %d %s", w.Code, w.Body)
	}
	if n := s.Views(); n != 0 {
		t.Errorf("%d views are left", n)
	}
}

// TestDamageElsewhere: a node that has lost what a request reads has the others answer, one
// after another, as of its own position. If none can, the request fails as on a single node.
func TestDamageElsewhere(t *testing.T) {
	const lost = "points are missing in shard 7"
	loss := []scan.Loss{{Shard: 7, Range: model.TimeRange{Min: 0, Max: 200e9}, Path: "1.tsm"}}
	handlers, nodes, stores := make([]*httpapi.Handler, 3), make([]*fakeCluster, 3), make([]*scantest.Store, 3)
	for i := range nodes {
		s := scantest.New()
		s.Create("mydb", "autogen")
		s.Write(t, "mydb", "", "s", fmt.Sprintf("up,__name__=up,node=n%d value=1 100", i))
		s.Lost = loss
		nodes[i], stores[i] = &fakeCluster{leads: i == 1, position: uint64(10 + i)}, s
		names := newFakeStore()
		names.create("mydb")
		queries := query.New(query.Options{Storage: s, Admin: s, Into: func(context.Context, *result.IntoBatch) error { return nil }})
		handlers[i] = httpapi.New(httpapi.Options{
			Cluster: nodes[i], Query: queries, Writer: names, Limits: httpapi.Limits{PrometheusDatabase: "mydb"},
			PromQL: engine.New(engine.Options{Storage: s, Queries: queries.Queries()}), Health: degraded(true),
		})
		t.Cleanup(handlers[i].Close)
	}
	for i, n := range nodes {
		n.others = []http.Handler{handlers[(i+1)%3].Forwarded(), handlers[(i+2)%3].Forwarded()}
		n.leader = handlers[1].Forwarded()
	}
	ask := func(node int, method, path, params string) *httptest.ResponseRecorder {
		if method == "GET" {
			return serve(handlers[node], method, path+"?"+params, nil)
		}
		r := httptest.NewRequest(method, path, strings.NewReader(params))
		r.Header.Set("Content-Type", form)
		return serveRequest(handlers[node], r)
	}
	reads := map[string]string{
		"/query":         "db=mydb&q=SELECT+value,node+FROM+up",
		"/api/v1/query":  "query=up&time=110",
		"/api/v1/series": "match[]=up&start=0&end=150",
		"/api/v1/export": "match[]=up&start=0&end=150",
		"/api/v1/labels": "start=0&end=150&match[]=up",
	}
	asked := func(node int) string {
		return strings.ReplaceAll(strings.ReplaceAll(nodes[node].did(), "read, ", ""), ", read", "")
	}
	for path, params := range reads {
		for _, method := range []string{"GET", "POST"} {
			// All have the damage: the error is that of the node that was asked.
			w := ask(0, method, path, params)
			if status := map[bool]int{true: 200, false: 500}[path == "/query"]; w.Code != status || !strings.Contains(w.Body.String(), lost) || asked(0) != "ask 0, ask 1" {
				t.Errorf("%s %s, all damaged: %d %s", method, path, w.Code, w.Body)
			}
			if path == "/query" && !strings.Contains(w.Body.String(), `{"results":[{"statement_id":0,"error":"`+lost) {
				t.Errorf("%s %s, all damaged: %s", method, path, w.Body)
			}
			// The last one is sound: of two nodes, and of the leader.
			stores[2].Lost = nil
			for node, did := range map[int]string{0: "ask 0, ask 1", 1: "ask 0"} {
				_ = nodes[node].did()
				w := ask(node, method, path, params)
				if w.Code != 200 || strings.Contains(w.Body.String(), "missing") || path != "/api/v1/labels" && !strings.Contains(w.Body.String(), "n2") {
					t.Errorf("%s %s at %d: %d %s", method, path, node, w.Code, w.Body)
				}
				if got := asked(node); got != did || nodes[node].header.Get("X-Tsdbd-Position") != fmt.Sprint(10+node) {
					t.Errorf("%s %s at %d: %s, %v", method, path, node, got, nodes[node].header)
				}
			}
			if got := nodes[2].did(); strings.Contains(got, "ask") {
				t.Errorf("a sound node has done %s", got)
			}
			// What is left is answered here, and so is what a client marks by itself.
			if w := ask(0, method, path, params+"&partial=true"); w.Code != 200 || path != "/api/v1/labels" && !strings.Contains(w.Body.String(), "n0") || asked(0) != "read" {
				t.Errorf("%s %s, partial: %d %s", method, path, w.Code, w.Body)
			}
			stores[2].Lost = loss
			_ = nodes[1].did()
		}
	}
	stores[2].Lost = nil
	// A change is the leader's alone.
	if w := ask(1, "POST", "/query", "db=mydb&q=SELECT+value+INTO+x+FROM+up"); !strings.Contains(w.Body.String(), lost) || strings.Contains(nodes[1].did(), "ask") {
		t.Errorf("INTO: %d %s", w.Code, w.Body)
	}
	// A node that another one has asked asks nobody.
	r := httptest.NewRequest("GET", "/query?db=mydb&q=SELECT+value+FROM+up", nil)
	r.Header.Set("X-Tsdbd-Whole", "true")
	if w := serveRequest(handlers[1].Forwarded(), r); w.Code != 500 || strings.Contains(nodes[1].did(), "ask") {
		t.Errorf("forwarded: %d %s", w.Code, w.Body)
	}
	// The body of a remote read cannot be sent again: the leader gets it at once.
	stores[1].Lost = nil
	selector := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 200e3)
	selector = append(selector, member(3, append(member(2, []byte("__name__")), member(3, []byte("up"))...))...)
	message := string(snappy.Encode(nil, member(1, selector)))
	w := serveRequest(handlers[0], httptest.NewRequest("POST", "/api/v1/read", strings.NewReader(message)))
	if plain, err := snappy.Decode(nil, w.Body.Bytes()); w.Code != 200 || err != nil || !strings.Contains(string(plain), "n1") {
		t.Errorf("remote read: %d %v %q, %s", w.Code, err, w.Body, nodes[0].did())
	}
	for i, s := range stores {
		if n := s.Views(); n != 0 {
			t.Errorf("%d views of %d are left", n, i)
		}
	}
}
