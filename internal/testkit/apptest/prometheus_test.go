package apptest

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"
)

// message builds protobuf messages: members of texts, numbers and messages.
type message []byte

func (m message) text(field protowire.Number, s string) message {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), s)
}

func (m message) sub(field protowire.Number, s message) message { return m.text(field, string(s)) }

func (m message) number(field protowire.Number, n int64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), uint64(n))
}

func (m message) double(field protowire.Number, f float64) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, field, protowire.Fixed64Type), math.Float64bits(f))
}

func (m message) fixed(field protowire.Number, n uint64) message {
	return protowire.AppendFixed64(protowire.AppendTag(m, field, protowire.Fixed64Type), n)
}

// promSeries is a TimeSeries of labels a=b and samples of time and value.
func promSeries(labels string, samples ...float64) message {
	var m message
	for pair := range strings.SplitSeq(labels, ",") {
		name, value, _ := strings.Cut(pair, "=")
		m = m.sub(1, message(nil).text(1, name).text(2, value))
	}
	for i := 0; i+1 < len(samples); i += 2 {
		m = m.sub(2, message(nil).double(1, samples[i+1]).number(2, int64(samples[i])))
	}
	return m
}

// prom posts a message.
func (s *Server) prom(path string, m message) (status int, header http.Header, body []byte) {
	s.t.Helper()
	req, err := http.NewRequest("POST", s.URL+path, bytes.NewReader(snappy.Encode(nil, m)))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Encoding", "snappy")
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := s.http.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, body
}

// readPrometheus returns the series that a remote read finds, one text each.
func (s *Server) readPrometheus(db string, start, end int64, matchers ...string) []string {
	s.t.Helper()
	q := message(nil).number(1, start).number(2, end)
	for _, m := range matchers {
		for kind, op := range []string{"=", "!=", "=~", "!~"} {
			name, value, ok := strings.Cut(m, " "+op+" ")
			if ok {
				q = q.sub(3, message(nil).number(1, int64(kind)).text(2, name).text(3, value))
			}
		}
	}
	status, header, body := s.prom("/api/v1/prom/read?db="+db, message(nil).sub(1, q))
	if status != 200 || header.Get("Content-Type") != "application/x-protobuf" || header.Get("Content-Encoding") != "snappy" {
		s.t.Fatalf("read: %d %v %q", status, header, body)
	}
	plain, err := snappy.Decode(nil, body)
	if err != nil {
		s.t.Fatal(err)
	}
	members := func(b []byte, f func(field protowire.Number, num uint64, data []byte)) {
		for len(b) > 0 {
			field, kind, n := protowire.ConsumeTag(b)
			b = b[n:]
			var num uint64
			var data []byte
			switch kind {
			case protowire.VarintType:
				num, n = protowire.ConsumeVarint(b)
			case protowire.Fixed64Type:
				num, n = protowire.ConsumeFixed64(b)
			default:
				data, n = protowire.ConsumeBytes(b)
			}
			if n < 0 {
				s.t.Fatalf("answer %q", plain)
			}
			b = b[n:]
			f(field, num, data)
		}
	}
	var found []string
	members(plain, func(_ protowire.Number, _ uint64, result []byte) {
		members(result, func(_ protowire.Number, _ uint64, series []byte) {
			var labels, samples []string
			members(series, func(field protowire.Number, _ uint64, data []byte) {
				var texts [3]string
				var value float64
				var at int64
				members(data, func(n protowire.Number, num uint64, text []byte) {
					switch {
					case field == 1:
						texts[n] = string(text)
					case n == 1:
						value = math.Float64frombits(num)
					default:
						at = int64(num)
					}
				})
				if field == 1 {
					labels = append(labels, texts[1]+"="+texts[2])
				} else {
					samples = append(samples, fmt.Sprintf("%d:%v", at, value))
				}
			})
			if !slices.IsSorted(labels) {
				s.t.Errorf("labels are not sorted: %q", labels)
			}
			found = append(found, strings.Join(labels, ",")+" "+strings.Join(samples, " "))
		})
	})
	slices.Sort(found)
	return found
}

