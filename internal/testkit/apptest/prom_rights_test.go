package apptest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/golang/snappy"
)

// promWrites are ways to write one sample of the metric stolen by Prometheus' protocols.
func promWrites() []promWrite {
	first := message(nil).sub(1, promSeries("__name__=stolen,host=x", 1000, 1))
	second := message(nil).text(4, "").text(4, "__name__").text(4, "stolen").
		sub(5, message(nil).number(1, 1).number(1, 2).sub(2, message(nil).double(1, 1).number(2, 1000)))
	point := message(nil).text(1, "stolen").sub(5, message(nil).sub(1, message(nil).double(4, 1).fixed(3, 1e9)))
	gauges := message(nil).sub(1, message(nil).sub(2, message(nil).sub(2, point)))
	const proto = "application/x-protobuf"
	return []promWrite{
		{"remote write 1.0", "/api/v1/write", proto, "snappy", string(snappy.Encode(nil, first)), 204},
		{"remote write 2.0", "/api/v1/write", proto + ";proto=io.prometheus.write.v2.Request", "snappy", string(snappy.Encode(nil, second)), 204},
		{"OTLP, protobuf", "/api/v1/otlp/v1/metrics", proto, "", string(gauges), 200},
		{"OTLP, JSON", "/v1/metrics", "application/json", "", `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"stolen","gauge":{"dataPoints":[{"timeUnixNano":"1000000000","asDouble":1}]}}]}]}]}`, 200},
		{"lines of JSON", "/api/v1/import", "application/json", "", `{"metric":{"__name__":"stolen"},"values":[1],"timestamps":[1000]}` + "\n", 204},
		{"text", "/api/v1/import/prometheus", "text/plain", "", "stolen 1 1000\n", 204},
	}
}

// promWrite is a request that writes.
type promWrite struct {
	name, path, media, encoding, body string
	status                            int // of success
}

// send sends a request with the login of one of the people.
func (s *Server) sendPrometheus(who byte, method, path, media, encoding, body string) (status int, header http.Header, answer string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": media, "Content-Encoding": encoding} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if p := people[who]; p[0] != "" {
		req.SetBasicAuth(p[0], p[1])
	}
	resp, err := s.http.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// TestPrometheusRights writes and asks by Prometheus' protocols as people who may not,
// with every way to name a database.
func TestPrometheusRights(t *testing.T) {
	t.Parallel()
	s := authServer(t, false)
	for _, w := range promWrites() {
		f := func(who byte, path string, want int) {
			t.Helper()
			status, _, body := s.sendPrometheus(who, "POST", path, w.media, w.encoding, w.body)
			if status != want {
				t.Errorf("%s to %s as %s: %d %q, want %d", w.name, path, people[who][0], status, body, want)
			}
		}
		inPath := func(names string) string {
			if w.path == "/v1/metrics" {
				return "/prometheus/" + names + "/api/v1/otlp/v1/metrics"
			}
			return "/prometheus/" + names + w.path
		}
		for who, want := range map[byte]int{'n': 401, 'x': 401, 'u': 401, 'S': 403, 'R': 403, 'W': 403, 'B': 403} {
			f(who, inPath("canary"), want)
		}
		f('R', w.path+"?db=mine", 403)
		f('R', inPath("mine"), 403)
		f('R', inPath("mine/autogen"), 403)
		// The path wins, and its names are read once only.
		f('W', inPath("canary")+"?db=mine", 403)
		f('W', inPath("canary%2Fautogen"), 403)
		f('W', inPath("mine%2F..%2Fcanary"), 403)
		f('W', inPath("%63anary"), 403)
		f('W', inPath("mine%252Fautogen"), 403)
		f('W', inPath("mine/nosuch"), 404)
		// There is no such route.
		for _, path := range []string{inPath("mine/../canary"), inPath("mine/autogen/canary"), "/prometheus//canary" + w.path, "/" + w.path, inPath("mine/%2e%2e")[:len("/prometheus/mine/%2e%2e")] + "/canary" + w.path} {
			f('A', path, 404)
		}
		// The default database does not exist: only an administrator may create it.
		f('W', w.path, 403)
		f('B', inPath("prometheus"), 403)
	}
	if got := s.asked('A', "SHOW DATABASES"); strings.Contains(got, "prometheus") {
		t.Errorf("the default database was created: %s", got)
	}
	for _, db := range []string{"mine", "canary"} {
		if got := s.asked('A', "SHOW SERIES ON "+db); strings.Contains(got, "stolen") {
			t.Errorf("%s has %s", db, got)
		}
	}
	for _, w := range promWrites() {
		for who, path := range map[byte]string{'W': w.path + "?db=mine", 'A': w.path} {
			if status, _, body := s.sendPrometheus(who, "POST", path, w.media, w.encoding, w.body); status != w.status {
				t.Errorf("%s to %s as %s: %d %q", w.name, path, people[who][0], status, body)
			}
		}
	}
	if got := s.asked('A', "SHOW SERIES ON prometheus") + s.asked('A', "SHOW SERIES ON mine"); strings.Count(got, "stolen,") < 2 {
		t.Errorf("nothing was written by those who may: %s", got)
	}
}

