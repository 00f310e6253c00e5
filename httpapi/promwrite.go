package httpapi

import (
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/snappy"

	"tsdbd/model"
	"tsdbd/model/point"
)

// promMeasurement is the measurement of a series without a name.
const promMeasurement = "prom_metric_not_specified"

// promWrite answers /api/v1/prom/write, remote write 1.0: the name of a series
// is its measurement, all labels, the name among them, are tags. Samples that
// are not a number or infinite, staleness markers among them, are left out.
func (h *Handler) promWrite(w http.ResponseWriter, r *http.Request) {
	db := r.URL.Query().Get("db")
	if db == "" {
		writeError(w, r, errDatabaseRequired)
		return
	}
	h.write(w, r, target{db: db, rp: r.URL.Query().Get("rp"), parse: h.parseSamples})
}

// parseSamples reads a WriteRequest into a batch.
func (h *Handler) parseSamples(w http.ResponseWriter, r *http.Request, t *target, table *point.Table, s *parseState) (parsed, error) {
	var err error
	if s.body, err = h.readSnappy(w, r); err != nil {
		return parsed{}, err
	}
	p := promBatch{rows: point.NewBuilder(table, &s.batch)}
	if err := eachSeries(s.body.Bytes(), p.add); err != nil {
		return parsed{}, badRequest(err.Error())
	}
	return parsed{dropped: p.refused, reason: p.reason}, nil
}

// promBatch turns time series into the rows of a batch: a sample becomes one
// float.
type promBatch struct {
	rows    *point.Builder
	tags    model.Tags
	refused int    // samples that cannot be stored
	reason  string // of the first
}

func (p *promBatch) add(labels []promLabel, samples []promSample) error {
	name := promMeasurement
	p.tags = p.tags[:0]
	for _, l := range labels {
		if l.name == "__name__" && l.value != "" {
			name = l.value
		}
		p.tags = append(p.tags, model.Tag{Key: l.name, Value: l.value})
	}
	if err := p.rows.Series(name, p.tags); err != nil {
		p.refuse(err, len(samples))
		return nil
	}
	for _, s := range samples {
		if math.IsNaN(s.value) || math.IsInf(s.value, 0) {
			continue
		}
		at := int64(math.MaxInt64) // which no point may have
		if s.time <= model.MaxTime/int64(time.Millisecond) && s.time >= model.MinTime/int64(time.Millisecond) {
			at = s.time * int64(time.Millisecond)
		}
		p.rows.Float("value", s.value)
		if err := p.rows.Row(at); err != nil {
			p.refuse(err, 1)
		}
	}
	return nil
}

func (p *promBatch) refuse(err error, samples int) {
	if p.reason == "" && samples > 0 {
		p.reason = err.Error()
	}
	p.refused += samples
}

// readSnappy reads a body in snappy's block format. The limits of bodies hold
// for what comes and for what it decompresses to.
func (h *Handler) readSnappy(w http.ResponseWriter, r *http.Request) (*body, error) {
	if strings.Contains(r.Header.Get("Content-Type"), "io.prometheus.write.v2") {
		return nil, &apiError{http.StatusUnsupportedMediaType, "remote write 2.0 is not supported, send 1.0"}
	}
	packed, err := h.readBody(w, r)
	if err != nil {
		return nil, err
	}
	defer packed.release()
	n, err := snappy.DecodedLen(packed.Bytes())
	if errors.Is(err, snappy.ErrTooLarge) { // for an int, which the bound of bodies may be larger than
		return nil, errEntityTooLarge
	}
	if err != nil {
		return nil, errSnappy
	}
	if limit := h.limits.Load().MaxBodySize; limit > 0 && int64(n) > limit {
		return nil, errEntityTooLarge
	}
	// A length that so few bytes cannot decompress to is a lie that would cost
	// memory: an element of three bytes makes 64 at most.
	if n/64 > packed.Len() {
		return nil, errSnappy
	}
	out := bodies.Get().(*body)
	out.Reset()
	out.budget = &h.bodies
	if err := out.charge(n); err != nil {
		out.release()
		return nil, err
	}
	out.Grow(n)
	plain, err := snappy.Decode(out.AvailableBuffer()[:n], packed.Bytes())
	if err != nil {
		out.release()
		return nil, errSnappy
	}
	_, _ = out.Write(plain) // in place
	return out, nil
}
