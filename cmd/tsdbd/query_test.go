package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// TestQuery asks a server as a user at a terminal and a script do.
func TestQuery(t *testing.T) {
	s := apptest.Start(t)
	s.Query("", "CREATE DATABASE demo")
	s.Write("demo", "cpu,host=a usage=1.5 1767571200000000000\ncpu,host=b usage=2 1767571260000000000")
	f := func(want string, args ...string) {
		t.Helper()
		out, errs, err := tsdbd(t, append([]string{"query", "-host", s.URL, "-db", "demo"}, args...)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%q: %v, want %q in\n%s%s", args, err, want, out, errs)
		}
	}
	f("2026-01-05T00:00:00Z |   1.5\n2026-01-05T00:01:00Z |     2\n(2 rows)\n", "SELECT usage FROM cpu")
	f("time          usage\n----          -----\n1767571200000 1.5\n", "-format", "column", "-precision", "ms", "SELECT usage FROM cpu")
	f("cpu,host=a usage=1.5 1767571200000000000\ncpu,host=b usage=2 1767571260000000000\n", "-format", "line", "SELECT usage FROM cpu GROUP BY host")
	// A line has all tags, the types of its values, and nanoseconds whatever -precision is.
	s.Write("demo", "disk,host=a,path=/ used=1i,free=2u,s=\"x\",ok=true 1767571200123456789\ndisk,host=b,path=/ used=2i 1767571200123456789")
	f("cpu,host=a usage=1.5 1767571200000000000\ncpu,host=b usage=2 1767571260000000000\n", "-format", "line", "SELECT usage FROM cpu")
	f("disk,host=a,path=/ free=2u,ok=true,s=\"x\",used=1i 1767571200123456789\ndisk,host=b,path=/ used=2i 1767571200123456789\n", "-format", "line", "-precision", "s", "SELECT * FROM disk")
	f("cpu usage=3.5 0\n", "-format", "line", "SELECT sum(usage) AS usage FROM cpu")
	f("cpu,,2026-01-05T00:00:00Z,1.5\n", "-format", "csv", "SELECT usage FROM cpu")
	f("cpu,,1767571200,1.5\n", "-format", "csv", "-precision", "s", "SELECT usage FROM cpu")
	f("cpu,,1767571200000000000,1.5\n", "-format", "csv", "-precision", "ns", "SELECT usage FROM cpu")
	f(`{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["time","count"],"values":[["1970-01-01T00:00:00Z",2]]}]}]}`, "-format", "json", "SELECT count(usage) FROM cpu")
	f("┼", "-plot", "SELECT usage FROM cpu")
	f("using database demo\n", "use demo", "SHOW MEASUREMENTS")

	// The flags of the influx shell.
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"-host", u.Hostname(), "-port", u.Port(), "-database", "demo", "-execute", "SELECT usage FROM cpu"},
		{"-host", u.Host, "-path-prefix", "/", "-database=demo", "-e", "SELECT usage FROM cpu"},
	} {
		if out := must(t, append([]string{"query"}, args...)...); !strings.Contains(out, "(2 rows)") {
			t.Errorf("%q: %s", args, out)
		}
	}

	// Statements of a file end at ; or before the next one.
	statements := apptest.TempFile(t, "-- hosts\nSELECT usage FROM cpu\nWHERE host = 'b'\nSELECT count(usage)\n  FROM cpu;\n")
	f("2026-01-05T00:01:00Z |     2\n(1 row)\nname: cpu\ntime                 | count\n---------------------+------\n1970-01-01T00:00:00Z |     2\n(1 row)\n", "-file", statements)

	// PromQL.
	f("time                 | host | value\n---------------------+------+------\n2026-01-05T00:01:00Z | a    |   1.5\n2026-01-05T00:01:00Z | b    |     2\n(2 rows)\n",
		"-lang", "promql", "-end", "2026-01-05T00:01:00Z", "sum by (host) (cpu_usage)")
	f("name: cpu_usage\ntags: host=b\ntime                 | value\n---------------------+------\n2026-01-05T00:01:00Z |     2\n(1 row)\n",
		"-lang", "promql", "-start", "2026-01-05", "-end", "2026-01-05T00:01:00Z", "-step", "1m", "cpu_usage")
	f("─ cpu_usage host=a\n", "-lang", "promql", "-plot", "-start", "2026-01-05", "-end", "2026-01-05T00:05:00Z", "cpu_usage")

	if out, _, err := tsdbd(t, "query", "-host", s.URL, "-db", "demo", "-partial", "SELECT usage INTO x FROM cpu"); err == nil || !strings.Contains(out, "SELECT INTO takes no partial=true") {
		t.Errorf("-partial is not sent: %v\n%s", err, out)
	}

	file := filepath.Join(t.TempDir(), "cpu.csv")
	f("", "-format", "csv", "-out", file, "SELECT usage FROM cpu GROUP BY host")
	if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), "cpu,host=a,") {
		t.Errorf("-out has %q, %v", b, err)
	}

	for _, c := range [][]string{
		{"tsdbd: error parsing query: found EOF, expected FROM at line 1, char 10", "SELECT a"},
		{"invalid parameter \"query\": 1:5: parse error: unclosed left parenthesis", "-lang", "promql", "sum("},
		{"database not found: nosuch", "-lang", "promql", "-db", "nosuch", "up"},
		{"-file and statements exclude each other", "-file", statements, "SHOW DATABASES"},
		{"the language is one of influxql, promql", "-lang", "flux", "x"},
		{"-ssl is not what -host http://", "-ssl", "SHOW DATABASES"},
		{"the format is one of table, column, vertical, json, csv, line", "-format", "xml", "SHOW DATABASES"},
		{"a statement failed: retention policy not found: nosuch", "SELECT a FROM nosuch.cpu"},
		{"a statement failed: retention policy not found: nosuch", "-format", "json", "SELECT a FROM nosuch.cpu"},
		{"retention policy not found: nosuch", "-format", "csv", "SELECT a FROM nosuch.cpu"},
		{"retention policy not found: nosuch", "-format", "csv", "SELECT usage FROM cpu; SELECT a FROM nosuch.cpu"},
		{"tsdbd: error parsing query: found EOF, expected FROM at line 1, char 10", "-format", "csv", "SELECT a"},
		{"read_only=true refuses a statement that changes something: DROP DATABASE demo", "-read-only", "DROP DATABASE demo"},
		{"write GROUP BY * if that is meant", "-format", "line", "SELECT usage FROM cpu LIMIT 1"},
		{"line protocol needs rows with a measurement and a time", "-format", "line", "SHOW MEASUREMENTS"},
		{"retention policy not found: nosuch", "-format", "line", "SELECT a FROM nosuch.cpu"},
	} {
		out, errs, err := tsdbd(t, append([]string{"query", "-host", s.URL, "-db", "demo"}, c[1:]...)...)
		if err == nil || !strings.Contains("tsdbd: "+errs+err.Error(), strings.TrimPrefix(c[0], "tsdbd: ")) {
			t.Errorf("%q: %v\n%s%s", c[1:], err, out, errs)
		}
	}
}

