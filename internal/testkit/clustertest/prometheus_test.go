//go:build linux

package clustertest

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"
)

// member appends a member of a protobuf message: a text, a message, a number or a float.
func member(b []byte, field protowire.Number, v any) []byte {
	switch v := v.(type) {
	case string:
		return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
	case []byte:
		return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
	case int:
		return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(v))
	case uint64:
		return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), v)
	case float64:
		return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), math.Float64bits(v))
	}
	panic("a member has no such type")
}

// promSample is a Sample message.
func promSample(value float64, ms int) []byte { return member(member(nil, 1, value), 2, ms) }

// write1 is a request of remote write 1.0 with samples of m{via="1"} at 1 to n ms.
func write1(n int) string {
	series := member(nil, 1, member(member(nil, 1, "__name__"), 2, "m"))
	series = member(series, 1, member(member(nil, 1, "via"), 2, "1"))
	for i := range n {
		series = member(series, 2, promSample(float64(i), i+1))
	}
	return string(snappy.Encode(nil, member(nil, 1, series)))
}

// write2 is a request of remote write 2.0 with samples of m{via=...}, one at each ms. If
// bad is set, it has a series without a name, too.
func write2(via string, bad bool, ms ...int) string {
	var b []byte
	for _, symbol := range []string{"", "__name__", "m", "via", via} {
		b = member(b, 4, symbol)
	}
	series := member(nil, 1, []byte{1, 2, 3, 4})
	for _, at := range ms {
		series = member(series, 2, promSample(float64(at), at))
	}
	b = member(b, 5, series)
	if bad {
		b = member(b, 5, member(member(nil, 1, []byte{3, 4}), 2, promSample(1, 1)))
	}
	return string(snappy.Encode(nil, b))
}

// exemplars2 is a request of remote write 2.0 with a sample, an exemplar and metadata of the
// metric m. If late is set, the exemplar is older than that of another request.
func exemplars2(late bool) string {
	var b []byte
	for _, symbol := range []string{"", "__name__", "m", "via", "exemplars", "trace", "t1", "what m is"} {
		b = member(b, 4, symbol)
	}
	at := 7
	if late {
		at = 6
	}
	series := member(member(nil, 1, []byte{1, 2, 3, 4}), 2, promSample(1, at))
	series = member(series, 4, member(member(member(nil, 1, []byte{5, 6}), 2, 0.5), 3, at))
	series = member(series, 5, member(member(nil, 1, 1), 3, 7))
	return string(snappy.Encode(nil, member(b, 5, series)))
}

// read1 is a request of remote read for the metric m; chunks asks for frames.
func read1(chunks bool) string {
	b := member(nil, 1, member(member(member(nil, 1, 0), 2, 1_000_000), 3, member(member(member(nil, 1, 0), 2, "__name__"), 3, "m")))
	if chunks {
		b = member(b, 2, 1)
	}
	return string(snappy.Encode(nil, b))
}

// promRequest is a request of one of Prometheus' protocols.
type promRequest struct {
	name, path, media, encoding, body string
	samples                           int // that a write stores
}

// prometheus sends a request to a node.
func (n *node) prometheus(ctx context.Context, db string, r promRequest, position uint64) (a answer, err error) {
	method := http.MethodPost
	if r.media == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, n.URL+"/prometheus/"+db+r.path, strings.NewReader(r.body))
	if err != nil {
		return a, err
	}
	for name, value := range map[string]string{"Content-Type": r.media, "Content-Encoding": r.encoding, "Accept-Encoding": "identity"} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	if position > 0 {
		req.Header.Set("X-Tsdbd-Position", fmt.Sprint(position))
	}
	resp, err := n.c.http.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b)}, err
}

