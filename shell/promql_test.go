package shell

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"tsdbd/exchange"
)

// prometheus answers each path of Prometheus' API, and keeps the last request.
type prometheus struct {
	byPath map[string]string
	asked  *http.Request
}

func (p *prometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	p.asked = r
	text, ok := p.byPath[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusUnprocessableEntity)
		text = `{"status":"error","errorType":"execution","error":"no such metric"}`
	}
	_, _ = io.WriteString(w, text)
}

func startPromQL(t *testing.T, byPath map[string]string) (*Session, *prometheus, *strings.Builder) {
	t.Helper()
	p := &prometheus{byPath: byPath}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	out := new(strings.Builder)
	return &Session{
		Client: &exchange.Client{URL: server.URL}, Out: out,
		Settings: Settings{Database: "demo", RetentionPolicy: "two", Language: "promql", Precision: "rfc3339", Format: "table", ChunkSize: 2},
	}, p, out
}

const (
	vectorAnswer = `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up","host":"a"},"value":[1767571200.5,"1"]},{"metric":{"__name__":"up","job":"x"},"value":[1767571200.5,"NaN"]}]},"warnings":["careful"]}`
	matrixAnswer = `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"up","host":"a"},"values":[[1767571200,"1"],[1767571260,"+Inf"]]},{"metric":{"host":"b"},"values":[[1767571260,"2.5"]],"histograms":[[1767571320,{"count":"3","sum":"1.5"}]]}]}}`
	scalarAnswer = `{"status":"success","data":{"resultType":"scalar","result":[1767571200,"7"]}}`
	stringAnswer = `{"status":"success","data":{"resultType":"string","result":[1767571200,"7 of 9"]}}`
)

// TestPromQL writes answers of PromQL in each format.
func TestPromQL(t *testing.T) {
	f := func(answer, format, precision, want string) {
		t.Helper()
		s, _, out := startPromQL(t, map[string]string{"/api/v1/query": answer})
		s.Format, s.Precision = format, precision
		if err := s.Line(context.Background(), "up;"); err != nil {
			t.Error(err)
		}
		if out.String() != want {
			t.Errorf("%s:\n%s\nwant:\n%s", format, out, want)
		}
	}
	f(vectorAnswer, "table", "rfc3339", `time                   | __name__ | host | job | value
-----------------------+----------+------+-----+------
2026-01-05T00:00:00.5Z | up       | a    |     |     1
2026-01-05T00:00:00.5Z | up       |      | x   |   NaN
(2 rows)
careful
`)
	f(vectorAnswer, "csv", "ms", `name,tags,time,value
up,host=a,1767571200500,1
up,job=x,1767571200500,NaN
careful
`)
	f(vectorAnswer, "json", "rfc3339", vectorAnswer)
	f(matrixAnswer, "column", "s", `name: up
tags: host=a
time       value
----       -----
1767571200 1
1767571260 +Inf

tags: host=b
time       value
----       -----
1767571260 2.5
1767571320 {"count":"3","sum":"1.5"}
`)
	f(scalarAnswer, "table", "rfc3339", `time                 | value
---------------------+------
2026-01-05T00:00:00Z |     7
(1 row)
`)
	f(stringAnswer, "column", "s", "time       value\n----       -----\n1767571200 7 of 9\n")
	f(`{"status":"success","data":{"resultType":"vector","result":[]}}`, "table", "s", "no series\n")
}

// TestRange holds which times PromQL is asked for.
func TestRange(t *testing.T) {
	now := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	for words, want := range map[string]string{
		"":                     "time=1767614400",
		"- 1h":                 "time=1767610800",
		"2h":                   "end=1767614400&start=1767607200&step=30",
		"2h 1h":                "end=1767610800&start=1767607200&step=15",
		"1d now 5m":            "end=1767614400&start=1767528000&step=300",
		"2026-01-05 0s 500ms":  "end=1767614400&start=1767571200&step=0.5",
		"2026-01-05T00:00:00Z": "end=1767614400&start=1767571200&step=180",
		"1m":                   "end=1767614400&start=1767614340&step=1",
		"1h 2h":                "!the range ends before it starts",
		"yesterday":            `!"yesterday" is not a time`,
		"1h 0s 0s":             "!the step is a duration",
		"- 0s 5m":              "!a step needs the start of a range",
	} {
		w := append(strings.Fields(words), "", "", "")
		got, err := Range{strings.TrimPrefix(w[0], "-"), w[1], w[2]}.times(now)
		if text, wrong := strings.CutPrefix(want, "!"); wrong != (err != nil) || wrong && !strings.Contains(err.Error(), text) || !wrong && got.Encode() != want {
			t.Errorf("%q: %s, %v, want %s", words, got.Encode(), err, want)
		}
	}
}

