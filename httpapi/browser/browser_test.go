package browser_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"tsdbd/httpapi/browser"
)

// agents are the headers of programs and browsers, as they send them.
var agents = map[string][]string{
	"curl":       {"User-Agent", "curl/8.5.0", "Accept", "*/*"},
	"telegraf":   {"User-Agent", "Telegraf/1.37.2 Go/1.25", "Content-Encoding", "gzip", "Content-Type", "text/plain; charset=utf-8"},
	"prometheus": {"User-Agent", "Prometheus/3.15.0", "X-Prometheus-Remote-Write-Version", "0.1.0"},
	"influx":     {"User-Agent", "InfluxDBShell/1.6.7"},
	"grafana":    {"User-Agent", "Grafana/12.0.0", "X-Forwarded-For", "10.0.0.7", "Accept-Encoding", "gzip"},
	"node":       {"User-Agent", "node", "Sec-Fetch-Mode", "cors", "Accept", "*/*", "Accept-Language", "*", "Accept-Encoding", "gzip, deflate"},
	"powershell": {"User-Agent", "Mozilla/5.0 (Windows NT; Windows NT 10.0; en-US) WindowsPowerShell/5.1.19041.1"},

	// What a browser sends for its own page, for a page of another origin, and over
	// plain http to a name, where it leaves Sec-Fetch-Site out.
	"own":            {"User-Agent", "Mozilla/5.0 X", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors", "Origin", "http://HOST"},
	"own plain":      {"User-Agent", "Mozilla/5.0 X", "Origin", "http://HOST", "Referer", "http://HOST/"},
	"own get plain":  {"User-Agent", "Mozilla/5.0 X"},                                                                                        // with Referrer-Policy: no-referrer
	"own get hidden": {"User-Agent", "curl/8.5.0", "Accept", "*/*", "Accept-Language", "en-US,en;q=0.5", "Accept-Encoding", "gzip, deflate"}, // in Firefox
	"typed":          {"User-Agent", "Mozilla/5.0 X", "Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"},
	"form":           {"User-Agent", "Mozilla/5.0 X", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Origin", "http://evil.example"},
	"form plain":     {"User-Agent", "Mozilla/5.0 X", "Origin", "http://evil.example", "Referer", "http://evil.example/"},
	"form old":       {"User-Agent", "Mozilla/5.0 X", "Referer", "http://evil.example/"},
	"own old":        {"User-Agent", "Mozilla/5.0 X", "Referer", "http://HOST/ui/"},
	"frame":          {"User-Agent", "Mozilla/5.0 X", "Origin", "null"},
	"img":            {"User-Agent", "Mozilla/5.0 X", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"},
	"img plain":      {"User-Agent", "Mozilla/5.0 X", "Referer", "http://evil.example/"},
	"other port":     {"User-Agent", "Mozilla/5.0 X", "Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:3000"},
	"listed":         {"User-Agent", "Mozilla/5.0 X", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Origin", "https://grafana.example"},
	// Old versions of Grafana send the headers of the browser to the server that they ask.
	"old grafana": {"User-Agent", "Mozilla/5.0 X", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors", "Referer", "https://grafana.example/d/1"},
	// A proxy that does not pass the Host header on.
	"rewritten": {"User-Agent", "Mozilla/5.0 X", "Origin", "http://tsdb.example"},
}

var programs = []string{"curl", "telegraf", "prometheus", "influx", "grafana", "node", "powershell"}

func TestCheck(t *testing.T) {
	plain := browser.New(browser.Options{Machine: "db1.example.org"})
	logins := browser.New(browser.Options{Logins: true, Machine: "db1.example.org"})
	listed := browser.New(browser.Options{Origins: []string{"https://grafana.example"}, Hosts: []string{"TSDB.example"}})
	open := browser.New(browser.Options{Origins: []string{"*"}})
	const (
		origins = "http.allowed-origins"
		hosts   = "http.allowed-hosts"
	)
	// f sends a request of an agent. read and write are the setting that the refusal of a
	// request that reads or changes something must name, or "" if it must pass.
	f := func(filter *browser.Filter, method, agent, host, read, write string) {
		t.Helper()
		for want, changes := range map[*string]bool{&read: false, &write: true} {
			r := httptest.NewRequest(method, "/query", nil)
			r.Host = host
			for i := 0; i < len(agents[agent]); i += 2 {
				r.Header.Set(agents[agent][i], strings.ReplaceAll(agents[agent][i+1], "HOST", host))
			}
			err := filter.Check(r, changes)
			switch {
			case err == nil && *want != "":
				t.Errorf("%s of %s to %s (changes: %v) passes", method, agent, host, changes)
			case err != nil && (*want == "" || !strings.Contains(err.Error(), *want) || !strings.Contains(err.Error(), "proxy_set_header Host $http_host;")):
				t.Errorf("%s of %s to %s (changes: %v): %v, want %q", method, agent, host, changes, err, *want)
			}
		}
	}
	for _, filter := range []*browser.Filter{plain, logins, listed, open} {
		for _, program := range programs {
			for _, host := range []string{"tsdb", "tsdb:8086", "localhost:8086", "10.1.2.3:8086", "tsdb.example.com", "tsdb.monitoring:8086"} {
				f(filter, "GET", program, host, "", "")
				f(filter, "POST", program, host, "", "")
			}
		}
	}
	// Pages of other origins.
	for _, agent := range []string{"form", "form plain", "form old", "frame", "other port", "listed"} {
		f(plain, "POST", agent, "127.0.0.1:8086", "", origins)
		f(logins, "POST", agent, "127.0.0.1:8086", "", origins)
		f(plain, "DELETE", agent, "tsdb:8086", "", origins)
		f(plain, "GET", agent, "tsdb:8086", "", origins)
		f(open, "POST", agent, "tsdb.example.com", "", "")
		f(open, "GET", agent, "tsdb.example.com", "", "")
	}
	for _, agent := range []string{"img", "img plain", "form plain", "own plain", "own get plain"} {
		f(plain, "GET", agent, "192.168.1.7:8086", "", origins)
		f(logins, "GET", agent, "192.168.1.7:8086", "", origins)
	}
	f(listed, "POST", "listed", "tsdb.example.com", "", "")
	f(listed, "GET", "listed", "tsdb.example.com", "", "")
	f(plain, "POST", "rewritten", "127.0.0.1:8086", "", origins)
	f(plain, "POST", "rewritten", "tsdb.example", "", hosts)
	f(listed, "POST", "rewritten", "tsdb.example", "", "")

	// Names of the server.
	for _, host := range []string{
		"127.0.0.1:8086", "[::1]:8086", "[fe80::1]", "10.0.0.1", "localhost:8086", "a.localhost", "tsdb", "tsdb:8086", "db1.example.org:8086",
		"DB1.Example.ORG", "nas.local", "nas.lan:8086", "db.eu.internal", "tsdb.metrics.svc:8086", "tsdb.metrics.svc.cluster.local", "pi.home.arpa", "pi.home.arpa.:1",
	} {
		for _, agent := range []string{"own", "own plain", "own old", "own get plain"} {
			f(plain, "POST", agent, host, "", "")
			f(plain, "DELETE", agent, host, "", "")
		}
		f(plain, "GET", "typed", host, "", "")
		f(plain, "GET", "own", host, "", "")
	}
	for _, host := range []string{"evil.example:8086", "1.2.3.4.evil.example", "localhost.evil.example", "evil.locals", "evil-local.example", "db1.evil.example", "127.0.0.1.nip.example:8086", "tsdb.monitoring:8086"} {
		for _, agent := range []string{"own", "own plain"} {
			f(plain, "POST", agent, host, "", hosts)
			f(logins, "POST", agent, host, "", "")
			f(listed, "POST", agent, host, hosts, hosts)
		}
		f(plain, "GET", "typed", host, "", hosts)
		f(plain, "GET", "old grafana", host, "", hosts)
		f(plain, "POST", "old grafana", host, "", hosts)
		f(listed, "GET", "own get plain", host, hosts, origins)
		f(listed, "GET", "own get hidden", host, hosts, hosts)
		f(plain, "GET", "own get hidden", host, "", hosts)
		f(logins, "GET", "own get hidden", host, "", "")
	}
	for _, host := range []string{"tsdb.example", "Tsdb.Example:443", "tsdb.example.", "10.0.0.1", "tsdb"} {
		f(listed, "POST", "own", host, "", "")
		f(listed, "GET", "own get plain", host, "", origins)
		f(listed, "GET", "old grafana", host, "", "")
	}
}

func TestByScript(t *testing.T) {
	var got []string
	for name, headers := range agents {
		r := httptest.NewRequest("GET", "/", nil)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		if browser.ByScript(r.Header) {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if text := strings.Join(got, ", "); text != "form plain, frame, img, listed, node, old grafana, other port, own, own plain, rewritten" {
		t.Error(text)
	}
}

func TestSettings(t *testing.T) {
	for _, text := range []string{"*", "https://grafana.example", "http://127.0.0.1:3000"} {
		if !browser.IsOrigin(text) {
			t.Errorf("%q is refused", text)
		}
	}
	for _, text := range []string{"", "null", "grafana.example", "https://grafana.example/", "https://", "*.example"} {
		if browser.IsOrigin(text) {
			t.Errorf("%q passes", text)
		}
	}
	for _, text := range []string{"tsdb.example", "TSDB.example", "tsdb"} {
		if !browser.IsHost(text) {
			t.Errorf("%q is refused", text)
		}
	}
	for _, text := range []string{"", "*", "*.example", "https://tsdb.example", "tsdb.example:8086", "a b", "tsdb.example/x", "tsdb.example."} {
		if browser.IsHost(text) {
			t.Errorf("%q passes", text)
		}
	}
}