// TestQueryAdvice: the error of a statement says how to log in, and which scheme to ask by.
func TestQueryAdvice(t *testing.T) {
	refuse := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":"authorization failed"}`))
	})
	plain, secure := httptest.NewServer(refuse), httptest.NewUnstartedServer(refuse)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // it says that the client broke off
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	for host, want := range map[string][2]string{
		plain.URL: {"authorization failed", "log in with -username"},
		strings.Replace(secure.URL, "https", "http", 1): {"HTTP request to an HTTPS server", "-host https://HOST:PORT"},
		strings.Replace(plain.URL, "http", "https", 1):  {"HTTP response to HTTPS client", "-host http://HOST:PORT"},
		secure.URL: {"certificate", "SSL_CERT_FILE"},
	} {
		_, _, err := tsdbd(t, "query", "-host", host, "SHOW DATABASES")
		if err == nil || !strings.Contains(err.Error(), want[0]) || !strings.Contains(advice(err), want[1]) {
			t.Errorf("%s: %v, hint %q, want %q", host, err, advice(err), want)
		}
	}
}

// TestAddress makes the URL of the server of the flags of the influx shell.
func TestAddress(t *testing.T) {
	for _, c := range []struct {
		host string
		address
		want string
	}{
		{defaultHost, address{}, "http://127.0.0.1:8086"},
		{defaultHost, address{ssl: true}, "https://127.0.0.1:8086"},
		{defaultHost, address{port: 80}, "http://127.0.0.1:80"},
		{"db1", address{}, "http://db1:8086"},
		{"db1", address{port: 443, ssl: true, prefix: "/tsdb/"}, "https://db1:443/tsdb"},
		{"db1:9", address{ssl: true}, "https://db1:9"},
		{"[::1]", address{}, "http://[::1]:8086"},
		{"https://db1", address{ssl: true}, "https://db1"},
		{"https://db1/a", address{port: 8086, prefix: "b"}, "https://db1:8086/a/b"},
		{"http://db1", address{ssl: true}, "!-ssl is not what -host http://db1 says"},
		{"db1:9", address{port: 8}, "!-port 8 is not what -host http://db1:9 says"},
		{"db1", address{port: 70000}, "!-port 70000 is no port"},
	} {
		got, err := c.of(c.host)
		if text, wrong := strings.CutPrefix(c.want, "!"); wrong && (err == nil || err.Error() != text) || !wrong && (err != nil || got != c.want) {
			t.Errorf("%s %+v: %s, %v, want %s", c.host, c.address, got, err, c.want)
		}
	}
}
