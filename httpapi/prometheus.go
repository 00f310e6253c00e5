package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/golang/snappy"
	"github.com/influxdata/influxql"

	"tsdbd/httpapi/encode"
	"tsdbd/internal/body"
	"tsdbd/meta"
	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/prom/remote"
	"tsdbd/query"
	"tsdbd/query/result"
)

// influxPromWrite answers /api/v1/prom/write, which InfluxDB has. It demands the name
// of the database.
func (h *Handler) influxPromWrite(w *response, r *request) error {
	if _, _, named := h.promTarget(r); !named {
		return errDatabaseRequired
	}
	return h.promWrite(w, r)
}

// promWrite answers remote write 1.0 and 2.0.
func (h *Handler) promWrite(w *response, r *request) error {
	second, err := remote.Negotiate(r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"))
	if err != nil {
		return &apiError{http.StatusUnsupportedMediaType, err.Error()}
	}
	db, rp, _ := h.promTarget(r)
	m := remoteWrite{h: h, second: second}
	m.announce(w, 0)
	return h.write(w, r, target{db: db, rp: rp, create: db == h.limits.Load().PrometheusDatabase, parse: m.parse, done: m.done})
}

// remoteWrite is a request of remote write.
type remoteWrite struct {
	h       *Handler
	second  bool // version 2.0
	written remote.Written
	refused int // samples and histograms that are not in the batch
}

// parse reads a message into a batch.
func (m *remoteWrite) parse(w *response, r *request, _ *target, table *point.Table, s *parseState) (parsed, error) {
	var err error
	if s.body, err = m.h.readSnappy(w, r); err != nil {
		return parsed{}, err
	}
	rows := prom.Rows{Builder: point.NewBuilder(table, &s.batch)}
	read := remote.Write
	if m.second {
		read = remote.Write2
		rows.Charge = func(n int) error { return bodyError(s.body.Charge(n)) }
	}
	m.written, err = read(s.body.Bytes(), &rows)
	switch {
	case errors.As(err, new(*apiError)):
		return parsed{}, err
	case err != nil:
		return parsed{}, badRequest(err.Error())
	}
	m.refused = rows.Refused
	m.h.metrics.exemplars.Add(float64(m.written.Exemplars))
	return parsed{dropped: rows.Refused, reason: rows.Reason, metadata: m.written.Metadata}, nil
}

// done says how much is durable.
func (m *remoteWrite) done(w *response, left parsed, refused error) error {
	m.announce(w, left.dropped-m.refused)
	return refused
}

// announce sets the headers of version 2.0 that say how much is written. The store
// has dropped that many rows of the batch. It does not say which: the headers take
// them for samples first.
func (m *remoteWrite) announce(w *response, dropped int) {
	if !m.second {
		return
	}
	samples := max(m.written.Samples-dropped, 0)
	histograms := m.written.Histograms - max(dropped-m.written.Samples, 0)
	for name, n := range map[string]int{"Samples": samples, "Histograms": histograms, "Exemplars": 0} {
		w.Header().Set("X-Prometheus-Remote-Write-"+name+"-Written", strconv.Itoa(n))
	}
}

// promRead answers /api/v1/prom/read: remote read with samples, one query.
func (h *Handler) promRead(w *response, r *request) error {
	opt := query.ExecuteOptions{ChunkSize: defaultChunkSize, User: r.userName()}
	ctx, done := h.follow(w, r, &opt)
	defer done()
	out := encode.NewOutput(w, outputTo(ctx, w, &opt))
	defer out.Free()
	message, err := h.readSamples(ctx, w, r, out, opt)
	if err == nil {
		// Memory holds the message and its compressed form for a moment.
		err = opt.Account.SetAnswer(int64(cap(message) + snappy.MaxEncodedLen(len(message))))
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.compress = false // snappy does it
	w.Header().Set("Content-Encoding", "snappy")
	packed := snappy.Encode(nil, message)
	out.Free()
	_ = opt.Account.SetAnswer(int64(cap(packed))) // less than before
	_, _ = w.Write(packed)                        // the client is gone if this fails
	return nil
}

// readSamples runs the query of a ReadRequest and returns the ReadResponse,
// which belongs to out.
func (h *Handler) readSamples(ctx context.Context, w *response, r *request, out *encode.Output, opt query.ExecuteOptions) ([]byte, error) {
	db, rp := r.URL.Query().Get("db"), r.URL.Query().Get("rp")
	if db == "" {
		return nil, errDatabaseRequired
	}
	if err := r.authorize(meta.ReadPrivilege, "read from", db); err != nil {
		return nil, err
	}
	h.countClient(r, false)
	if _, err := h.opt.Writer.RetentionPolicy(db, rp); err != nil {
		return nil, databaseError(err, db)
	}
	message, err := h.readSnappy(w, r)
	if err != nil {
		return nil, err
	}
	queries, err := remote.ParseReadRequest(message.Bytes())
	message.Release()
	if err != nil {
		return nil, badRequest(err.Error())
	}
	if len(queries) != 1 {
		return nil, badRequest("Prometheus read endpoint currently only supports one query at a time")
	}
	stmt, err := queries[0].Statement(db, rp)
	if err != nil {
		return nil, badRequest(err.Error())
	}
	opt.Database, opt.RetentionPolicy = db, rp
	answer := encode.NewReadResponse(out)
	warn := warnings{header: w.Header()}
	err = h.opt.Query.Execute(ctx, &influxql.Query{Statements: influxql.Statements{stmt}}, opt, func(res *result.Result) error {
		warn.add(res, false)
		return answer.Result(res)
	})
	if errors.Is(err, encode.ErrTooLarge) {
		err = badRequest("answer is too large, ask for a shorter range or fewer series")
	}
	if err != nil {
		return nil, err
	}
	return answer.Finish()
}

// readSnappy reads a body in snappy's block format. The limits of bodies apply to
// both the compressed and the decompressed bytes.
func (h *Handler) readSnappy(w *response, r *request) (*body.Body, error) {
	packed, err := h.readBody(w, r)
	if err != nil {
		return nil, err
	}
	plain, err := packed.Unsnappy(h.limits.Load().MaxBodySize)
	return plain, bodyError(err)
}