// TestPrometheusReadRights asks for what one may not see, with every way to name a
// database. Nobody learns anything of a database that one may not read, not even
// whether it exists.
func TestPrometheusReadRights(t *testing.T) {
	t.Parallel()
	s := authServer(t, false)
	const form = "application/x-www-form-urlencoded"
	read := string(snappy.Encode(nil, message(nil).sub(1, message(nil).number(1, 0).number(2, 1<<50).sub(3, message(nil).number(1, 2).text(2, "__name__").text(3, ".+")))))
	every := `{__name__=~".%2B"}`
	routes := []string{
		"GET query?query=" + every, "GET query_range?start=0&end=1&step=1&query=" + every, "GET query_exemplars?query=" + every,
		"GET series?match[]=" + every, "GET labels?", "GET label/host/values?", "GET label/__name__/values?", "GET metadata?",
		"GET export?match[]=" + every, "POST read?", "GET status/tsdb?",
	}
	f := func(who byte, method, path, body string, want int) string {
		t.Helper()
		media, encoding := form, ""
		if strings.Contains(path, "/api/v1/read") {
			media, encoding = "application/x-protobuf", "snappy"
		}
		status, header, answer := s.sendPrometheus(who, method, path, media, encoding, body)
		if status != want {
			t.Errorf("%s %s %q as %s: %d %q, want %d", method, path, body, people[who][0], status, answer, want)
		}
		if status == 401 && header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s: no WWW-Authenticate", method, path)
		}
		if strings.Contains(answer, "canary_") {
			t.Errorf("%s %s %q as %s: %q", method, path, body, people[who][0], answer)
		}
		return answer
	}
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		body := ""
		if strings.HasPrefix(path, "read") {
			body = read
		}
		for who, want := range map[byte]int{'n': 401, 'x': 401, 'u': 401, 'S': 403, 'R': 403, 'W': 403, 'B': 403} {
			f(who, method, "/api/v1/"+path+"&db=canary", body, want)
		}
		f('W', method, "/api/v1/"+path+"&db=mine", body, 403) // a writer
		for _, names := range []string{"canary", "canary/autogen", "%63anary", "mine%2F..%2Fcanary"} {
			f('R', method, "/prometheus/"+names+"/api/v1/"+path+"&db=mine", body, 403)
		}
		f('R', method, "/prometheus/mine/../canary/api/v1/"+path, body, 404)
		f('R', method, "/api/v1/"+path, body, 403) // the default database, which does not exist
		there := f('R', method, "/prometheus/canary/api/v1/"+path, body, 403)
		absent := f('R', method, "/prometheus/nosuch/api/v1/"+path, body, 403)
		if strings.ReplaceAll(there, "canary", "nosuch") != absent {
			t.Errorf("%s: %q tells a database that exists from one that does not: %q", path, there, absent)
		}
		// One name is asked for the rights and for the data, wherever the request has it twice.
		if method == "GET" && !strings.HasPrefix(path, "label/") && !strings.HasPrefix(path, "metadata") && !strings.HasPrefix(path, "status") {
			name, query, _ := strings.Cut(path, "?")
			for _, names := range [][2]string{{"canary", "mine"}, {"mine", "canary"}} {
				status, _, answer := s.sendPrometheus('R', "POST", "/api/v1/"+name+"?db="+names[0], form, "", query+"&db="+names[1])
				if strings.Contains(answer, "canary_") || status != 200 && status != 403 {
					t.Errorf("%s with the databases %q: %d %s", name, names, status, answer)
				}
			}
		}
	}
	for _, path := range []string{"rules", "alerts", "targets", "status/buildinfo", "status/runtimeinfo", "status/config", "status/flags", "format_query?query=x", "parse_query?query=x"} {
		f('n', "GET", "/api/v1/"+path, "", 401)
		f('n', "GET", "/prometheus/mine/api/v1/"+path, "", 401)
		f('S', "GET", "/prometheus/canary/api/v1/"+path, "", 200) // which say nothing of the database
	}
}

// TestPrometheusRightsWithPingAuth has a server that wants a login for /ping too, and one
// that wants none for it: the other routes are the same.
func TestPrometheusRightsWithPingAuth(t *testing.T) {
	t.Parallel()
	s := authServer(t, false)
	for _, ping := range []bool{true, false} {
		s.Stop()
		s.Env = append(s.Env, fmt.Sprint("TSDBD_HTTP_PING_AUTH_ENABLED=", ping))
		s.Restart()
		want := map[bool]int{true: 401, false: 204}[ping]
		if status, _ := s.as('n', "GET", "/ping", nil); status != want {
			t.Errorf("/ping with ping-auth-enabled=%v: %d, want %d", ping, status, want)
		}
		for _, path := range []string{"status/buildinfo", "query?query=1&db=mine", "labels?db=mine", "export?db=mine&match[]=x", "rules"} {
			if status, body := s.as('n', "GET", "/api/v1/"+path, nil); status != 401 {
				t.Errorf("%s with ping-auth-enabled=%v: %d %s", path, ping, status, body)
			}
		}
		for _, w := range promWrites() {
			if status, _, body := s.sendPrometheus('n', "POST", w.path+"?db=mine", w.media, w.encoding, w.body); status != 401 {
				t.Errorf("%s with ping-auth-enabled=%v: %d %s", w.name, ping, status, body)
			}
		}
	}
}

// asked runs a statement as one of the people.
func (s *Server) asked(who byte, q string) string {
	s.t.Helper()
	status, body := s.as(who, "POST", "/query", map[string][]string{"q": {q}})
	if status != 200 {
		s.t.Fatalf("%s: %d %s", q, status, body)
	}
	return body
}
