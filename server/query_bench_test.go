package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"tsdbd/httpapi"
	"tsdbd/internal/proc"
	"tsdbd/internal/testkit/load"
	"tsdbd/server/memory"
	"tsdbd/store"
)

// BenchmarkShortQuery asks the small questions of a dashboard, each for random
// hosts and times: what a query costs before and after the data. The handler is
// called as net/http would call it.
func BenchmarkShortQuery(b *testing.B) {
	const hosts, steps = 100, 24 * 360 // a day, a row every 10 s
	s := openScaled(b, store.Options{})
	g := load.NewDevops(hosts, steps)
	w := &scaleWriter{s: s, unit: 1}
	for {
		var n int
		if w.body, n = g.Next(w.body[:0], 10_000); n == 0 {
			break
		}
		if err := w.send(); err != nil {
			b.Fatal(err)
		}
	}
	s.settle()
	h := httpapi.New(httpapi.Options{Writer: engine{Store: s.store}, Query: s.query})
	defer h.Close()
	r := rand.New(rand.NewPCG(1, 1))
	clock := func(step int) string {
		return time.Unix(0, load.DevopsTime(step)).UTC().Format(time.RFC3339)
	}
	for _, c := range []struct {
		name   string
		fields string
		hosts  int
		hours  int
		every  string
	}{
		{"1-1-1", "max(usage_user)", 1, 1, "1m"},
		{"1-1-12", "max(usage_user)", 1, 12, "1m"},
		{"1-8-1", "max(usage_user)", 8, 1, "1m"},
		{"5-1-1", "max(usage_user),max(usage_system),max(usage_idle),max(usage_nice),max(usage_iowait)", 1, 1, "1m"},
		{"all-1-8", "max(*)", 1, 8, "1h"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var names []string
				for _, n := range r.Perm(hosts)[:c.hosts] {
					names = append(names, fmt.Sprintf("hostname = 'host_%d'", n))
				}
				first := r.IntN(steps - c.hours*360)
				q := fmt.Sprintf("SELECT %s FROM cpu WHERE (%s) AND time >= '%s' AND time < '%s' GROUP BY time(%s)",
					c.fields, strings.Join(names, " or "), clock(first), clock(first+c.hours*360), c.every)
				req := httptest.NewRequest(http.MethodGet, "/query?db=db&q="+url.QueryEscape(q), nil)
				rec := httptest.NewRecorder()
				if h.ServeHTTP(rec, req); rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `"values"`) {
					b.Fatal(rec.Code, rec.Body)
				}
			}
		})
	}
}

// BenchmarkTinyQuery asks a server for one host of many over a connection, as panels
// and rules do: what a query costs from socket to socket.
func BenchmarkTinyQuery(b *testing.B) {
	const start, span, step = 1_699_920_000, 3600, 15 // s
	const cores = 10
	b.Cleanup(memory.TuneGC(1 << 30))
	for _, series := range []int{1_000, 100_000} {
		host := fmt.Sprintf("host-%d", series/cores/3)
		s, err := Open(b.Context(), nodeConfig(b), Options{Stderr: io.Discard})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		var body []byte
		send := func() {
			if status, text := post(b, s.URL()+"/write?db=db&precision=s", string(body)); status != http.StatusNoContent {
				b.Fatal(status, text)
			}
			body = body[:0]
		}
		row := func(i, at int) {
			body = fmt.Appendf(body, "node_cpu_seconds_total,core=%d,dc=dc%d,host=host-%d,job=node value=%d.5 %d\n", i%cores, i/cores%5, i/cores, at/step*i%1e6, start+at)
		}
		if status, text := post(b, s.URL()+"/query?q=CREATE+DATABASE+db", ""); status != http.StatusOK {
			b.Fatal(status, text)
		}
		for i := range series { // all have a sample, the host that is asked for an hour of them
			row(i, span-step)
			if i%10_000 == 9_999 || i == series-1 {
				send()
			}
		}
		for at := 0; at < span-step; at += step {
			for i := range cores {
				row(series/cores/3*cores+i, at)
			}
		}
		send()
		for _, where := range []string{"memory", "files"} {
			if where == "files" {
				(&scaled{b: b, store: s.store, metrics: s.registry}).settle()
			}
			selector := fmt.Sprintf(`node_cpu_seconds_total{host="%s"}`, host)
			for _, q := range []struct{ name, path, parameter, text, more string }{
				{"instant", "/api/v1/query", "query", selector, fmt.Sprintf("&time=%d", start+span)},
				{"range", "/api/v1/query_range", "query", "rate(" + selector + "[5m])", fmt.Sprintf("&start=%d&end=%d&step=75", start+75, start+span)},
				{"influxql", "/query", "q", fmt.Sprintf(`SELECT last(value) FROM node_cpu_seconds_total WHERE host = '%s' AND time > %ds AND time <= %ds GROUP BY core`, host, start+span-300, start+span), ""},
			} {
				b.Run(fmt.Sprintf("series=%d/%s/%s", series, where, q.name), func(b *testing.B) {
					c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
					if err != nil {
						b.Fatal(err)
					}
					defer c.Close()
					request := fmt.Appendf(nil, "GET %s?db=db&%s=%s%s HTTP/1.1\r\nHost: x\r\n\r\n", q.path, q.parameter, url.QueryEscape(q.text), q.more)
					in := bufio.NewReaderSize(c, 1<<16)
					b.ReportAllocs()
					cpu := proc.CPUTime()
					for b.Loop() {
						if _, err := c.Write(request); err != nil {
							b.Fatal(err)
						}
						if n := readAnswer(b, in); n < cores*50 {
							b.Fatal("an answer of", n, "bytes")
						}
					}
					b.ReportMetric(float64((proc.CPUTime()-cpu).Nanoseconds())/float64(b.N), "CPU-ns/op")
				})
			}
		}
	}
}

// readAnswer reads the answer to a request without memory of its own, and returns how
// long its body is.
func readAnswer(b *testing.B, in *bufio.Reader) (n int) {
	b.Helper()
	length, chunked := 0, false
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		switch {
		case first && !bytes.Contains(line, []byte(" 200 ")):
			b.Fatalf("%s", line)
		case bytes.HasPrefix(line, []byte("Content-Length: ")):
			length = decimal(line[len("Content-Length: "):], 10)
		case bytes.HasPrefix(line, []byte("Transfer-Encoding: chunked")):
			chunked = true
		}
		if len(line) == 2 {
			break
		}
	}
	for {
		if chunked {
			line, err := in.ReadSlice('\n')
			if err != nil {
				b.Fatal(err)
			}
			length = decimal(line, 16)
		}
		if _, err := in.Discard(length); err != nil {
			b.Fatal(err)
		}
		n += length
		if !chunked {
			return n
		}
		if _, err := in.Discard(2); err != nil {
			b.Fatal(err)
		}
		if length == 0 {
			return n
		}
	}
}

// decimal reads the digits that a line begins with.
func decimal(line []byte, base int) (n int) {
	for _, c := range line {
		d := bytes.IndexByte([]byte("0123456789abcdef"), c)
		if d < 0 {
			return n
		}
		n = n*base + d
	}
	return n
}