func TestPrometheus(t *testing.T) {
	t.Parallel()
	s := Start(t)
	run := func(q string) string {
		t.Helper()
		_, body := s.as('n', "POST", "/query?db=p&epoch=ms", url.Values{"q": {q}})
		return body
	}
	run("CREATE DATABASE p")
	nan := math.Float64frombits(0x7ff0000000000002) // the staleness marker
	status, _, body := s.prom("/api/v1/prom/write?db=p", message(nil).
		sub(1, promSeries("__name__=up,job=node,host=a", 1000, 1, 2000, 0, 3000, nan, 4000, math.Inf(1), 5000, 0.25)).
		sub(1, promSeries("__name__=up,job=node,host=b", 1000, 1)).
		sub(1, promSeries("__name__=up,job=other b,empty=", -1500, 7)).
		sub(1, promSeries("job=nameless", 1000, 3)).
		sub(3, message(nil).text(2, "metadata")).
		number(99, 1))
	if status != 204 || len(body) != 0 {
		t.Fatalf("write: %d %s", status, body)
	}
	if got := run(`SELECT value FROM up WHERE host='a'`); !strings.Contains(got, `"values":[[1000,1],[2000,0],[4000,null],[5000,0.25]]`) {
		t.Errorf("stored: %s", got)
	}
	if got := run(`SHOW SERIES`); !strings.Contains(got, `["prom_metric_not_specified,job=nameless"],["up,__name__=up,host=a,job=node"],["up,__name__=up,host=b,job=node"],["up,__name__=up,job=other\\ b"]`) {
		t.Errorf("series: %s", got)
	}
	if status, body := s.Send("/write?db=p&precision=ms", "lines,host=a value=9,other=1i 1000"); status != 204 {
		t.Fatal(status, body)
	}
	f := func(start, end int64, want []string, matchers ...string) {
		t.Helper()
		if got := s.readPrometheus("p", start, end, matchers...); !slices.Equal(got, want) {
			t.Errorf("%v from %d to %d:\n got %q\nwant %q", matchers, start, end, got, want)
		}
	}
	a, b := "__name__=up,host=a,job=node", "__name__=up,host=b,job=node"
	other := "__name__=up,job=other b -1500:7"
	f(-5000, 5000, []string{a + " 1000:1 2000:0 3000:NaN 4000:+Inf 5000:0.25", b + " 1000:1", other}, "__name__ = up")
	f(1000, 2000, []string{a + " 1000:1 2000:0", b + " 1000:1"}, "__name__ = up") // both ends inclusive
	f(1001, 1999, nil, "__name__ = up")
	f(0, 9000, []string{b + " 1000:1"}, "__name__ = up", "host = b")
	f(0, 9000, []string{b + " 1000:1"}, "__name__ = up", "host != a")
	f(-5000, 9000, []string{other}, "__name__ = up", "host = ")
	f(0, 1500, []string{a + " 1000:1", b + " 1000:1"}, "__name__ = up", "host =~ a|b")
	f(0, 1500, nil, "__name__ = up", "job =~ nod") // anchored
	f(0, 1500, []string{a + " 1000:1"}, "__name__ = up", "host !~ b|c")
	f(0, 1500, []string{a + " 1000:1", b + " 1000:1"}, "__name__ =~ u.", "job = node")
	f(0, 1500, []string{"__name__=lines,host=a 1000:9"}, "__name__ = lines")
	f(0, 1500, nil, "__name__ = nosuch")
	f(math.MinInt64, math.MaxInt64, []string{b + " 1000:1"}, "host = b", "__name__ != x")

	g := func(path string, m message, want int, text string) {
		t.Helper()
		if status, _, body := s.prom(path, m); status != want || !strings.Contains(string(body), text) {
			t.Errorf("%s %q: %d %s, want %d %s", path, m, status, body, want, text)
		}
	}
	g("/api/v1/prom/write", nil, 400, "database is required")
	g("/api/v1/prom/write?db=x", nil, 404, `database not found: \"x\"`)
	g("/api/v1/prom/write?db=p&rp=x", message(nil).sub(1, promSeries("__name__=m", 1, 1)), 404, "retention policy not found: x")
	g("/api/v1/prom/write?db=p", nil, 204, "")
	g("/api/v1/prom/write?db=p", message("\xff\xff"), 400, "proto")
	g("/api/v1/prom/write?db=p", message(nil).sub(1, promSeries("__name__=m,time=x", 1, 1)), 400, `partial write: invalid tag key: input tag \"time\" on measurement \"m\" is invalid dropped=1`)
	g("/api/v1/prom/write?db=p", message(nil).sub(1, promSeries("__name__=m,a=b,a=c", 1, 1)), 400, `duplicate tag`)
	g("/api/v1/prom/write?db=p", message(nil).sub(1, promSeries(`__name__=m,a=b\`, 1, 1)), 400, `ends in a backslash`)
	g("/api/v1/prom/write?db=p", message(nil).sub(1, promSeries(`__name__=m,a=`+strings.Repeat("x", 70000), 1, 1)), 400, `max key length exceeded`)
	g("/api/v1/prom/write?db=p", message(nil).sub(1, promSeries(`__name__=m`, 1e16, 1)), 400, `time outside range`)
	g("/api/v1/prom/write?db=p", message(nil).sub(1, promSeries("__name__=lines,host=a", 1, 1)), 204, "")
	g("/api/v1/prom/read", nil, 400, "database is required")
	g("/api/v1/prom/read?db=x", nil, 404, "database not found")
	g("/api/v1/prom/read?db=p", nil, 200, "")
	g("/api/v1/prom/read?db=p", message(nil).sub(1, message(nil).sub(3, message(nil).number(1, 2).text(2, "a").text(3, "("))), 400, "missing closing )")
	// A length that the bytes cannot have costs nothing.
	for _, bomb := range []string{"\xff\xff\xff\x07\x00", "\x80\x80\x80\x80\x08"} {
		resp, err := s.http.Post(s.URL+"/api/v1/prom/write?db=p", "application/x-protobuf", strings.NewReader(bomb))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 400 && resp.StatusCode != 413 {
			t.Errorf("bomb: %d", resp.StatusCode)
		}
	}
}

func TestBuckets(t *testing.T) {
	t.Parallel()
	s := Start(t)
	f := func(method, path, body string, status int, want string) {
		t.Helper()
		got, answer := s.as('n', method, path, nil, body)
		if got != status || !strings.Contains(answer, want) {
			t.Errorf("%s %s %s:\n got %d %s\nwant %d %s", method, path, body, got, answer, status, want)
		}
	}
	bucket := func(name, rp, every, group string) string {
		return `{"description":"","name":"` + name + `","retentionRules":[{"type":"expire","everySeconds":` + every + `,"shardGroupDurationSeconds":` + group +
			`}],"orgId":"","schemaType":"implicit","id":"` + name + `","type":"","rp":"` + rp + `","createdAt":"0001-01-01T00:00:00Z","updatedAt":"0001-01-01T00:00:00Z"}`
	}
	const root = "/api/v2/buckets"
	f("GET", root, "", 200, `{"buckets":[],"links":{"self":`)
	f("POST", root, `{"name":"b/one","retentionRules":[{"type":"expire","everySeconds":7200,"shardGroupDurationSeconds":3600}]}`, 201, bucket("b/one", "one", "7200", "3600"))
	f("POST", root, `{"name":"b/two"}`, 201, bucket("b/two", "two", "0", "604800"))
	f("POST", root, `{"name":"c","orgID":"x"}`, 201, bucket("c/autogen", "autogen", "0", "604800"))
	f("POST", root, `{"name":"b/two"}`, 422, "already exists")
	f("POST", root, `{"name":"b/x","retentionRules":[{"everySeconds":60}]}`, 400, "retention policy duration must be at least 1h0m0s")
	f("POST", root, `{"name":"b/x","retentionRules":[{"everySeconds":-1}]}`, 400, "out of range")
	f("POST", root, `{"name":"b/x","retentionRules":[{"everySeconds":9223372036854775807}]}`, 400, "out of range")
	f("POST", root, `{"name":""}`, 400, "missing a slash")
	f("POST", root, `{"name":"../x"}`, 400, "invalid name")
	f("POST", root, `{"name":"x/y/z"}`, 400, "invalid name")
	f("POST", root, `{`, 400, "cannot parse bucket")
	f("GET", root, "", 200, `{"buckets":[`+bucket("b/one", "one", "7200", "3600")+`,`+bucket("b/two", "two", "0", "604800")+`,`+bucket("c/autogen", "autogen", "0", "604800")+`],"links":{"self":`)
	f("GET", root+"?limit=1&offset=1", "", 200, `{"buckets":[`+bucket("b/two", "two", "0", "604800")+`],"links":{"self":`)
	f("GET", root+"?after=b/two", "", 200, `{"buckets":[`+bucket("c/autogen", "autogen", "0", "604800")+`],"links":{"self":`)
	f("GET", root+"?name=b/one", "", 200, `{"buckets":[`+bucket("b/one", "one", "7200", "3600")+`],"links":{"self":`)
	f("GET", root+"?limit=x", "", 400, "limit must be a number")
	f("GET", root+"/b%2Fone", "", 200, bucket("b/one", "one", "7200", "3600"))
	f("GET", root+"/b/one", "", 200, bucket("b/one", "one", "7200", "3600"))
	f("GET", root+"/b", "", 200, bucket("b/one", "one", "7200", "3600")) // the default
	f("GET", root+"/b%2Fnone", "", 404, `bucket not found: \"b/none\"`)
	f("PATCH", root+"/b%2Fone", `{"retentionRules":[{"type":"expire","everySeconds":10800}]}`, 200, bucket("b/one", "one", "10800", "3600"))
	f("PATCH", root+"/b%2Fone", `{"name":"b/other"}`, 400, "cannot be renamed")
	f("PATCH", root+"/b%2Fnone", `{}`, 404, "bucket not found")
	f("PUT", root+"/b%2Fone", `{}`, 405, "Method Not Allowed")
	for _, part := range []string{"labels", "members", "owners", "labels/7"} {
		f("GET", root+"/b%2Fone/"+part, "", 405, "not supported in this version")
	}
	f("GET", root+"/b%2Fone/x", "", 404, "page not found")
	f("DELETE", root+"/b%2Ftwo", "", 200, "")
	f("DELETE", root+"/b%2Ftwo", "", 404, "bucket not found")
	f("GET", root+"?name=b/two", "", 200, `{"buckets":[],"links":{"self":`)
}
