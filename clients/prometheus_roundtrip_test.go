package clients

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"

	"tsdbd/internal/testkit/apptest"
)

var scrapeFor = flag.Duration("scrape-for", 40*time.Second, "TestPrometheusRoundTrip: how long Prometheus scrapes")

// remoteRead returns all samples of a server, by the text of their labels. The bits of
// the values are kept.
func remoteRead(target string, from, to time.Time) (map[string][]prompb.Sample, error) {
	req := &prompb.ReadRequest{Queries: []*prompb.Query{{
		StartTimestampMs: from.UnixMilli(), EndTimestampMs: to.UnixMilli(),
		Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}},
	}}}
	raw, err := req.Marshal()
	if err != nil {
		return nil, err
	}
	resp, err := http.Post(target, "application/x-protobuf", bytes.NewReader(snappy.Encode(nil, raw)))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %.300s", resp.Status, b)
	}
	if b, err = snappy.Decode(nil, b); err != nil {
		return nil, err
	}
	var answer prompb.ReadResponse
	if err := answer.Unmarshal(b); err != nil {
		return nil, err
	}
	out := map[string][]prompb.Sample{}
	for _, s := range answer.Results[0].Timeseries {
		var names []string
		for _, l := range s.Labels {
			names = append(names, fmt.Sprintf("%s=%q", l.Name, l.Value))
		}
		slices.Sort(names)
		out[strings.Join(names, ",")] = s.Samples
	}
	return out, nil
}

// sameSamples says how samples differ, to the last bit.
func sameSamples(got, want map[string][]prompb.Sample) error {
	for name, w := range want {
		g := got[name]
		if len(g) != len(w) {
			return fmt.Errorf("%s has %d samples, want %d", name, len(g), len(w))
		}
		for i := range w {
			if g[i].Timestamp != w[i].Timestamp || math.Float64bits(g[i].Value) != math.Float64bits(w[i].Value) {
				return fmt.Errorf("%s: sample %d is %v (%x), want %v (%x)", name, i, g[i], math.Float64bits(g[i].Value), w[i], math.Float64bits(w[i].Value))
			}
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%d series, want %d", len(got), len(want))
	}
	return nil
}

// restless serves metrics that come and go, with values that are no numbers. It does
// not answer every seventh scrape. It has no -0, of which remote write leaves out the
// sign.
func restless() http.Handler {
	var scrapes atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := scrapes.Add(1)
		if n%7 == 0 {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "restless_total %d\n", n)
		for i := range int64(20) {
			if (n/(i+1))%2 == 0 {
				fmt.Fprintf(w, "restless_value{i=\"%d\"} %v\n", i, []any{"NaN", "+Inf", "-Inf", float64(n) / 3}[(n+i)%4])
			}
		}
	})
}

// TestPrometheusRoundTrip has a Prometheus scrape itself, the server, and something
// restless, and write all of it to the server. Then both must have the same samples, to
// the last bit, with the staleness markers.
func TestPrometheusRoundTrip(t *testing.T) {
	s := newSuite(t, "Prometheus, in and out")
	bin := s.need("prometheus", "apt-get install prometheus")
	server := apptest.Start(t)
	server.Query("", "CREATE DATABASE prom")
	exporter := httptest.NewServer(restless())
	defer exporter.Close()
	self := apptest.FreeAddress(t)
	targets := fmt.Sprintf("%q, %q, %q", self, strings.TrimPrefix(server.URL, "http://"), strings.TrimPrefix(exporter.URL, "http://"))
	config := fmt.Sprintf("scrape_configs:\n- job_name: all\n  scrape_interval: 1s\n  static_configs:\n  - targets: [%s]\n"+
		"remote_write:\n- url: %s/api/v1/write?db=prom\n  queue_config:\n    batch_send_deadline: 500ms\n", targets, server.URL)
	began := time.Now()
	writer := prometheusAt(t, bin, config, self)
	time.Sleep(*scrapeFor)
	end := time.Now()
	var want, got map[string][]prompb.Sample
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) { // the last samples are on their way
		if want, err = remoteRead(writer+"/api/v1/read", began, end); err != nil {
			continue
		}
		if got, err = remoteRead(server.URL+"/api/v1/prom/read?db=prom", began, end); err != nil {
			continue
		}
		if err = sameSamples(got, want); err == nil {
			break
		}
	}
	s.check("the same samples", err)
	samples, stale, odd := 0, 0, 0
	for _, series := range want {
		for _, one := range series {
			samples++
			switch {
			case value.IsStaleNaN(one.Value):
				stale++
			case math.IsNaN(one.Value), math.IsInf(one.Value, 0):
				odd++
			}
		}
	}
	t.Logf("%d series, %d samples, %d of them staleness markers, %d NaN or infinite, in %v", len(want), samples, stale, odd, end.Sub(began).Round(time.Second))
	if stale == 0 || odd == 0 {
		s.check("markers", fmt.Errorf("%d staleness markers, %d NaN or infinite", stale, odd))
	}
	for _, q := range []string{
		`count({__name__!=""})`, `sum by (job) (count_over_time(tsdbd_http_requests_total[20s]))`, `restless_value`, `absent(restless_total)`,
		`sum(rate(tsdbd_http_requests_total[15s]))`, `changes(restless_total[20s:1s])`, `up`,
	} { // Prometheus 2 has closed windows: no sample is on a bound but by chance
		at := fmt.Sprintf("%.3f", float64(end.UnixMilli()-2000)/1000)
		a, err := askAt(writer, q, at)
		s.check(q, err)
		b, err := askAt(server.URL+"/prometheus/prom", q, at)
		s.check(q, err)
		s.equal("same answer: "+q, b, a)
	}
}
