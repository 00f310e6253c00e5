package apptest

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// readsByPost are the routes whose POST changes nothing. Every other method than GET, HEAD
// and OPTIONS may change something.
var readsByPost = []string{
	"/query", "/api/v2/query", "/api/v1/query", "/api/v1/query_range", "/api/v1/query_exemplars", "/api/v1/series", "/api/v1/labels",
	"/api/v1/format_query", "/api/v1/parse_query", "/api/v1/export", "/api/v1/read", "/api/v1/prom/read", "/debug/pprof/symbol",
}

// TestPagesOfOthers sends what web pages of others let a browser send to every route, and
// holds that it changes nothing, and that requests of programs pass.
func TestPagesOfOthers(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.Env = []string{"TSDBD_HTTP_PPROF_ENABLED=true"}
	s.Restart()
	s.Query("", "CREATE DATABASE mine; CREATE DATABASE canary")
	s.Write("mine", "mine_cpu,host=a mine_field=1")
	ask := func(method, path, body, host string, header ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Content-Type", "text/plain")
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := s.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(answer)
	}
	const mozilla = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	type sender struct {
		host, setting string // setting: what a refusal names, "" if there is none
		header        []string
	}
	own := strings.TrimPrefix(s.URL, "http://")
	senders := []sender{
		{own, "http.allowed-origins", []string{"User-Agent", mozilla, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}},
		{own, "http.allowed-origins", []string{"User-Agent", mozilla, "Origin", "http://evil.example"}},
		{own, "http.allowed-origins", []string{"User-Agent", mozilla, "Origin", "null"}},
		{"evil.example:8086", "http.allowed-hosts", []string{"User-Agent", mozilla, "Origin", "http://evil.example:8086", "Referer", "http://evil.example:8086/"}},
		{own, "", []string{"User-Agent", mozilla, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors", "Origin", s.URL}},
		{"tsdb:8086", "", []string{"User-Agent", "curl/8.5.0"}},
		{"tsdb.example.org", "", []string{"User-Agent", "Telegraf/1.37.2 Go/1.25"}},
		{"tsdb.example.org", "", []string{"User-Agent", "node", "Sec-Fetch-Mode", "cors", "Accept-Language", "*"}},
	}
	for _, r := range routeMatrix {
		if strings.HasPrefix(r.path, "/debug/pprof/") && r.method == "GET" {
			continue // slow
		}
		path, _, _ := strings.Cut(r.path, "?")
		under, _ := strings.CutPrefix(strings.TrimPrefix(path, "/prometheus/canary"), "/autogen")
		changes := r.off != 405 && r.method != "GET" && r.method != "HEAD" && r.method != "OPTIONS"
		for _, reads := range readsByPost {
			changes = changes && under != reads
		}
		for _, from := range senders {
			got, body := ask(r.method, r.path, r.body, from.host, from.header...)
			refused := strings.Contains(body, "http.allowed-")
			switch {
			case changes && from.setting != "" && (got != 403 || !strings.Contains(body, from.setting) || !strings.Contains(body, "proxy_set_header Host")):
				t.Errorf("%s %s of %v: %d %s", r.method, r.path, from.header, got, body)
			case !(changes && from.setting != "") && refused:
				t.Errorf("%s %s of %v to %s: %d %s", r.method, r.path, from.header, from.host, got, body)
			}
		}
	}

	// Statements, by GET and by POST.
	f := func(status int, method, path, body string, header ...string) {
		t.Helper()
		host := own
		if len(header) > 0 && header[0] == "Host" {
			host, header = header[1], header[2:]
		}
		got, text := ask(method, path, body, host, append([]string{"Content-Type", "application/x-www-form-urlencoded"}, header...)...)
		if got != status {
			t.Errorf("%s %s %s %v: %d %s, want %d", method, path, body, header, got, text, status)
		}
	}
	img := []string{"User-Agent", mozilla, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}
	for _, q := range []string{
		"DROP+DATABASE+mine", "SHOW+DATABASES%3B+DROP+DATABASE+mine", "SELECT+*+INTO+copy+FROM+mine_cpu", "DELETE+FROM+mine_cpu", "KILL+QUERY+1",
		"CREATE+DATABASE+other", "DROP+SERIES+FROM+mine_cpu", "CREATE+USER+eve+WITH+PASSWORD+'e'+WITH+ALL+PRIVILEGES", "UPDATE+mine_cpu+DROP+TAG+host",
	} {
		f(403, "GET", "/query?db=mine&q="+q, "", img...)
		f(403, "GET", "/query?db=mine&async=true&q="+q, "", "User-Agent", mozilla, "Referer", "http://evil.example/")
		f(403, "POST", "/query?db=mine", "q="+q, "User-Agent", mozilla, "Origin", "http://evil.example")
		f(403, "POST", "/query?db=mine&q="+q, "", "User-Agent", mozilla, "Origin", "null")
		f(403, "POST", "/query?db=mine", "q="+q, "Host", "evil.example:8086", "User-Agent", mozilla, "Origin", "http://evil.example:8086")
	}
	if body := s.Query("", "SHOW DATABASES"); strings.Count(body, "mine") != 1 || strings.Contains(body, "other") {
		t.Error(body)
	}
	if body := s.Query("mine", "SHOW MEASUREMENTS"); strings.Contains(body, "copy") || !strings.Contains(body, "mine_cpu") || strings.Contains(body, "evil") {
		t.Error(body)
	}
	for _, q := range []string{"SELECT+*+FROM+mine_cpu", "SHOW+MEASUREMENTS", "EXPLAIN+SELECT+*+FROM+mine_cpu"} {
		f(200, "GET", "/query?db=mine&q="+q, "", img...)
		f(200, "POST", "/query?db=mine", "q="+q, "Host", "tsdb.example.org:8086", "User-Agent", mozilla, "Origin", "http://grafana.example.org") // of an old Grafana
	}
	// ruby-influxdb changes by GET; a person types an address.
	f(200, "GET", "/query?q=CREATE+DATABASE+x", "", "User-Agent", "Ruby")
	f(200, "GET", "/query?q=CREATE+DATABASE+x", "", "User-Agent", mozilla, "Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate")

	// With http.allowed-hosts, reading needs a name too, except for programs.
	s.Stop()
	s.Env = append(s.Env, "TSDBD_HTTP_ALLOWED_HOSTS=tsdb.example.org;TSDB2.example.org", "TSDBD_HTTP_ALLOWED_ORIGINS=https://grafana.example.org")
	s.Restart()
	for _, path := range []string{"/query?q=SHOW+DATABASES", "/ping", "/metrics", "/", "/api/v1/query?query=1", "/debug/vars"} {
		f(403, "GET", path, "", "Host", "evil.example", "User-Agent", mozilla)
		for _, host := range []string{"tsdb.example.org", "tsdb2.example.org:8086", "tsdb", "127.0.0.1"} {
			if got, body := ask("GET", path, "", host, "User-Agent", mozilla); got >= 300 {
				t.Errorf("%s at %s: %d %s", path, host, got, body)
			}
		}
		if got, body := ask("GET", path, "", "evil.example", "User-Agent", "curl/8.5.0"); got >= 300 {
			t.Errorf("%s of curl: %d %s", path, got, body)
		}
	}
	f(200, "POST", "/query", "q=CREATE+DATABASE+y", "Host", "tsdb.example.org", "User-Agent", mozilla, "Origin", "http://tsdb.example.org")
	f(200, "POST", "/query", "q=CREATE+DATABASE+z", "Host", "tsdb.example.org", "User-Agent", mozilla, "Origin", "https://grafana.example.org", "Sec-Fetch-Site", "cross-site")
	f(403, "POST", "/query", "q=DROP+DATABASE+z", "Host", "tsdb.example.org", "User-Agent", mozilla, "Origin", "https://other.example.org", "Sec-Fetch-Site", "same-site")
	s.Stop()
}
