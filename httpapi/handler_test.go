package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"tsdbd/httpapi"
	"tsdbd/httpapi/listener"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query"
	"tsdbd/query/result"
)

func TestServiceRoutes(t *testing.T) {
	_, base := start(t, newFakeStore(), httpapi.Options{Version: "7.7.7"})
	f := func(method, path string, status int, body string) http.Header {
		t.Helper()
		a := do(t, method, base+path, "")
		if a.status != status || a.body != body {
			t.Errorf("%s %s: %d %q, want %d %q", method, path, a.status, a.body, status, body)
		}
		if v := a.header.Get("X-Influxdb-Version"); v != httpapi.InfluxVersion {
			t.Errorf("X-Influxdb-Version %q", v)
		}
		if a.header.Get("X-Influxdb-Build") != "OSS" || a.header.Get("X-Tsdbd-Version") != "7.7.7" {
			t.Errorf("headers %v", a.header)
		}
		return a.header
	}
	f("GET", "/ping", 204, "")
	f("HEAD", "/ping?wait_for_leader=5s", 204, "")
	f("GET", "/ping?verbose=0", 204, "")
	f("GET", "/ping?verbose=false", 204, "")
	f("GET", "/ping?verbose=true", 200, `{"tsdbd":"7.7.7","version":"`+httpapi.InfluxVersion+`"}`+"\n")
	f("GET", "/status", 204, "")
	f("HEAD", "/status", 204, "")
	f("GET", "/health", 200, `{"checks":[],"message":"ready for queries and writes","name":"influxdb","status":"pass","tsdbd":"7.7.7","version":"`+httpapi.InfluxVersion+`"}`+"\n")
	if h := f("PUT", "/write", 405, "Method Not Allowed\n"); h.Get("Allow") != "OPTIONS, POST" || h.Get("X-Request-Id") != "" {
		t.Errorf("headers of a 405: %v", h)
	}
	if h := f("PUT", "/query", 405, "Method Not Allowed\n"); h.Get("Allow") != "GET, OPTIONS, POST" {
		t.Errorf("headers of a 405: %v", h)
	}
	if h := f("GET", "/nosuch", 404, "404 page not found\n"); h.Get("X-Request-Id") != "" || !strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		t.Errorf("headers of a 404: %v", h)
	}
}

func TestRequestIDs(t *testing.T) {
	_, base := start(t, newFakeStore(), httpapi.Options{})
	generated := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	f := func(name, id string, kept bool) {
		t.Helper()
		a := do(t, "GET", base+"/ping", "", name, id)
		got := a.header.Get("X-Request-Id")
		if got != a.header.Get("Request-Id") || (got == id) != kept || (!kept && !generated.MatchString(got)) {
			t.Errorf("%s %q: got %q", name, id, got)
		}
	}
	f("X-Request-Id", "abc-1", true)
	f("Request-Id", "ABC-99", true)
	f("X-Request-Id", "", false)
	f("X-Request-Id", "a b", false)
	f("X-Request-Id", `a"b`, false)
	f("X-Request-Id", strings.Repeat("a", 64), true)
	f("X-Request-Id", strings.Repeat("a", 65), false)
	first := do(t, "GET", base+"/ping", "")
	second := do(t, "GET", base+"/ping", "")
	if first.header.Get("X-Request-Id") == second.header.Get("X-Request-Id") {
		t.Error("the same id twice")
	}
}

