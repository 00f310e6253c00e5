package httpapi

import (
	"errors"
	"mime"
	"net/http"

	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/prom/metadata"
	"tsdbd/prom/otlp"
)

// otlpPaths are the paths of OTLP metrics: that of Prometheus, that which exporters
// append to an address, and that of VictoriaMetrics.
var otlpPaths = []string{"/api/v1/otlp/v1/metrics", "/v1/metrics", "/opentelemetry/v1/metrics"}

// otlpMetricsOnly answers logs and traces.
func otlpMetricsOnly(*response, *request) error {
	return &apiError{http.StatusNotFound, "this server takes OTLP metrics only, no logs and no traces"}
}

// otlpWrite answers a request of OTLP metrics over HTTP.
func (h *Handler) otlpWrite(w *response, r *request) error {
	m := otlpRequest{h: h, media: otlpMedia(r.Request)}
	if m.media == "" {
		return &apiError{http.StatusUnsupportedMediaType, "the Content-Type of metrics is " + otlp.MediaProtobuf + " or " + otlp.MediaJSON}
	}
	var err error
	if m.opt, err = otlp.ParseOptions(r.URL.Query()); err != nil {
		return badRequest(err.Error())
	}
	return h.promStore(w, r, target{parse: m.parse, done: m.done})
}

// otlpMedia returns the type of a request, or "" if OTLP does not have it.
func otlpMedia(r *http.Request) string {
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media == otlp.MediaProtobuf || media == otlp.MediaJSON {
		return media
	}
	return ""
}

// otlpRequest is a request of OTLP metrics.
type otlpRequest struct {
	h      *Handler
	media  string
	opt    otlp.Options
	result otlp.Result
}

// parse reads the request into a batch.
func (m *otlpRequest) parse(w *response, r *request, _ *target, table *point.Table, s *parseState) (left parsed, err error) {
	if s.body, err = m.h.readBody(w, r); err != nil {
		return parsed{}, err
	}
	message := s.body.Bytes()
	charge := func(n int) error { return bodyError(s.body.Charge(n)) }
	if m.media == otlp.MediaJSON {
		if message, err = otlp.FromJSON(nil, message, charge); err != nil {
			return parsed{}, otlpBad(err)
		}
	}
	rows := &prom.Rows{Builder: point.NewBuilder(table, &s.batch), Charge: charge}
	m.result, err = otlp.Request(r.Context(), message, m.opt, otlp.Sink{
		Rows: rows,
		Metadata: func(e otlp.Metadata) error {
			left.metadata = append(left.metadata, metadata.Entry(e))
			return nil
		},
	})
	if err != nil {
		return parsed{}, otlpBad(err)
	}
	m.h.metrics.exemplars.Add(float64(m.result.Exemplars))
	left.exemplars = rows.Exemplars
	if m.result.Rejected > 0 {
		left.dropped, left.reason = m.result.Rejected, m.result.Message()
	}
	return left, nil
}

// otlpBad returns the answer to a body that is not a request, or err.
func otlpBad(err error) error {
	if errors.As(err, new(*otlp.WireError)) || errors.As(err, new(*otlp.JSONError)) {
		return badRequest(err.Error())
	}
	return err
}

// done answers with a success that says what was not stored.
func (m *otlpRequest) done(w *response, left parsed, _ error) error {
	if lost := left.dropped - m.result.Rejected; lost > 0 || m.result.Rejected == 0 && left.reason != "" {
		m.result.Lost(lost, left.reason)
	}
	w.Header().Set("Content-Type", m.media)
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(m.result.Response(m.media)) // the client is gone if this fails
	return nil
}

// otlpError answers with an error in the form of OTLP. Exporters repeat a request that
// is answered with 503, and drop it for any other error.
func otlpError(w http.ResponseWriter, r *http.Request, err error) {
	status, message := classify(err)
	if status == http.StatusInternalServerError && !errors.As(err, new(*apiError)) {
		status = http.StatusServiceUnavailable // not the fault of the request
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfterSeconds)
	}
	media := otlpMedia(r)
	if media == "" {
		media = otlp.MediaJSON
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(otlp.Status(media, status, message)) // the client is gone if this fails
}
