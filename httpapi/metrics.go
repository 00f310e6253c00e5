package httpapi

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"tsdbd/model"
	"tsdbd/query/show"
)

// metrics are the tsdbd_http_* series. Routes and codes come from fixed
// tables, so their number is bounded.
type metrics struct {
	registry    *prometheus.Registry
	requests    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	inFlight    prometheus.Gauge
	writing     prometheus.Gauge
	bytesIn     *prometheus.CounterVec
	bytesOut    *prometheus.CounterVec
	points      atomic.Int64 // acknowledged
	values      prometheus.Counter
	dropped     prometheus.Counter
	failed      prometheus.Counter
	parseErrors prometheus.Counter
	refused     prometheus.Counter
	exemplars   prometheus.Counter
	panics      prometheus.Counter
	answered    atomic.Int64 // the sum of requests
}

// newMetrics returns metrics that reg shows too. A nil reg shows nothing.
func newMetrics(reg *prometheus.Registry) *metrics {
	own := prometheus.NewRegistry()
	add := promauto.With(own)
	counter := func(name, help string) prometheus.Counter {
		return add.NewCounter(prometheus.CounterOpts{Name: "tsdbd_http_" + name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return add.NewCounterVec(prometheus.CounterOpts{Name: "tsdbd_http_" + name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return add.NewGauge(prometheus.GaugeOpts{Name: "tsdbd_http_" + name, Help: help})
	}
	m := &metrics{
		registry: own,
		requests: counters("requests_total", "Requests answered, by route and status code.", "route", "code"),
		duration: add.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tsdbd_http_request_duration_seconds", Help: "Time from the request's header to the end of the answer.",
			Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30},
		}, []string{"route"}),
		inFlight:    gauge("requests_in_flight", "Requests being answered."),
		writing:     gauge("writes_in_flight", "Write requests that have their turn."),
		bytesIn:     counters("request_bytes_total", "Bytes of request bodies, as received.", "route"),
		bytesOut:    counters("response_bytes_total", "Bytes of answers, as sent.", "route"),
		values:      counter("write_values_total", "Values of the writes whose points were all acknowledged."),
		dropped:     counter("write_points_dropped_total", "Points refused by the store: type conflicts, retention, limits."),
		failed:      counter("write_points_failed_total", "Points of writes that failed as a whole."),
		parseErrors: counter("write_parse_errors_total", "Write requests with at least one line that is not line protocol."),
		refused:     counter("write_refused_total", "Write requests refused because too many were in flight."),
		exemplars:   counter("exemplars_total", "Exemplars received."),
		panics:      counter("panics_total", "Requests that ended in a panic."),
	}
	add.NewCounterFunc(prometheus.CounterOpts{Name: "tsdbd_http_write_points_total", Help: "Points acknowledged."}, func() float64 { return float64(m.points.Load()) })
	if reg != nil {
		reg.MustRegister(own)
	}
	return m
}

// done counts an answered request.
func (m *metrics) done(route string, status int, in, out int64, took time.Duration) {
	m.answered.Add(1)
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(route).Observe(took.Seconds())
	m.bytesIn.WithLabelValues(route).Add(float64(in))
	m.bytesOut.WithLabelValues(route).Add(float64(out))
}

// sums adds metrics up: by name in all, by "name route" for a route, and by
// "name 4xx" for a class of status codes.
func (m *metrics) sums() map[string]int64 {
	sums := map[string]int64{}
	families, _ := m.registry.Gather() // metrics of our own do not fail
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), "tsdbd_http_")
		for _, one := range f.GetMetric() {
			v := one.GetCounter().GetValue() + one.GetGauge().GetValue() + 1e9*one.GetHistogram().GetSampleSum() // ns
			sums[name] += int64(v)
			for _, l := range one.GetLabel() {
				switch l.GetName() {
				case "route":
					sums[name+" "+l.GetValue()] += int64(v)
				case "code":
					sums[name+" "+l.GetValue()] += int64(v)
					sums[name+" "+l.GetValue()[:1]+"xx"] += int64(v)
				}
			}
		}
	}
	return sums
}

// Counts returns how many points were acknowledged and how many requests answered, at less cost
// than Statistics.
func (h *Handler) Counts() (points, requests int64) {
	return h.metrics.points.Load(), h.metrics.answered.Load()
}

// Statistics returns what the handler counts in InfluxDB's names, for SHOW
// STATS: httpd and write.
func (h *Handler) Statistics() []show.Statistic {
	const requests, duration = "requests_total", "request_duration_seconds"
	s := h.metrics.sums()
	routes := func(metric string, names ...string) (n int64) {
		for _, name := range names {
			n += s[metric+" "+name]
		}
		return n
	}
	writes := routes(requests, "write", "v2_write")
	points, dropped, failed := s["write_points_total"], s["write_points_dropped_total"], s["write_points_failed_total"]
	var tags model.Tags
	if h.opt.Bind != "" {
		tags = model.Tags{{Key: "bind", Value: h.opt.Bind}}
	}
	return []show.Statistic{
		{Name: "httpd", Tags: tags, Values: map[string]any{
			"req": s[requests], "reqActive": s["requests_in_flight"], "reqDurationNs": s[duration],
			"queryReq": routes(requests, "query"), "queryReqDurationNs": routes(duration, "query"), "queryRespBytes": routes("response_bytes_total", "query"),
			"writeReq": writes, "writeReqDurationNs": routes(duration, "write", "v2_write"), "writeReqBytes": routes("request_bytes_total", "write", "v2_write"),
			"writeReqActive": s["writes_in_flight"], "valuesWrittenOK": s["write_values_total"],
			"pointsWrittenOK": points, "pointsWrittenDropped": dropped, "pointsWrittenFail": failed,
			"pingReq": routes(requests, "ping"), "statusReq": routes(requests, "status"),
			"promWriteReq": routes(requests, "prom_write"), "promReadReq": routes(requests, "prom_read"),
			"clientError": s[requests+" 4xx"], "serverError": s[requests+" 5xx"],
			"authFail": s[requests+" 401"], "recoveredPanics": s["panics_total"],
		}},
		{Name: "write", Values: map[string]any{
			"req": writes + routes(requests, "prom_write"), "pointReq": points + dropped + failed, "pointReqLocal": points + dropped + failed,
			"writeOk": points, "writeDrop": dropped, "writeError": failed,
			"writeTimeout": int64(0), // a write has no time limit
		}},
	}
}