// TestPrometheusThroughAFollower sends every kind of request of Prometheus' protocols to
// the leader and to a follower, for databases of their own: the answers are the same, with
// their headers, and so is what is stored. No sample counts twice.
func TestPrometheusThroughAFollower(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: 3, env: []string{steady}})
	leader := c.leader()
	follower, third := c.others(leader)[0], c.others(leader)[1]
	for _, db := range []string{"l%2B x", "f%2B x"} { // %252B in the path: each escape is read once
		c.nodes[0].must("", `CREATE DATABASE "`+db+`"`)
	}
	c.healthy()
	const proto, proto2 = "application/x-protobuf", "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	point := member(member(member(nil, 7, member(member(nil, 1, "via"), 2, member(nil, 1, "otlp"))), 3, uint64(5e6)), 4, 2.5)
	otlp := member(nil, 1, member(nil, 2, member(nil, 2, member(member(nil, 1, "m"), 5, member(nil, 1, point)))))
	const lines = `{"metric":{"__name__":"m","via":"lines%2B"},"values":[1,null,"NaN"],"timestamps":[1,2,3]}` + "\n"
	requests := []promRequest{
		{"remote write 1.0", "/api/v1/write", proto, "snappy", write1(100), 100},
		{"remote write 2.0", "/api/v1/write", proto2, "snappy", write2("2", false, 1, 2, 3), 3},
		{"remote write 2.0, partial", "/api/v1/write", proto2, "snappy", write2("partial", true, 1, 2), 2},
		{"remote write 2.0, exemplars", "/api/v1/write", proto2, "snappy", exemplars2(false), 1},
		{"remote write 2.0, an old exemplar", "/api/v1/write", proto2, "snappy", exemplars2(true), 1},
		{"remote write 2.0, not a message", "/api/v1/write", proto2, "snappy", string(snappy.Encode(nil, []byte("\xff"))), 0},
		{"remote write, another type", "/api/v1/write", "text/plain", "snappy", write1(1), 0},
		{"remote write, another encoding", "/api/v1/write", proto, "gzip", write1(1), 0},
		{"OTLP, protobuf", "/api/v1/otlp/v1/metrics", proto, "", string(otlp), 1},
		{"OTLP, protobuf, gzip", "/api/v1/otlp/v1/metrics", proto, "gzip", zipped(string(otlp)), 1},
		{"OTLP, JSON", "/api/v1/otlp/v1/metrics", "application/json", "", `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":[{"timeUnixNano":"9000000","asDouble":1},{"asDouble":2}]}}]}]}]}`, 1},
		{"OTLP, not JSON", "/api/v1/otlp/v1/metrics", "application/json", "", `{"resource`, 0},
		{"lines", "/api/v1/import?extra_label=to%3D=a%26b", "application/json", "", lines, 3},
		{"lines, gzip", "/api/v1/import", "application/json", "gzip", zipped(lines), 3},
		{"lines, partial", "/api/v1/import", "application/json", "", lines + "{}\n", 3},
		{"text", "/api/v1/import/prometheus", "text/plain", "", "# HELP text some help\n# TYPE text counter\ntext 1 11\n", 1},
		{"text, partial", "/api/v1/import/prometheus/metrics/job/a", "text/plain", "", "m 1 12\nm{\n", 1},
		{"nothing", "/api/v1/import/prometheus", "text/plain", "", "", 0},
		{"no such policy", "/nosuch/api/v1/import", "application/json", "", lines, 0},
	}
	// What of an answer depends on the node or the time.
	strip := func(a answer) string {
		header := maps.Clone(a.header)
		for _, name := range []string{"Date", "Request-Id", "X-Request-Id", "X-Tsdbd-Position"} {
			delete(header, name)
		}
		return strings.ReplaceAll(fmt.Sprint(a.status, header, fmt.Sprintf("%q", a.body)), "f%2B x", "l%2B x")
	}
	ask := func(n *node, db string, r promRequest, position uint64) answer {
		t.Helper()
		a, err := n.prometheus(t.Context(), db, r, position)
		if err != nil {
			t.Fatalf("%s at %s: %v", r.name, n.name, err)
		}
		return a
	}
	before := map[*node]int64{}
	for _, n := range c.nodes {
		before[n] = n.metric("tsdbd_http_write_points_total")
	}
	samples := 0
	var position uint64
	for _, r := range requests {
		want, got := ask(leader, "l%252B%20x", r, 0), ask(follower, "f%252B%20x", r, 0)
		if strip(got) != strip(want) {
			t.Errorf("%s:\n at the follower %s\nat the leader %s", r.name, strip(got), strip(want))
		}
		if r.samples > 0 && got.position() <= position {
			t.Errorf("%s: position %d after %d", r.name, got.position(), position)
		}
		position = max(position, got.position(), want.position())
		samples += 2 * r.samples
	}
	counted := int64(0)
	for _, n := range c.nodes {
		counted += n.metric("tsdbd_http_write_points_total") - before[n]
	}
	if counted != int64(samples) {
		t.Errorf("%d points are counted, want %d", counted, samples)
	}
	for _, r := range []promRequest{
		{"remote read", "/api/v1/read", proto, "snappy", read1(false), 0},
		{"remote read, chunks", "/api/v1/read", proto, "snappy", read1(true), 0},
		{"remote read, not a message", "/api/v1/read", proto, "snappy", "\xff", 0},
		{"export", "/api/v1/export?match[]=m", "", "", "", 0},
		{"exemplars", "/api/v1/query_exemplars?query=m&start=0&end=1", "", "", "", 0},
		{"metadata", "/api/v1/metadata", "", "", "", 0},
		{"export without a selector", "/api/v1/export", "", "", "", 0},
		{"query", "/api/v1/query?time=0.1&query=count_over_time(m[1m])", "", "", "", 0},
	} {
		want := strip(ask(leader, "l%252B%20x", r, position))
		for _, n := range []*node{follower, third} {
			for _, db := range []string{"l%252B%20x", "f%252B%20x"} {
				if got := strip(ask(n, db, r, position)); got != want {
					t.Errorf("%s:\n at %s %.2000s\nat the leader %.2000s", r.name, n.name, got, want)
				}
			}
		}
		if r.name == "export" && (!strings.Contains(want, `\"via\":\"lines%2B\"`) || !strings.Contains(want, `\"to\":\"=a\\u0026b\"`)) {
			t.Errorf("export: %s", want)
		}
		if r.name == "exemplars" && strings.Count(want, `\"trace\":\"t1\"`) != 1 || r.name == "metadata" && (!strings.Contains(want, "what m is") || !strings.Contains(want, "some help")) {
			t.Errorf("%s: %s", r.name, want)
		}
	}
	c.verify()
	c.stop()
}

