package apptest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

var (
	longStrings = flag.Int("long-strings", 75, "how many strings of 1 MB TestLongStringsInLittleMemory reads")
	longTags    = flag.Int("long-tags", 500, "how many tag values of 60 kB it reads")
)

// smallMemory starts a server in a quarter of a gigabyte with data that does not fit:
// measurement big of strings of 1 MB, measurement wide of long tag values, and
// small.
func smallMemory(t *testing.T) (s *Server, limit int64) {
	limit = 256 << 20
	_, wrap := memoryCgroup(t, limit)
	s = New(t)
	s.Wrap = wrap
	s.Restart()
	s.Query("", "CREATE DATABASE db")
	text := strings.Repeat("x", 1_000_000)
	for i := range *longStrings {
		writeUntilStored(t, s, fmt.Sprintf("big,h=%d s=\"%d%s\",n=%di %d\n", i%10, i, text, i, int64(i)*1e9))
	}
	var b strings.Builder
	for i := range *longTags {
		fmt.Fprintf(&b, "wide,v=%d%s n=1 %d\n", i, text[:60_000], i)
		if b.Len() > 4<<20 || i == *longTags-1 {
			writeUntilStored(t, s, b.String())
			b.Reset()
		}
	}
	writeUntilStored(t, s, "small n=1 1\nsmall n=2 2\n")
	return s, limit
}

// writeUntilStored sends lines again while the server has no memory for them.
func writeUntilStored(t *testing.T, s *Server, lines string) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		stored, err := s.Post(t.Context(), "db", lines)
		if err != nil && !cutOff(err) {
			t.Fatal(err, "\n", tail(s.Log()))
		}
		if stored {
			return
		}
		if time.Since(begin) > 2*time.Minute {
			t.Fatal("a write is refused for two minutes")
		}
	}
}

// lastBytes keeps the end of what is written to it, and counts.
type lastBytes struct {
	tail []byte
	n    int64
}

func (l *lastBytes) Write(b []byte) (int, error) {
	l.n += int64(len(b))
	l.tail = append(l.tail, b[max(0, len(b)-4096):]...)
	l.tail = l.tail[max(0, len(l.tail)-4096):]
	return len(b), nil
}

