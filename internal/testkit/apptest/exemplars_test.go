package apptest

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/golang/snappy"
)

// Exemplars come by all protocols of Prometheus and OTLP, are answered in the form of
// Prometheus, come back after a kill, and go with their series and database.
func TestExemplars(t *testing.T) {
	s := Start(t)
	s.Query("", "CREATE DATABASE p")
	s.Query("", "CREATE DATABASE q")
	post := func(path, media, body string, status int, want string) {
		t.Helper()
		encoding := "snappy"
		if media == "application/json" {
			encoding = ""
		} else {
			body = string(snappy.Encode(nil, []byte(body)))
		}
		got, header, answer := s.sendPrometheus('n', "POST", path, media, encoding, body)
		if written := header.Get("X-Prometheus-Remote-Write-Exemplars-Written"); got != status || written != want {
			t.Errorf("%s: %d %s, %q exemplars written, want %d, %q", path, got, answer, written, status, want)
		}
	}
	first := func(ms int64, value float64) string {
		e := message(nil).sub(1, message(nil).text(1, "trace_id").text(2, "abc")).double(2, value).number(3, ms)
		return string(message(nil).sub(1, promSeries("__name__=a,job=x", 1000, 1).sub(3, e)))
	}
	second := func(length int, ms int64) string {
		m := message(nil)
		for _, text := range []string{"", "__name__", "b", "span_id", strings.Repeat("ä", length)} {
			m = m.text(4, text)
		}
		e := message(nil).text(1, "\x03\x04").double(2, 0.5).number(3, ms)
		return string(m.sub(5, message(nil).text(1, "\x01\x02").sub(2, message(nil).double(1, 1).number(2, 1000)).sub(4, e)))
	}
	const v1, v2 = "application/x-protobuf", "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	post("/api/v1/write?db=p", v1, first(1000, 2), 204, "")
	post("/api/v1/write?db=p", v1, first(1000, 2), 204, "") // a repeated one
	post("/api/v1/write?db=p", v1, first(900, 2), 204, "")  // an older one
	post("/api/v1/write?db=p", v1, first(1500, 3), 204, "")
	post("/api/v1/write?db=p", v2, second(121, 2000), 204, "1") // of 128 characters
	post("/api/v1/write?db=p", v2, second(121, 2000), 204, "1")
	post("/api/v1/write?db=p", v2, second(121, 1000), 400, "0")
	post("/api/v1/write?db=p", v2, second(122, 3000), 204, "0")
	post("/api/v1/write?db=q", v1, first(1000, 7), 204, "")
	post("/api/v1/otlp/v1/metrics?db=p", "application/json", `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"c","histogram":{"aggregationTemporality":2,"dataPoints":[
		{"timeUnixNano":"2000000000","count":"1","sum":3,"bucketCounts":["0","1"],"explicitBounds":[1],"exemplars":[{"timeUnixNano":"1900000000","asDouble":3,"traceId":"5b8efff798038103d269b633813fc60c"}]}]}}]}]}]}`, 200, "")
	const (
		a = `{"seriesLabels":{"__name__":"a","job":"x"},"exemplars":[{"labels":{"trace_id":"abc"},"value":"2","timestamp":1},{"labels":{"trace_id":"abc"},"value":"3","timestamp":1.5}]}`
		c = `{"seriesLabels":{"__name__":"c_bucket","le":"+Inf"},"exemplars":[{"labels":{"trace_id":"5b8efff798038103d269b633813fc60c"},"value":"3","timestamp":1.9}]}`
	)
	b := `{"seriesLabels":{"__name__":"b"},"exemplars":[{"labels":{"span_id":"` + strings.Repeat("ä", 121) + `"},"value":"0.5","timestamp":2}]}`
	check := func(db, query, want string) {
		t.Helper()
		resp, err := http.Get(s.URL + "/prometheus/" + db + "/api/v1/query_exemplars?start=0&end=10&query=" + url.QueryEscape(query))
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(resp)
		if err != nil {
			t.Fatal(err)
		}
		if got != `{"status":"success","data":[`+want+`]}` {
			t.Errorf("%s of %s: %s\nwant %s", query, db, got, want)
		}
	}
	check("p", `rate(a[5m]) + {__name__=~"b|c_.*"}`, a+","+b+","+c)
	check("p", `a{job="y"}`, "")
	check("q", "a", strings.ReplaceAll(strings.Replace(a, `,{"labels":{"trace_id":"abc"},"value":"3","timestamp":1.5}`, "", 1), `"2"`, `"7"`))
	s.Kill()
	s.Restart()
	check("p", `a or b`, a+","+b)
	s.Query("p", "DROP MEASUREMENT a")
	check("p", `a or b`, b)
	s.Query("", "DROP DATABASE q")
	s.Query("", "CREATE DATABASE q")
	check("q", "a", "")
}