// TestPromQLCommands asks for a range, draws it, and shows what the server refuses.
func TestPromQLCommands(t *testing.T) {
	s, p, out := startPromQL(t, map[string]string{"/api/v1/query_range": matrixAnswer})
	line := func(text string) {
		t.Helper()
		if err := s.Line(context.Background(), text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := s.Line(context.Background(), "up"); err == nil || err.Error() != "no such metric" {
		t.Errorf("a refusal is %v", err)
	}
	s.Partial = true
	line("range 1h now 5m")
	line("sum(up)")
	if f := p.asked.Form; f.Get("partial") != "true" || f.Get("query") != "sum(up)" || f.Get("step") != "300" || f.Get("db") != "demo" || f.Get("rp") != "two" {
		t.Errorf("asked %v", p.asked.Form)
	}
	line("range")
	line("plot")
	out.Reset()
	line("up")
	if f := p.asked.Form; f.Get("step") != "15" || !strings.Contains(out.String(), "┼") || !strings.Contains(out.String(), "─ up host=a\n") {
		t.Errorf("plot of %v:\n%s", f, out)
	}
	line("plot")
	line("format line")
	if err := s.Line(context.Background(), "up"); err == nil || !strings.Contains(err.Error(), "use another format than line") {
		t.Errorf("line protocol: %v", err)
	}
	line("lang influxql")
	if err := s.Line(context.Background(), "lang flux"); err == nil || !strings.Contains(err.Error(), "the language is one of influxql, promql") {
		t.Errorf("lang flux: %v", err)
	}
}

// TestPromFunctions holds the list of functions against that of Prometheus.
func TestPromFunctions(t *testing.T) {
	if want := slices.Sorted(maps.Keys(parser.Functions)); !slices.Equal(promFunctions, want) {
		t.Errorf("the functions are %q, want %q", promFunctions, want)
	}
}

// TestCompletePromQL completes the last word of expressions.
func TestCompletePromQL(t *testing.T) {
	s, p, _ := startPromQL(t, map[string]string{
		"/api/v1/label/__name__/values": `{"data":["up","cpu_usage"]}`,
		"/api/v1/labels":                `{"data":["__name__","host","job"]}`,
		"/api/v1/label/host/values":     `{"data":["a \"b\"","web"]}`,
	})
	c := &completer{session: s}
	f := func(line, word, match string, want ...string) {
		t.Helper()
		p.asked = nil
		gotWord, got := c.completePromQL(line)
		if gotWord != word || !slices.Equal(got, want) {
			t.Errorf("%s: %q %q, want %q %q", line, gotWord, got, word, want)
		}
		if p.asked != nil && p.asked.Form.Get("match[]") != match {
			t.Errorf("%s asks for %q, want %q", line, p.asked.Form.Get("match[]"), match)
		}
	}
	f("sum(cpu_u", "cpu_u", `{__name__=~"(?i)cpu_u.*"}`, "cpu_usage")
	f("histogram_q", "histogram_q", `{__name__=~"(?i)histogram_q.*"}`, "histogram_quantile(", "histogram_quantiles(")
	f("up{", "", "up", "host", "job")
	f(`up{job="x",h`, "h", "up", "host")
	f(`up{host="`, "", "up", `a \"b\""`, `web"`)
	f(`up{job="x",host=~"w`, "w", "up", `web"`)
	f("sum(rate(up[5m])) by (h", "h", "up", "host")
	f("sum by (j", "j", "", "job")
	s.Client.URL = "http://127.0.0.1:1"
	f("up{", "", "")
}