// ask runs a query and returns the end of the answer.
func ask(t *testing.T, s *Server, q, how, accept string) (got lastBytes, err error) {
	t.Helper()
	method := http.MethodGet
	if strings.Contains(q, "INTO") {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/query?db=db&q="+url.QueryEscape(q)+"&"+how, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := s.http.Do(req)
	if err != nil {
		return got, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(&got, resp.Body)
	return got, err
}

// A query of more strings than there is memory is answered, or refused, and
// never ends the server.
func TestLongStringsInLittleMemory(t *testing.T) {
	t.Parallel()
	s, limit := smallMemory(t)
	answered := 0
	for _, c := range []struct{ q, how, accept string }{
		{q: "SELECT * FROM big"},
		{q: "SELECT * FROM big", how: "chunked=true"},
		{q: "SELECT * FROM big", how: "chunked=true&chunk_size=1000000"},
		{q: "SELECT * FROM big", how: "pretty=true"},
		{q: "SELECT * FROM big", accept: "application/csv"},
		{q: "SELECT * FROM big", accept: "application/x-msgpack"},
		{q: "SELECT * FROM big ORDER BY time DESC"},
		{q: "SELECT s FROM big WHERE n >= 0"},
		{q: "SELECT s FROM big WHERE s != ''"},
		{q: "SELECT * FROM big GROUP BY h"},
		{q: "SELECT s FROM big LIMIT 300"},
		{q: "SELECT sample(s, 300) FROM big"},
		{q: "SELECT first(s), last(s) FROM big"},
		{q: "SELECT first(s) FROM big GROUP BY time(1s)"},
		{q: "SELECT last(s), n FROM big GROUP BY h"},
		{q: "SELECT distinct(s) FROM big"},
		{q: "SELECT count(distinct(s)) FROM big"},
		{q: "SELECT mode(s) FROM big GROUP BY h"},
		{q: "SELECT max(n), s FROM big GROUP BY time(1s)"},
		{q: "SELECT top(n, 300), s FROM big"},
		{q: "SELECT s FROM (SELECT s FROM big)"},
		{q: "SELECT count(s) FROM (SELECT s FROM big GROUP BY h)"},
		{q: "SELECT first(s) FROM (SELECT last(s) AS s FROM big GROUP BY h)"},
		{q: "SELECT s INTO copy FROM big"},
		{q: "EXPLAIN ANALYZE SELECT s FROM big"},
		{q: "SHOW TAG VALUES FROM wide WITH KEY = v"},
		{q: "SHOW TAG VALUES FROM wide WITH KEY = v WHERE v =~ /x/"},
		{q: "SHOW TAG VALUES FROM wide WITH KEY = v", accept: "application/x-msgpack"},
		{q: "SHOW TAG VALUES EXACT CARDINALITY FROM wide WITH KEY = v"},
		{q: "SHOW SERIES"},
		{q: "SHOW SERIES FROM wide WHERE v =~ /x/"},
		{q: "SHOW SERIES EXACT CARDINALITY FROM wide GROUP BY v"},
		{q: "SELECT n FROM wide GROUP BY v"},
		{q: "SELECT * FROM wide"},
		{q: "SELECT max(n), v FROM wide"},
		{q: "SELECT count(n) FROM wide GROUP BY v"},
		{q: "SELECT count(n) FROM (SELECT n FROM wide GROUP BY v)"},
	} {
		name := strings.TrimSpace(c.q + " " + c.how + " " + c.accept)
		memory := watch(s)
		begin := time.Now()
		got, err := ask(t, s, c.q, c.how, c.accept)
		for err == nil && bytes.Contains(got.tail, []byte("the server is short of memory, try again")) && time.Since(begin) < time.Minute {
			time.Sleep(50 * time.Millisecond)
			got, err = ask(t, s, c.q, c.how, c.accept)
		}
		took := time.Since(begin)
		_, anon := memory.end()
		if err != nil {
			t.Fatalf("%s: %v after %d bytes\n%s", name, err, got.n, tail(s.Log()))
		}
		refused := bytes.Contains(got.tail, []byte("query memory limit exceeded"))
		t.Logf("%-70s %5d MiB %6d kB %6v refused %v", name, anon, got.n>>10, took.Round(time.Millisecond), refused)
		if !refused && bytes.Contains(got.tail, []byte("error")) {
			t.Errorf("%s: %s", name, got.tail[max(0, len(got.tail)-300):])
		}
		if anon >= limit>>20 {
			t.Errorf("%s: anonymous memory of %d MiB is above the limit", name, anon)
		}
		if !refused {
			answered++
		}
	}
	if answered < 10 {
		t.Errorf("only %d queries are answered", answered)
	}
	if n, err := s.Count("db", "SELECT count(n) FROM small"); n != 2 || err != nil {
		t.Errorf("afterwards: %d %v\n%s", n, err, tail(s.Log()))
	}
}

// Clients that ask for much and do not read must not keep others from their
// answers.
func TestClientsThatDoNotRead(t *testing.T) {
	t.Parallel()
	s, _ := smallMemory(t)
	var lines strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&lines, "rows s=\"%0100d\" %d\n", i, int64(i)*1e9)
		if lines.Len() > 2<<20 || i == 299_999 {
			writeUntilStored(t, s, lines.String())
			lines.Reset()
		}
	}
	for i := range 24 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		m, accept := []string{"rows", "big", "rows"}[i%3], []string{"application/json", "text/csv", "application/x-msgpack", "application/json"}[i%4]
		if _, err := fmt.Fprintf(conn, "GET /query?db=db&q=select+*+from+%s HTTP/1.1\r\nHost: x\r\nAccept: %s\r\n\r\n", m, accept); err != nil {
			t.Fatal(err)
		}
	}
	memory := watch(s)
	for i := range 40 {
		n, err := s.Count("db", "SELECT count(n) FROM small")
		if err != nil || n != 2 {
			t.Errorf("query %d: %d %v", i, n, err)
		}
		_, body, err := s.Do(context.Background(), http.MethodGet, "/query", url.Values{"db": {"db"}, "q": {"SELECT count(distinct(s)) FROM rows WHERE time < 1000s"}}, "")
		if err != nil || !strings.Contains(body, "1000]") {
			t.Errorf("query %d: %v %s", i, err, body)
		}
		time.Sleep(50 * time.Millisecond)
	}
	_, anon := memory.end()
	t.Logf("anonymous memory %d MiB", anon)
}