// zipped compresses a text by gzip.
func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

// metric returns a counter of a node.
func (n *node) metric(name string) (value int64) {
	n.c.t.Helper()
	a, err := n.ask(context.Background(), http.MethodGet, "/metrics", nil, "", 0)
	if err != nil || a.status != http.StatusOK {
		n.c.t.Fatalf("/metrics of %s: %d %v", n.name, a.status, err)
	}
	for line := range strings.Lines(a.body) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			var f float64
			if _, err := fmt.Sscan(rest, &f); err != nil {
				n.c.t.Fatal(err)
			}
			return int64(f)
		}
	}
	return 0
}

// numbered is a request of remote write 2.0 with samples of m{via="w"}, one at each ms, and a
// series of its own with a sample, an exemplar and metadata, which have a number.
func numbered(number int, ms []int) string {
	var b []byte
	for _, symbol := range []string{"", "__name__", "m", "via", "w", fmt.Sprintf("x%d", number), "trace", fmt.Sprintf("trace-%d.", number), fmt.Sprintf("help-%d.", number)} {
		b = member(b, 4, symbol)
	}
	series := member(nil, 1, []byte{1, 2, 3, 4})
	for _, at := range ms {
		series = member(series, 2, promSample(float64(at), at))
	}
	b = member(b, 5, series)
	series = member(member(nil, 1, []byte{1, 2, 3, 5}), 2, promSample(1, number))
	series = member(series, 4, member(member(member(nil, 1, []byte{6, 7}), 2, 0.5), 3, number))
	return string(snappy.Encode(nil, member(b, 5, member(series, 5, member(member(nil, 1, 1), 3, 8)))))
}

