package apptest

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestPromQLIsAQuery writes line protocol, asks in PromQL with a client that does not
// read, and ends that query in InfluxQL. Then it changes the default database and the
// lookback while the server runs.
func TestPromQLIsAQuery(t *testing.T) {
	t.Parallel()
	file := TempFile(t, "")
	s := Start(t, "-config", file)
	var lines strings.Builder
	for i := range 300 {
		fmt.Fprintf(&lines, "cpu,host=h%d usage=%d 60000000000\n", i, i)
	}
	s.Query("", "CREATE DATABASE prometheus; CREATE DATABASE later")
	s.Write("prometheus", lines.String())
	s.Write("later", "cpu,host=x usage=7 60000000000")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /api/v1/query_range?query=cpu_usage&start=60&end=359&step=0.03 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	running := regexp.MustCompile(`\[(\d+),"cpu_usage","prometheus"`)
	list := func() []string { return running.FindStringSubmatch(s.Query("", "SHOW QUERIES")) }
	await := func(what string, done func() bool) {
		t.Helper()
		for begin := time.Now(); !done(); time.Sleep(10 * time.Millisecond) {
			if time.Since(begin) > time.Minute {
				t.Fatalf("%s: %s", what, s.Query("", "SHOW QUERIES"))
			}
		}
	}
	await("the query is not shown", func() bool { return list() != nil })
	s.Query("", "KILL QUERY "+list()[1])
	await("the query goes on", func() bool { return list() == nil })

	ask := func(at string) string {
		_, body := s.as('n', "POST", "/api/v1/query", url.Values{"query": {`sum(cpu_usage)`}, "time": {at}})
		return body
	}
	if body := ask("359"); !strings.Contains(body, `[359,"44850"]`) {
		t.Error(body)
	}
	if body := ask("361"); !strings.Contains(body, `"result":[]`) {
		t.Error(body)
	}
	if err := os.WriteFile(file, []byte("[prometheus]\ndatabase = \"later\"\nlookback-delta = \"10m\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Reload(`changed="prometheus.database, prometheus.lookback-delta" at_restart=nothing`)
	if body := ask("361"); !strings.Contains(body, `[361,"7"]`) {
		t.Error(body)
	}
}
