package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

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

// promWrite answers /api/v1/prom/write, remote write 1.0.
func (h *Handler) promWrite(w *response, r *request) error {
	db := r.URL.Query().Get("db")
	if db == "" {
		return errDatabaseRequired
	}
	return h.write(w, r, target{db: db, rp: r.URL.Query().Get("rp"), parse: h.parseSamples})
}

// parseSamples reads a WriteRequest into a batch.
func (h *Handler) parseSamples(w *response, r *request, t *target, table *point.Table, s *parseState) (parsed, error) {
	var err error
	if s.body, err = h.readSnappy(w, r); err != nil {
		return parsed{}, err
	}
	rows := prom.Rows{Builder: point.NewBuilder(table, &s.batch)}
	if err := remote.EachSeries(s.body.Bytes(), rows.Add); err != nil {
		return parsed{}, badRequest(err.Error())
	}
	return parsed{dropped: rows.Refused, reason: rows.Reason}, nil
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
	if strings.Contains(r.Header.Get("Content-Type"), "io.prometheus.write.v2") {
		return nil, &apiError{http.StatusUnsupportedMediaType, "remote write 2.0 is not supported, send 1.0"}
	}
	packed, err := h.readBody(w, r)
	if err != nil {
		return nil, err
	}
	plain, err := packed.Unsnappy(h.limits.Load().MaxBodySize)
	return plain, bodyError(err)
}