func TestCrossOrigin(t *testing.T) {
	_, base := start(t, newFakeStore(), httpapi.Options{})
	for _, path := range []string{"/query", "/ping"} {
		if a := do(t, "OPTIONS", base+path, "", "Origin", "http://grafana:3000"); a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: a page of any origin may use the API: %v", path, a.header)
		}
	}
	_, base = start(t, newFakeStore(), httpapi.Options{AllowedOrigins: []string{"*"}})
	if a := do(t, "GET", base+"/ping", "", "Origin", "null"); a.header.Get("Access-Control-Allow-Origin") != "null" {
		t.Errorf("all are allowed: %v", a.header)
	}
	_, base = start(t, newFakeStore(), httpapi.Options{AllowedOrigins: []string{"http://a", "http://grafana:3000"}})
	if a := do(t, "GET", base+"/ping", "", "Origin", "http://grafana:3001"); a.header.Get("Access-Control-Allow-Origin") != "" || a.header.Get("Vary") != "Origin" {
		t.Errorf("another port: %v", a.header)
	}
	a := do(t, "OPTIONS", base+"/query", "", "Origin", "http://grafana:3000")
	if a.status != 200 || a.body != "" || a.header.Get("Access-Control-Allow-Origin") != "http://grafana:3000" ||
		!strings.Contains(a.header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight: %d %q %v", a.status, a.body, a.header)
	}
	if a := do(t, "GET", base+"/ping", ""); a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("answer to the same origin allows origins")
	}
}

type badHealth struct{}

func (badHealth) Health() (bool, string) { return false, "read-only: disk failed" }
func (badHealth) Degraded() bool         { return false }

type wellness string

func (w wellness) Health() (bool, string) { return true, string(w) }
func (w wellness) Degraded() bool         { return false }

type degraded bool

func (d degraded) Health() (bool, string) { return true, "degraded: a file is in quarantine" }
func (d degraded) Degraded() bool         { return bool(d) }

// TestDegraded: damage is a 200 for those who ask whether the server does its work, and a
// 503 for those who ask where no query fails.
func TestDegraded(t *testing.T) {
	for damaged, want := range map[bool]int{true: 503, false: 200} {
		_, base := start(t, newFakeStore(), httpapi.Options{Health: degraded(damaged)})
		if a := do(t, "GET", base+"/health", ""); a.status != 200 || !strings.Contains(a.body, `"message":"degraded: `) {
			t.Errorf("damaged %v: %d %s", damaged, a.status, a.body)
		}
		if a := do(t, "GET", base+"/health?damage", ""); a.status != want {
			t.Errorf("damaged %v: ?damage: %d %s", damaged, a.status, a.body)
		}
	}
}