// TestPrometheusFailover kills the leader while Prometheus writes through all nodes. An
// answer of 204 says that all samples, exemplars and metadata are stored and how many they
// are. Prometheus drops a request that is answered with 4xx, so no answer is.
func TestPrometheusFailover(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: 3})
	c.nodes[0].must("", "CREATE DATABASE db")
	c.healthy()
	const each = 5
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	acknowledged := map[int]bool{}
	var sent atomic.Int64
	done := make(chan struct{})
	var writers sync.WaitGroup
	killed := c.leader()
	through := c.others(killed)
	var since atomic.Int64 // acknowledgements since the leader is dead
	var dead atomic.Bool
	for id := range 4 {
		writers.Go(func() {
			for ctx.Err() == nil {
				first := int(sent.Add(each)) - each + 1
				var ms []int
				for i := range each {
					ms = append(ms, first+i)
				}
				r := promRequest{path: "/api/v1/write", media: "application/x-protobuf;proto=io.prometheus.write.v2.Request", encoding: "snappy", body: numbered(first, ms)}
				for ctx.Err() == nil { // as Prometheus does: again until it is answered
					wasDead := dead.Load()
					limit, stop := context.WithTimeout(context.Background(), patience)
					a, err := through[id%len(through)].prometheus(limit, "db", r, 0)
					stop()
					if err == nil && a.status/100 == 4 {
						t.Errorf("a request is refused for good: %d %s", a.status, a.body)
						cancel()
					}
					if err != nil || a.status != http.StatusNoContent {
						time.Sleep(10 * time.Millisecond)
						continue
					}
					if n, x := a.header.Get("X-Prometheus-Remote-Write-Samples-Written"), a.header.Get("X-Prometheus-Remote-Write-Exemplars-Written"); n != fmt.Sprint(each+1) || x != "1" {
						t.Errorf("%q samples and %q exemplars are written, want %d and 1", n, x, each+1)
					}
					mu.Lock()
					for _, at := range ms {
						acknowledged[at] = true
					}
					mu.Unlock()
					if wasDead && since.Add(1) == 40 {
						close(done)
					}
					break
				}
			}
		})
	}
	killed.Kill()
	dead.Store(true)
	select {
	case <-done:
	case <-time.After(patience):
		t.Errorf("no writes after the leader was killed")
	case <-ctx.Done():
	}
	cancel()
	writers.Wait()
	c.restart(killed)
	c.healthy()
	for _, n := range c.nodes {
		a, err := n.ask(t.Context(), http.MethodGet, "/prometheus/db/api/v1/export", map[string][]string{"match[]": {`m{via="w"}`}}, "", 0)
		if err != nil || a.status != http.StatusOK {
			t.Fatalf("export of %s: %d %v", n.name, a.status, err)
		}
		found := map[int]bool{}
		for line := range strings.Lines(a.body) {
			_, times, _ := strings.Cut(line, `"timestamps":[`)
			times, _, _ = strings.Cut(times, "]")
			for text := range strings.SplitSeq(times, ",") {
				var at int
				if _, err := fmt.Sscan(text, &at); err != nil || found[at] {
					t.Fatalf("%s has %q twice: %v", n.name, text, err)
				}
				found[at] = true
			}
		}
		for _, at := range slices.Sorted(maps.Keys(acknowledged)) {
			if !found[at] {
				t.Fatalf("%s lacks the sample at %d, which was acknowledged", n.name, at)
			}
		}
		for what, path := range map[string]string{"trace": "query_exemplars?query=m&start=0&end=1000000", "help": "metadata"} {
			a, err := n.prometheus(t.Context(), "db", promRequest{path: "/api/v1/" + path}, 0)
			if err != nil || a.status != http.StatusOK {
				t.Fatalf("%s of %s: %d %v", path, n.name, a.status, err)
			}
			for at := range acknowledged {
				if at%each == 1 && !strings.Contains(a.body, fmt.Sprintf("%s-%d.", what, at)) {
					t.Errorf("%s lacks %s %d, which was acknowledged", n.name, what, at)
				}
			}
		}
	}
	t.Logf("%d samples are acknowledged of %d", len(acknowledged), sent.Load())
	c.verify()
	c.stop()
}
