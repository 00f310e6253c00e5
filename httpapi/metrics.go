package httpapi

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the tsdbd_http_* series. Routes and codes come from fixed
// tables, so their number is bounded.
type metrics struct {
	requests    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	inFlight    prometheus.Gauge
	bytesIn     *prometheus.CounterVec
	bytesOut    *prometheus.CounterVec
	points      prometheus.Counter
	dropped     prometheus.Counter
	parseErrors prometheus.Counter
	refused     prometheus.Counter
	panics      prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdbd_http_requests_total", Help: "Requests answered, by route and status code.",
		}, []string{"route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tsdbd_http_request_duration_seconds", Help: "Time from the request's header to the end of the answer.",
			Buckets: []float64{.0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30},
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tsdbd_http_requests_in_flight", Help: "Requests being answered.",
		}),
		bytesIn: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdbd_http_request_bytes_total", Help: "Bytes of request bodies, as received.",
		}, []string{"route"}),
		bytesOut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tsdbd_http_response_bytes_total", Help: "Bytes of answers, as sent.",
		}, []string{"route"}),
		points: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdbd_http_write_points_total", Help: "Points acknowledged.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdbd_http_write_points_dropped_total", Help: "Points refused by the store: type conflicts, retention, limits.",
		}),
		parseErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdbd_http_write_parse_errors_total", Help: "Write requests with at least one line that is not line protocol.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdbd_http_write_refused_total", Help: "Write requests refused because too many were in flight.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tsdbd_http_panics_total", Help: "Requests that ended in a panic.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.requests, m.duration, m.inFlight, m.bytesIn, m.bytesOut,
			m.points, m.dropped, m.parseErrors, m.refused, m.panics)
	}
	return m
}

// done counts an answered request.
func (m *metrics) done(route string, status int, in, out int64, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(route).Observe(took.Seconds())
	m.bytesIn.WithLabelValues(route).Add(float64(in))
	m.bytesOut.WithLabelValues(route).Add(float64(out))
}