func TestHealthTellsTheStore(t *testing.T) {
	_, base := start(t, newFakeStore(), httpapi.Options{Health: badHealth{}})
	a := do(t, "GET", base+"/health", "")
	if a.status != 503 || !strings.Contains(a.body, `"message":"read-only: disk failed"`) || !strings.Contains(a.body, `"status":"fail"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func squeeze(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.String()
}

func TestWritesAreStored(t *testing.T) {
	const body = "m,host=a v=1.5,s=\"x\" 10\nm,host=b v=2 20\n"
	for name, c := range map[string]struct {
		path, body string
		header     []string
	}{
		"plain":           {"/write?db=d&precision=s", body, nil},
		"named policy":    {"/write?db=d&rp=autogen&precision=s&consistency=one&u=x&p=y", body, nil},
		"empty values":    {"/write?db=d&rp=&consistency=&precision=s", body, nil},
		"gzip":            {"/write?db=d&precision=s", squeeze(body), []string{"Content-Encoding", "gzip"}},
		"x-gzip":          {"/write?db=d&precision=s", squeeze(body), []string{"Content-Encoding", "x-gzip"}},
		"any type":        {"/write?db=d&precision=s", body, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		"v2":              {"/api/v2/write?bucket=d&org=o&precision=s", body, []string{"Authorization", "Token "}},
		"v2 with policy":  {"/api/v2/write?bucket=d/autogen&precision=s", body, nil},
		"v2 empty policy": {"/api/v2/write?bucket=d/&precision=s", squeeze(body), []string{"Content-Encoding", "gzip"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFakeStore()
			s.create("d")
			_, base := start(t, s, httpapi.Options{})
			a := do(t, "POST", base+c.path, c.body, c.header...)
			if a.status != 204 || a.body != "" {
				t.Fatalf("%d %s", a.status, a.body)
			}
			want := fmt.Sprintln("d", map[string]bool{"autogen": true}, s.databases["d"].types, map[string]uint64{
				"m,host=a v 10000000000": 0x3ff8000000000000, "m,host=a s 10000000000": column.StringWord(0, 1),
				"m,host=b v 20000000000": 0x4000000000000000,
			})
			if got := s.fingerprint(); got != want {
				t.Errorf("stored %s, want %s", got, want)
			}
		})
	}
}

func TestBodiesWithoutALength(t *testing.T) {
	s := newFakeStore()
	s.create("d")
	_, base := start(t, s, httpapi.Options{})
	r, w := io.Pipe()
	go func() {
		for i := range 1000 {
			fmt.Fprintf(w, "m v=%d %d\n", i, i)
		}
		_ = w.Close()
	}()
	resp, err := http.Post(base+"/write?db=d", "text/plain", r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 204 || len(s.databases["d"].values) != 1000 {
		t.Errorf("%d, %d values", resp.StatusCode, len(s.databases["d"].values))
	}
}

func TestEmptyBodiesAre204(t *testing.T) {
	s := newFakeStore()
	s.create("d")
	_, base := start(t, s, httpapi.Options{})
	for name, body := range map[string]string{"empty": "", "blank": "\n\n  \n", "comments": "# a\n# b"} {
		if a := do(t, "POST", base+"/write?db=d", body); a.status != 204 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if a := do(t, "POST", base+"/write?db=d", squeeze(body), "Content-Encoding", "gzip"); a.status != 204 {
			t.Errorf("%s, compressed: %d %s", name, a.status, a.body)
		}
	}
	if a := do(t, "POST", base+"/write?db=d", "", "Content-Encoding", "gzip"); a.status != 204 {
		t.Errorf("empty, said to be compressed: %d %s", a.status, a.body)
	}
}

func TestConcurrentWritesAreBounded(t *testing.T) {
	s := newFakeStore()
	s.create("d")
	entered, leave := make(chan struct{}), make(chan struct{})
	s.writing = func() { entered <- struct{}{}; <-leave }
	_, base := start(t, s, httpapi.Options{Limits: httpapi.Limits{MaxConcurrentWrites: 1}})
	done := make(chan answer)
	go func() { done <- do(t, "POST", base+"/write?db=d", "m v=1 1") }()
	<-entered
	a := do(t, "POST", base+"/write?db=d", "m v=2 2")
	if a.status != 503 || a.header.Get("Retry-After") == "" || a.body != `{"error":"request throttled, queue full"}`+"\n" {
		t.Errorf("%d %q %v", a.status, a.body, a.header)
	}
	// Remote write is bounded by the same.
	if a := do(t, "POST", base+"/api/v1/prom/write?db=d", ""); a.status != 503 {
		t.Errorf("remote write: %d %q", a.status, a.body)
	}
	close(leave)
	if a := <-done; a.status != 204 {
		t.Errorf("first write: %d", a.status)
	}
}

func TestWritesWaitForTheirTurn(t *testing.T) {
	s := newFakeStore()
	s.create("d")
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	s.writing = func() { entered <- struct{}{}; <-leave }
	_, base := start(t, s, httpapi.Options{Limits: httpapi.Limits{MaxConcurrentWrites: 1, MaxWaitingWrites: 1, WriteWait: time.Hour}})
	done := make(chan answer)
	for range 3 { // one goes on, one waits, one is refused
		go func() { done <- do(t, "POST", base+"/write?db=d", "m v=1 1") }()
	}
	if a := <-done; a.status != 503 || a.body != `{"error":"request throttled, queue full"}`+"\n" {
		t.Errorf("%d %q", a.status, a.body)
	}
	close(leave)
	for range 2 {
		if a := <-done; a.status != 204 {
			t.Errorf("%d %q", a.status, a.body)
		}
	}

	s = newFakeStore()
	s.create("d")
	leave = make(chan struct{})
	s.writing = func() { entered <- struct{}{}; <-leave }
	_, base = start(t, s, httpapi.Options{Limits: httpapi.Limits{MaxConcurrentWrites: 1, MaxWaitingWrites: 1, WriteWait: time.Millisecond}})
	<-entered
	<-entered
	go func() { done <- do(t, "POST", base+"/write?db=d", "m v=1 1") }()
	<-entered
	if a := do(t, "POST", base+"/write?db=d", "m v=1 1"); a.status != 503 || a.header.Get("Retry-After") == "" || a.body != `{"error":"request throttled, exceeds timeout"}`+"\n" {
		t.Errorf("%d %q", a.status, a.body)
	}
	close(leave)
	if a := <-done; a.status != 204 {
		t.Errorf("%d %q", a.status, a.body)
	}
}

func TestBodyMemoryIsBounded(t *testing.T) {
	s := newFakeStore()
	s.create("d")
	entered, leave := make(chan struct{}, 10), make(chan struct{})
	s.writing = func() { entered <- struct{}{}; <-leave }
	_, base := start(t, s, httpapi.Options{Limits: httpapi.Limits{MaxBodyMemory: 15_000}})
	large := strings.Repeat("m v=1 1\n", 1250) // 10,000 bytes
	done := make(chan answer)
	go func() { done <- do(t, "POST", base+"/write?db=d", large) }()
	<-entered
	for name, header := range map[string][]string{large: nil, squeeze(large): {"Content-Encoding", "gzip"}} {
		a := do(t, "POST", base+"/write?db=d", name, header...)
		if a.status != 503 || a.header.Get("Retry-After") == "" || a.body != `{"error":"too many requests with large bodies"}`+"\n" {
			t.Errorf("%d %q", a.status, a.body)
		}
	}
	close(leave)
	if a := <-done; a.status != 204 {
		t.Errorf("first write: %d", a.status)
	}
	if a := do(t, "POST", base+"/write?db=d", large); a.status != 204 {
		t.Errorf("afterwards: %d %s", a.status, a.body)
	}
	// What never fits is not to come again and again.
	huge := strings.Repeat(large, 2)
	for name, header := range map[string][]string{huge: nil, squeeze(huge): {"Content-Encoding", "gzip"}} {
		if a := do(t, "POST", base+"/write?db=d", name, header...); a.status != 413 || a.header.Get("Retry-After") != "" {
			t.Errorf("more than all of the memory: %d %q", a.status, a.body)
		}
	}
}

func TestQueryParametersByEveryWay(t *testing.T) {
	s := newFakeStore()
	_, base := start(t, s, httpapi.Options{})
	form := []string{"Content-Type", "application/x-www-form-urlencoded"}
	all := "db=d&rp=r&epoch=s&chunked=true&chunk_size=7&q=SELECT+v+FROM+m"
	multi := "--b\r\nContent-Disposition: form-data; name=\"q\"; filename=\"q.txt\"\r\n\r\nSELECT v FROM m\r\n--b--\r\n"
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		warns              bool
	}{
		"GET":            {"GET", "/query?" + all, "", nil, true},
		"GET gzip":       {"GET", "/query?" + all, "", []string{"Content-Encoding", "gzip"}, true},
		"POST URL":       {"POST", "/query?" + all, "", nil, false},
		"POST no type":   {"POST", "/query?" + all, "", []string{"Content-Type", ""}, false},
		"POST form":      {"POST", "/query", all, form, false},
		"POST mixed":     {"POST", "/query?db=d&rp=r&epoch=s", "q=SELECT+v+FROM+m&chunked=true&chunk_size=7", form, false},
		"POST gzip form": {"POST", "/query", squeeze(all), append(form, "Content-Encoding", "gzip"), false},
		"POST broken":    {"POST", "/query?" + all, "x", []string{"Content-Type", "multipart/form-data"}, false},
		"POST not form":  {"POST", "/query?" + all, "q=x", []string{"Content-Type", ";;;"}, false},
		"GET long":       {"GET", "/query?" + all + "&x=" + strings.Repeat("x", 200<<10), "", nil, true},
		"POST file":      {"POST", "/query?db=d&rp=r&chunked=true&chunk_size=7", multi, []string{"Content-Type", "multipart/form-data; boundary=b"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s.options = query.ExecuteOptions{}
			a := do(t, c.method, base+c.path, c.body, c.header...)
			if a.status != 200 || a.body != `{"results":[{"statement_id":0}]}`+"\n" {
				t.Fatalf("%d %s", a.status, a.body)
			}
			got := s.options
			if got.Database != "d" || got.RetentionPolicy != "r" || got.ChunkSize != 7 || got.WarnOfChanges != c.warns || got.Text() != "SELECT v FROM m" {
				t.Errorf("options %+v", got)
			}
		})
	}
	for _, size := range []string{"0", "-1", "x", ""} {
		do(t, "GET", base+"/query?q=SHOW+DATABASES&chunked=true&chunk_size="+size, "")
		if s.options.ChunkSize != 10_000 {
			t.Errorf("chunk_size=%s: %d", size, s.options.ChunkSize)
		}
	}
	for _, empty := range []string{"&rp=&epoch=&db=&params=", "&params=null", "&params={}"} {
		if a := do(t, "GET", base+"/query?q=SELECT+v+FROM+m"+empty, ""); a.status != 200 {
			t.Errorf("%s: %d %s", empty, a.status, a.body)
		}
	}
	for _, q := range []string{";;;", "-- only a comment"} {
		if a := do(t, "GET", base+"/query?q="+url.QueryEscape(q), ""); a.status != 200 || a.body != "{}\n" {
			t.Errorf("%s: %d %s", q, a.status, a.body)
		}
	}
}

// oneTable answers every SELECT with a small table.
func oneTable(_ context.Context, emit func(*result.Result) error) error {
	return emit(&result.Result{Series: []*result.Series{{
		Name: "m", Columns: []string{"time", "v"}, Rows: 1, Time: 0,
		Values: []column.Vector{{Type: model.Integer, Ints: []int64{-1500000}}, {Type: model.Float, Floats: []float64{1.5}}},
	}}})
}

func TestFormatsAndTimes(t *testing.T) {
	s := newFakeStore()
	s.execute = oneTable
	_, base := start(t, s, httpapi.Options{})
	f := func(more, accept, kind, body string) {
		t.Helper()
		a := do(t, "GET", base+"/query?q=SELECT+v+FROM+m"+more, "", "Accept", accept)
		if a.status != 200 || a.header.Get("Content-Type") != kind || a.body != body {
			t.Errorf("%s %s: %d %s %q, want %q", more, accept, a.status, a.header.Get("Content-Type"), a.body, body)
		}
	}
	doc := func(time string) string {
		return `{"results":[{"statement_id":0,"series":[{"name":"m","columns":["time","v"],"values":[[` + time + `,1.5]]}]}]}` + "\n"
	}
	const text = `"1969-12-31T23:59:59.9985Z"`
	f("", "", "application/json", doc(text))
	f("&time_format=epoch", "", "application/json", doc("-1500000"))
	f("&epoch=ms&time_format=rfc3339", "", "application/json", doc(text))
	f("&epoch=ms&time_format=epoch", "", "application/json", doc("-1"))
	f("&epoch=u", "", "application/json", doc("-1500"))
	f("&epoch=ns", "", "application/json", doc("-1500000"))
	f("&epoch=x", "", "application/json", doc("-1500000"))
	f("&epoch=s", "*/*", "application/json", doc("0"))
	f("&epoch=s", "application/*", "application/json", doc("0"))
	f("&epoch=s", "garbage", "application/json", doc("0"))
	const table = "name,tags,time,v\nm,,-1500000,1.5\n"
	f("", "application/csv", "application/csv", table)
	f("", "text/csv", "text/csv", table)
	f("", "text/*", "text/csv", table)
	f("", "text/csv, application/json", "text/csv", table)
	f("", "application/json;q=0.5, text/csv;q=0.9", "text/csv", table)
	f("&epoch=ms", "text/csv", "text/csv", "name,tags,time,v\nm,,-1,1.5\n")
	f("&time_format=rfc3339&epoch=ms", "text/csv", "text/csv", "name,tags,time,v\nm,,1969-12-31T23:59:59.9985Z,1.5\n")
	f("&epoch=s", "application/line-protocol", "application/line-protocol", "m v=1.5 -1500000\n")
	const packed = "\x81\xa7results\xdd\x00\x00\x00\x01\x82\xacstatement_id\x00\xa6series\xdd\x00\x00\x00\x01\x83\xa4name\xa1m\xa7columns\x92\xa4time\xa1v\xa6values\xdd\x00\x00\x00\x01\x92"
	f("&epoch=ms", "application/x-msgpack", "application/x-msgpack", packed+"\xff\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00")
	f("", "application/x-msgpack;q=0", "application/x-msgpack", packed+"\xc7\x0c\x05\xff\xff\xff\xff\xff\xff\xff\xff\x3b\x83\xe6\xa0\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00")
	f("&epoch=s&chunked=true", "application/x-msgpack", "application/json", doc("0"))
	f("&pretty=true&epoch=s", "", "application/json", indent(t, doc("0")))
}

func indent(t *testing.T, doc string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(doc), "", "    "); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestErrorsInTheAcceptedFormat(t *testing.T) {
	_, base := start(t, newFakeStore(), httpapi.Options{})
	f := func(accept, kind, body string) {
		t.Helper()
		a := do(t, "GET", base+"/query", "", "Accept", accept, "Accept-Encoding", "gzip")
		if a.status != 400 || a.header.Get("Content-Type") != kind || a.body != body || a.header.Get("Content-Encoding") != "" {
			t.Errorf("%s: %d %v %q", accept, a.status, a.header, a.body)
		}
		if got := a.header.Get("X-Influxdb-Error"); got != `missing required parameter "q"` {
			t.Errorf("X-Influxdb-Error %q", got)
		}
	}
	f("", "application/json", `{"error":"missing required parameter \"q\""}`+"\n")
	f("text/csv", "text/csv", "error\n\"missing required parameter \"\"q\"\"\"\n")
	f("application/x-msgpack", "application/x-msgpack", "\x81\xa5error\xbemissing required parameter \"q\"")
}

func TestGzipAnswers(t *testing.T) {
	s := newFakeStore()
	s.execute = oneTable
	_, base := start(t, s, httpapi.Options{})
	plain := do(t, "GET", base+"/query?q=SELECT+v+FROM+m", "", "Accept-Encoding", "identity")
	a := do(t, "GET", base+"/query?q=SELECT+v+FROM+m", "", "Accept-Encoding", "gzip")
	if a.header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("headers %v", a.header)
	}
	z, err := gzip.NewReader(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(z)
	if err != nil || string(got) != plain.body {
		t.Errorf("%q, %v", got, err)
	}
	for _, accept := range []string{"deflate", "gzip;q=0"} {
		if a := do(t, "GET", base+"/query?q=SELECT+v+FROM+m", "", "Accept-Encoding", accept); a.header.Get("Content-Encoding") != "" || a.body != plain.body {
			t.Errorf("%s: %v", accept, a.header)
		}
	}
}

// TestAnswersTellTheirLength: net/http would send a body of 10 kB in chunks.
func TestAnswersTellTheirLength(t *testing.T) {
	s := newFakeStore()
	rows := 0
	s.execute = func(_ context.Context, emit func(*result.Result) error) error {
		table := result.NewTable("m", "time", "v")
		for i := range rows {
			table.AddRow(int64(i), 0.5)
		}
		return emit(&result.Result{Series: []*result.Series{table}})
	}
	_, base := start(t, s, httpapi.Options{})
	for _, tt := range []struct {
		rows   int
		accept string
		tells  bool
	}{
		{1, "identity", true},
		{1000, "identity", true},
		{1000, "gzip", false},
		{100_000, "identity", false}, // its first part is sent before its last one is there
	} {
		rows = tt.rows
		a := do(t, "GET", base+"/query?q=SELECT+v+FROM+m", "", "Accept-Encoding", tt.accept)
		got := a.header.Get("Content-Length")
		if tt.tells && got == "" || got != "" && got != fmt.Sprint(len(a.body)) {
			t.Errorf("%d rows, %s: length %q of a body of %d bytes", tt.rows, tt.accept, got, len(a.body))
		}
		if tt.accept == "identity" && strings.Count(a.body, ",0.5]") != tt.rows {
			t.Errorf("%d rows: %.200s", tt.rows, a.body)
		}
	}
}

func TestChunksAreFlushed(t *testing.T) {
	s := newFakeStore()
	more := make(chan struct{})
	s.execute = func(_ context.Context, emit func(*result.Result) error) error {
		if err := emit(&result.Result{Partial: true}); err != nil {
			return err
		}
		<-more
		return emit(&result.Result{})
	}
	_, base := start(t, s, httpapi.Options{})
	resp, err := http.Get(base + "/query?chunked=true&q=SELECT+v+FROM+m")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	const first = `{"results":[{"statement_id":0,"partial":true}]}` + "\n"
	got := make([]byte, len(first))
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != first {
		t.Fatalf("first chunk %q, %v", got, err)
	}
	close(more)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || string(rest) != `{"results":[{"statement_id":0}]}`+"\n" {
		t.Errorf("rest %q, %v", rest, err)
	}
}

func TestAnAnswerThatBreaksIsCutOff(t *testing.T) {
	s := newFakeStore()
	s.execute = func(_ context.Context, emit func(*result.Result) error) error {
		if err := emit(&result.Result{Partial: true}); err != nil {
			return err
		}
		return errors.New("disk on fire")
	}
	_, base := start(t, s, httpapi.Options{Logger: slog.New(slog.DiscardHandler)})
	for _, accept := range []string{"identity", "gzip"} {
		req, _ := http.NewRequest("GET", base+"/query?chunked=true&q=SELECT+v+FROM+m", nil)
		req.Header.Set("Accept-Encoding", accept)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%s: a broken answer looks whole", accept)
		}
		_ = resp.Body.Close()
	}
}

func TestPanicsBecome500(t *testing.T) {
	s := newFakeStore()
	s.execute = func(context.Context, func(*result.Result) error) error { panic("oops") }
	reg := prometheus.NewRegistry()
	var log bytes.Buffer
	_, base := start(t, s, httpapi.Options{Registry: reg, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	a := do(t, "GET", base+"/query?q=SELECT+v+FROM+m", "")
	if a.status != 500 || a.body != `{"error":"internal error"}`+"\n" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if !strings.Contains(log.String(), "oops") {
		t.Errorf("log: %s", log.String())
	}
	if a := do(t, "GET", base+"/ping", ""); a.status != 204 {
		t.Errorf("afterwards: %d", a.status)
	}
	if n := value(t, reg, "tsdbd_http_panics_total"); n != 1 {
		t.Errorf("%v panics counted", n)
	}
}

// value returns the sum of a metric's series.
func value(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func TestMetrics(t *testing.T) {
	s := newFakeStore()
	s.create("d")
	reg := prometheus.NewRegistry()
	_, base := start(t, s, httpapi.Options{Registry: reg})
	do(t, "POST", base+"/write?db=d", "m v=1 1\nm v=2 2\nm v=t 3\nx")
	do(t, "POST", base+"/write?db=d", "x")
	do(t, "GET", base+"/nosuch/"+strings.Repeat("x", 100), "")
	for name, want := range map[string]float64{
		"tsdbd_http_write_points_total": 2, "tsdbd_http_write_points_dropped_total": 1, "tsdbd_http_write_parse_errors_total": 2,
		"tsdbd_http_requests_total": 3, "tsdbd_http_requests_in_flight": 0,
	} {
		if got := value(t, reg, name); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	a := do(t, "GET", base+"/metrics", "")
	for _, line := range []string{`tsdbd_http_requests_total{code="400",route="write"} 2`, `tsdbd_http_requests_total{code="404",route="other"} 1`} {
		if !strings.Contains(a.body, line) {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}

func TestAccessLogHidesPasswords(t *testing.T) {
	var log bytes.Buffer
	s := newFakeStore()
	h := httpapi.New(httpapi.Options{Writer: s, Query: s, AccessLog: slog.New(slog.NewTextHandler(&log, nil))})
	defer h.Close()
	serve(h, "GET", "/query?u=root&p=secret&q="+url.QueryEscape("CREATE USER x WITH PASSWORD 'secret'"), nil)
	got := log.String()
	if strings.Contains(got, "secret") || strings.Contains(got, "root") || strings.Count(got, "\n") != 1 {
		t.Errorf("log: %s", got)
	}
	for _, part := range []string{"method=GET", "path=/query", "status=200", "took=", "request_id="} {
		if !strings.Contains(got, part) {
			t.Errorf("log lacks %s: %s", part, got)
		}
	}
}

func TestAsyncQueriesRunBehind(t *testing.T) {
	s := newFakeStore()
	ran, stopped := make(chan struct{}), make(chan struct{})
	s.execute = func(ctx context.Context, _ func(*result.Result) error) error {
		close(ran)
		<-ctx.Done()
		close(stopped)
		return ctx.Err()
	}
	h := httpapi.New(httpapi.Options{Writer: s, Query: s, Logger: slog.New(slog.DiscardHandler)})
	if w := serve(h, "GET", "/query?async=true&q=SELECT+v+FROM+m", nil); w.Code != 204 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	<-ran
	h.Close()
	select {
	case <-stopped:
	default:
		t.Error("Close did not wait for the query")
	}
}

func TestDisconnectStopsTheQuery(t *testing.T) {
	s := newFakeStore()
	running, stopped := make(chan struct{}), make(chan struct{})
	s.execute = func(ctx context.Context, _ func(*result.Result) error) error {
		close(running)
		<-ctx.Done()
		close(stopped)
		return ctx.Err()
	}
	_, base := start(t, s, httpapi.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "GET", base+"/query?q=SELECT+v+FROM+m", nil)
	go func() {
		<-running
		cancel()
	}()
	if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
		_ = resp.Body.Close()
		t.Error("an answer came")
	}
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Error("the query goes on")
	}
}

func TestGracefulStop(t *testing.T) {
	s := newFakeStore()
	s.create("d")
	entered, leave := make(chan struct{}), make(chan struct{})
	s.writing = func() { entered <- struct{}{}; <-leave }
	h := httpapi.New(httpapi.Options{Writer: s, Query: s})
	defer h.Close()
	srv, err := listener.Listen(h, listener.Options{MaxConnections: 10})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan answer)
	go func() { done <- do(t, "POST", "http://"+srv.Addr()+"/write?db=d", "m v=1 1") }()
	<-entered
	closed := make(chan error)
	go func() { closed <- srv.Close(t.Context()) }()
	for {
		c, err := net.Dial("tcp", srv.Addr())
		if err != nil {
			break // no longer accepting
		}
		_ = c.Close()
		time.Sleep(time.Millisecond)
	}
	if w := serve(h, "POST", "/write?db=d", strings.NewReader("m v=2 2")); w.Code != 503 || w.Header().Get("Retry-After") == "" ||
		w.Body.String() != `{"error":"server is shutting down"}`+"\n" {
		t.Errorf("while stopping: %d %s", w.Code, w.Body)
	}
	close(leave)
	if a := <-done; a.status != 204 {
		t.Errorf("the write under way: %d %s", a.status, a.body)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestQueryTooDeep asks queries at the bounds of nesting.
func TestQueryTooDeep(t *testing.T) {
	_, base := start(t, newFakeStore(), httpapi.Options{})
	nested := func(n int) string {
		return strings.Repeat("SELECT v FROM (", n) + "SELECT v FROM m" + strings.Repeat(")", n)
	}
	either := func(n int) string { return "SELECT v FROM m WHERE " + strings.Repeat("h = 'a' OR ", n) + "h = 'b'" }
	for _, c := range []struct {
		text string
		want string
	}{
		{nested(100), ""},
		{nested(101), "too deeply nested"},
		{nested(11_000), "too many parentheses"},
		{either(9_000), ""},
		{either(10_000), "too deeply nested"},
	} {
		a := do(t, "POST", base+"/query", "q="+url.QueryEscape(c.text), "Content-Type", "application/x-www-form-urlencoded")
		if ok := a.status == 200; ok != (c.want == "") || !strings.Contains(a.body, c.want) {
			t.Errorf("%.40s...: %d %.200s, want %q", c.text, a.status, a.body, c.want)
		}
	}
}
