package httpapi_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"tsdbd/httpapi"
	"tsdbd/internal/testkit/script"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan/scantest"
	"tsdbd/prom/engine"
	"tsdbd/query/admission"
)

// promServer returns a handler with Prometheus' API over an empty database mydb with
// the policies autogen and other.
func promServer(t *testing.T, opt httpapi.Options, limits admission.Limits) (*httpapi.Handler, *scantest.Store) {
	t.Helper()
	s := scantest.New()
	s.Create("mydb", "autogen")
	s.Create("mydb", "other")
	opt.PromQL = engine.New(engine.Options{
		Storage: s, Memory: opt.Memory, Queries: admission.NewQueries(limits, opt.Memory, slog.New(slog.DiscardHandler)),
	})
	names := newFakeStore()
	names.create("mydb")
	opt.Writer, opt.Query = names, names
	h := httpapi.New(opt)
	t.Cleanup(h.Close)
	return h, s
}

// TestPrometheusScripts runs the scripts of testdata/prometheus. They show what the
// API answers, for readers.
//
// The commands:
//
//	load [RP]          writes the lines of line protocol that follow, times in seconds
//	get PATH           asks with the parameters that follow, one on a line
//	post PATH          does so with a form
//	default DATABASE   sets prometheus.database
//
// The database is mydb, and names its policies autogen and other. Parameters need no escapes.
func TestPrometheusScripts(t *testing.T) {
	script.Run(t, "testdata/prometheus/*.txt", func(t *testing.T) func(script.Command) []string {
		h, s := promServer(t, httpapi.Options{Limits: httpapi.Limits{PrometheusDatabase: "mydb"}}, admission.Limits{})
		return func(c script.Command) []string {
			switch c.Name {
			case "load":
				rp := "autogen"
				if len(c.Args) > 0 {
					rp = c.Args[0]
				}
				s.Write(t, "mydb", rp, "s", strings.Join(c.Input, "\n"))
				return nil
			case "default":
				h.SetLimits(httpapi.Limits{PrometheusDatabase: c.Args[0]})
				return nil
			case "get", "post":
				form := url.Values{}
				for _, line := range c.Input {
					name, value, _ := strings.Cut(line, "=")
					form.Add(name, value)
				}
				return promAsk(h, c.Name, c.Args[0], form)
			}
			t.Fatalf("unknown command %q", c.Name)
			return nil
		}
	})
}

// promAsk asks and returns the status, what is special in the header, and the body.
func promAsk(h http.Handler, method, path string, form url.Values) []string {
	r := httptest.NewRequest("GET", path+"?"+form.Encode(), nil)
	if method == "post" {
		r = httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := serveRequest(h, r)
	first := fmt.Sprint(w.Code)
	if kind := w.Header().Get("Content-Type"); kind != "application/json" {
		first = strings.TrimSpace(first + " " + kind)
	}
	// A series and a point of a document is on a line of its own.
	body := strings.NewReplacer(`{"metric"`, "\n  {\"metric\"", `,{"__name__"`, ",\n  {\"__name__\"").Replace(strings.TrimRight(w.Body.String(), "\n"))
	if body == "" {
		return []string{first}
	}
	return append([]string{first}, strings.Split(body, "\n")...)
}

// TestPrometheusRights holds who may ask, and that refusals have Prometheus' form.
func TestPrometheusRights(t *testing.T) {
	users, _, opt := withUsers(t)
	users.apply(t, meta.CreateDatabase{Name: "mydb"})
	users.apply(t, meta.SetPrivilege{Name: "ann", Database: "mydb", Privilege: meta.ReadPrivilege})
	h, s := promServer(t, opt, admission.Limits{})
	s.Create("db", "autogen")
	f := func(user, path string, status int, want string) {
		t.Helper()
		login := ""
		if user != "" {
			login = "&u=" + user + "&p=" + user + "pw"
		}
		w := serve(h, "GET", path+login, nil)
		if got := w.Body.String(); w.Code != status || !strings.Contains(got, want) {
			t.Errorf("%s %s:\n got %d %s\nwant %d %s", user, path, w.Code, got, status, want)
		}
		if status == 401 && w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s asks for no login", path)
		}
	}
	f("", "/api/v1/query?query=m&db=mydb", 401, `{"status":"error","errorType":"unauthorized","error":"unable to parse authentication credentials"}`)
	f("ann", "/api/v1/query?query=m&db=mydb", 200, `{"status":"success"`)
	f("ann", "/prometheus/mydb/api/v1/query?query=m", 200, `{"status":"success"`)
	for _, path := range []string{
		"/api/v1/query?query=1", "/api/v1/query_range?query=1&start=0&end=1&step=1", "/api/v1/query_exemplars?query=m",
		"/api/v1/series?match[]=m", "/api/v1/labels?", "/api/v1/label/a/values?",
	} {
		// The user may write to db, and the default database is prometheus.
		f("ann", path+"&db=db", 403, `{"status":"error","errorType":"forbidden","error":"\"ann\" user is not authorized to read from database \"db\""}`)
		f("ann", "/prometheus/db"+path+"&db=mydb", 403, `not authorized to read from database \"db\"`)
		f("ann", path, 403, `not authorized to read from database \"prometheus\"`)
		f("root", path, 200, `{"status":"success"`)
	}
	f("", "/federate?match[]=m&db=mydb", 401, "unable to parse authentication credentials\n")
	f("ann", "/federate?match[]=m&db=mydb", 200, "")
	f("ann", "/prometheus/mydb/other/federate?match[]=m", 200, "")
	f("ann", "/prometheus/mydb/none/federate?match[]=m", 404, "retention policy not found: none\n")
	f("ann", "/prometheus/mydb/federate?match[]=-m", 400, "1:1: parse error: unexpected <op:->\n")
	f("ann", "/federate?match[]=m&db=db", 403, "\"ann\" user is not authorized to read from database \"db\"\n")
	f("ann", "/prometheus/db/federate?match[]=m&db=mydb", 403, "not authorized to read from database \"db\"\n")
	f("ann", "/federate?match[]=m", 403, "not authorized to read from database \"prometheus\"\n")
	f("ann", "/api/v1/status/buildinfo?", 200, `"version":"3.`)
	f("", "/api/v1/status/buildinfo?", 401, `unauthorized`)
}

// TestPrometheusLimits holds the statuses of what ends a query, and that queries of
// this API are queries like others.
func TestPrometheusLimits(t *testing.T) {
	memory := admission.NewMemory(1 << 20)
	h, s := promServer(t, httpapi.Options{Memory: memory, Limits: httpapi.Limits{PrometheusDatabase: "mydb"}}, admission.Limits{MemoryBytes: 200_000, QueryTimeout: time.Hour})
	for i := range 100 {
		s.Write(t, "mydb", "autogen", "s", fmt.Sprintf("m,i=%d value=1 60", i))
	}
	f := func(params string, status int, want string) {
		t.Helper()
		w := serve(h, "GET", "/api/v1/query_range?start=0&end=3600&step=1&query="+params, nil)
		if got := w.Body.String(); w.Code != status || !strings.HasPrefix(got, want) {
			t.Errorf("%s:\n got %d %.300s\nwant %d %s", params, w.Code, got, status, want)
		}
		if (status == 503) != (w.Header().Get("Retry-After") != "") {
			t.Errorf("%s: Retry-After %q", params, w.Header().Get("Retry-After"))
		}
	}
	f("m%2Btime()", 422, `{"status":"error","errorType":"execution","error":"query memory limit exceeded: needs more than 200000 bytes"}`)
	f("m&timeout=0", 503, `{"status":"error","errorType":"timeout","error":"query timed out in `)
	f("vector(1)", 200, `{"status":"success"`)
	if n := memory.Used(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}

// TestPrometheusOverConnections holds what only a connection shows: compression, CORS,
// the end of a query when its client goes away, and memory that a client which does
// not read gives back.
func TestPrometheusOverConnections(t *testing.T) {
	memory := admission.NewMemory(64 << 20)
	queries := admission.NewQueries(admission.Limits{}, memory, slog.New(slog.DiscardHandler))
	s := scantest.New()
	s.Create("prometheus", "autogen")
	for i := range 200 {
		s.Write(t, "prometheus", "autogen", "s", fmt.Sprintf("m,i=%d value=%d 60", i, i))
	}
	store := newFakeStore()
	_, base := start(t, store, httpapi.Options{
		Memory: memory, AllowedOrigins: []string{"https://grafana.example"},
		PromQL: engine.New(engine.Options{Storage: s, Queries: queries, Memory: memory}),
	})
	a := do(t, "GET", base+"/api/v1/query?query=m&time=60", "", "Accept-Encoding", "gzip", "Origin", "https://grafana.example")
	zip, err := gzip.NewReader(strings.NewReader(a.body))
	if err != nil || a.header.Get("Content-Encoding") != "gzip" || a.header.Get("Access-Control-Allow-Origin") != "https://grafana.example" {
		t.Fatalf("%v %+v", err, a.header)
	}
	if b, err := io.ReadAll(zip); err != nil || !json.Valid(b) {
		t.Errorf("%v %.100s", err, b)
	}
	if a := do(t, "OPTIONS", base+"/prometheus/x/api/v1/query", "", "Origin", "https://grafana.example"); a.status != 200 || a.header.Get("Access-Control-Allow-Methods") == "" {
		t.Errorf("OPTIONS: %d %v", a.status, a.header)
	}
	// An answer of more than what connections buffer.
	long := "GET /api/v1/query_range?query=m&start=60&end=359&step=0.03&db=prometheus HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, how := range []string{"disconnect", "kill"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, long); err != nil {
			t.Fatal(err)
		}
		var running []admission.Running
		for begin := time.Now(); len(running) == 0 || running[0].Took < 200*time.Millisecond; time.Sleep(time.Millisecond) {
			if running = queries.List(); time.Since(begin) > time.Minute {
				t.Fatalf("the query does not wait for its client: %+v", running)
			}
		}
		if running[0].Text != "m" || running[0].Database != "prometheus" {
			t.Errorf("running: %+v", running)
		}
		switch how {
		case "disconnect":
			err = conn.Close()
		case "kill":
			err = queries.Kill(running[0].ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		for begin := time.Now(); len(queries.List()) > 0 || memory.Used() > 0; time.Sleep(time.Millisecond) {
			if time.Since(begin) > 45*time.Second {
				t.Fatalf("%s: %d bytes are held by %+v", how, memory.Used(), queries.List())
			}
		}
	}
}

// TestPrometheusInACluster holds that a strong read goes to a node that is not behind,
// and errors of the cluster have Prometheus' form.
func TestPrometheusInACluster(t *testing.T) {
	c := &fakeCluster{position: 7}
	h, _ := promServer(t, httpapi.Options{Cluster: c, Limits: httpapi.Limits{PrometheusDatabase: "mydb", PositionWait: time.Millisecond}}, admission.Limits{})
	form := "query=m&consistency=strong"
	r := httptest.NewRequest("POST", "/prometheus/mydb/api/v1/query", strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if w := serveRequest(h, r); w.Code != 200 || fmt.Sprint(c.calls) != "[strong read]" || w.Header().Get("X-Tsdbd-Position") != "7" {
		t.Errorf("%d %s %v %v", w.Code, w.Body, c.calls, w.Header())
	}
	leader, _ := promServer(t, httpapi.Options{Limits: httpapi.Limits{PrometheusDatabase: "mydb"}}, admission.Limits{})
	c.calls, c.behind, c.leader = nil, true, leader
	r = httptest.NewRequest("POST", "/prometheus/mydb/api/v1/query", strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if w := serveRequest(h, r); w.Code != 200 || fmt.Sprint(c.calls) != "[strong read forward]" || c.body != form {
		t.Errorf("%d %s %v %q", w.Code, w.Body, c.calls, c.body)
	}
	c.behind = false
	r = httptest.NewRequest("GET", "/api/v1/labels", nil)
	r.Header.Set("X-Tsdbd-Position", "8")
	if w := serveRequest(h, r); w.Code != 503 || !strings.HasPrefix(w.Body.String(), `{"status":"error","errorType":"unavailable","error":"this node has not caught up within`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := serve(h, "GET", "/api/v1/query?query=1&consistency=most", nil); w.Code != 400 || !strings.Contains(w.Body.String(), `"bad_data","error":"invalid consistency level"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestPrometheusLongTexts refuses queries and selectors that are longer than a query may
// be, and layouts that would take minutes.
func TestPrometheusLongTexts(t *testing.T) {
	h, s := promServer(t, httpapi.Options{}, admission.Limits{})
	s.Create("prometheus", "autogen")
	f := func(path, name, text string, status int, want string) {
		t.Helper()
		w := serve(h, "GET", path+"?start=0&end=1&step=1&"+name+"="+url.QueryEscape(text), nil)
		if got := w.Body.String(); w.Code != status || !strings.Contains(got, want) {
			t.Errorf("%s %.20s: %d %.300s", path, text, w.Code, got)
		}
	}
	for text, status := range map[string]int{
		strings.Repeat("sum(", 60) + "m" + strings.Repeat(")", 60):     200,
		strings.Repeat("sum(", 3000) + "m" + strings.Repeat(")", 3000): 400,
		"m" + strings.Repeat("+m", 100):                                200,
		"m" + strings.Repeat("+m", 4000):                               400,
		"m{" + strings.Repeat(`i!="1",`, 2000) + "}":                   200,
	} {
		want := map[int]string{200: `"status":"success"`, 400: "is too large to be formatted"}
		f("/api/v1/format_query", "query", text, status, want[status])
		f("/api/v1/parse_query", "query", text, 200, want[200])
	}
	h.SetLimits(httpapi.Limits{MaxQuerySize: 20})
	for _, path := range []string{"query", "query_range", "query_exemplars", "format_query", "parse_query"} {
		f("/api/v1/"+path, "query", `m{i="12345678901"}`, 200, `"status":"success"`)
		f("/api/v1/"+path, "query", `m{i="1234567890123456"}`, 400, `"errorType":"bad_data","error":"error parsing query: query is too long"`)
	}
	for _, path := range []string{"series", "labels", "label/i/values", "export"} {
		f("/api/v1/"+path, "match[]", `m{i="12345678901"}`, 200, "")
		f("/api/v1/"+path, "match[]", `m{i="1234567890123456"}`, 400, "query is too long")
	}
}

// FuzzPrometheus sends any parameters: the answer is a document, and never a failure
// of ours.
func FuzzPrometheus(f *testing.F) {
	for _, seed := range [][2]string{
		{"query", "query=m&time=60"},
		{"query_range", "query=rate(m[5m])&start=0&end=100&step=7&limit=2&stats=all"},
		{"series", "match[]=m&match[]={i=~\"1|2\"}&start=1&end=2"},
		{"labels", "match[]=m&limit=1"},
		{"label/i/values", "start=1970-01-01T00:00:00Z"},
		{"format_query", "query=m"},
		{"parse_query", "query=sum by(a)(m@start() offset -5m)"},
		{"query_exemplars", "query=m&start=5"},
		{"query", "query=max_over_time(m[1h:1ms])&timeout=1&lookback_delta=1d"},
		{"query_range", "query=count_values('a',m)&start=-1e9&end=-1&step=1e6"},
	} {
		f.Add(seed[0], seed[1])
	}
	memory := admission.NewMemory(16 << 20)
	s := scantest.New()
	s.Create("prometheus", "autogen")
	s.Put("prometheus", "autogen", "m,i=1", 60e9, map[string]scantest.Value{"value": {Type: model.Float, Bits: math.Float64bits(1.5)}})
	s.Put("prometheus", "autogen", "m,i=2", 61e9, map[string]scantest.Value{"value": {Type: model.Float, Bits: math.Float64bits(-2)}})
	store := newFakeStore()
	h := httpapi.New(httpapi.Options{Writer: store, Query: store, Memory: memory, Logger: slog.New(slog.DiscardHandler), PromQL: engine.New(engine.Options{
		Storage: s, Memory: memory, Queries: admission.NewQueries(admission.Limits{MemoryBytes: 4 << 20, QueryTimeout: 5 * time.Second}, memory, slog.New(slog.DiscardHandler)),
	})})
	f.Cleanup(h.Close)
	f.Fuzz(func(t *testing.T, path, params string) {
		r, err := http.NewRequest("GET", "/api/v1/"+path+"?"+params, nil)
		if err != nil {
			return
		}
		w := serveRequest(h, r)
		switch {
		case w.Code == 204 || w.Header().Get("Content-Type") != "application/json":
			return // of a path that is not there
		case w.Code >= 500 && w.Code != 503:
			t.Errorf("%s %s: %d %s", path, params, w.Code, w.Body)
		}
		var d struct{ Status, ErrorType, Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || (d.Status == "success") != (w.Code == 200) || (d.Error == "") != (w.Code == 200) {
			t.Errorf("%s %s: %d %v %s", path, params, w.Code, err, w.Body)
		}
		if n := memory.Used(); n != 0 {
			t.Errorf("%s %s: %d bytes stay charged", path, params, n)
		}
	})
}

// Prometheus' API refuses a form that it cannot read in full: what it left out may be
// the database or a selector.
func TestPrometheusMalformedForm(t *testing.T) {
	h, s := promServer(t, httpapi.Options{Limits: httpapi.Limits{PrometheusDatabase: "mydb"}}, admission.Limits{})
	s.Write(t, "mydb", "autogen", "s", "m value=1 10")
	many := url.Values{"db": {"mydb"}}
	for i := range 11_000 {
		many.Add("match[]", fmt.Sprintf("none%d", i))
	}
	for _, tt := range []struct{ path, form string }{
		{"/api/v1/labels?db=%zz", ""},
		{"/api/v1/query?query=m&db=other;x=1", ""},
		{"/api/v1/labels", many.Encode()},
		{"/api/v1/query", "query=m&db=%zz"},
		{"/api/v1/write?db=%zz", "x"},
		{"/api/v1/import?db=%zz", "x"},
		{"/api/v1/otlp/v1/metrics?db=%zz", "x"},
	} {
		r := httptest.NewRequest("GET", tt.path, nil)
		if tt.form != "" {
			r = httptest.NewRequest("POST", tt.path, strings.NewReader(tt.form))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if strings.Contains(tt.path, "?db=%zz") {
				r.Header.Set("Content-Type", "application/x-protobuf") // the body is no form
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 400 || !strings.Contains(w.Body.String(), "error parsing form values: ") {
			t.Errorf("%s %.40s: %d %.200s", tt.path, tt.form, w.Code, w.Body)
		}
	}
}
