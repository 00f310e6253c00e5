package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/golang/snappy"

	"tsdbd/httpapi/encode"
	"tsdbd/httpapi/promapi"
	"tsdbd/internal/body"
	"tsdbd/meta"
	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/prom/engine"
	"tsdbd/prom/remote"
	"tsdbd/query"
	"tsdbd/query/admission"
)

// named demands the name of the database, as InfluxDB does for its paths.
func (h *Handler) named(serve handle) handle {
	return func(w *response, r *request) error {
		if _, _, named, err := h.promTarget(r); err != nil {
			return err
		} else if !named {
			return errDatabaseRequired
		}
		return serve(w, r)
	}
}

// promWrite answers remote write 1.0 and 2.0.
func (h *Handler) promWrite(w *response, r *request) error {
	second, err := remote.Negotiate(r.Header.Get("Content-Type"), r.Header.Get("Content-Encoding"))
	if err != nil {
		return &apiError{http.StatusUnsupportedMediaType, err.Error()}
	}
	m := remoteWrite{h: h, second: second}
	m.announce(w, parsed{})
	return h.promStore(w, r, target{parse: m.parse, done: m.done})
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
	return parsed{dropped: rows.Refused, reason: rows.Reason, metadata: m.written.Metadata, exemplars: rows.Exemplars}, nil
}

// done says how much is durable.
func (m *remoteWrite) done(w *response, left parsed, refused error) error {
	left.dropped -= m.refused
	m.announce(w, left)
	if refused == nil && left.older > 0 && m.second { // 1.0 cannot say so, and takes it for a failure
		return badRequest(fmt.Sprintf("partial write: %d exemplars are out of order", left.older))
	}
	return refused
}

// announce sets the headers of version 2.0 that say how much is written. The store
// has dropped so many rows of the batch. It does not say which: the headers take
// them for samples first.
func (m *remoteWrite) announce(w *response, left parsed) {
	if !m.second {
		return
	}
	samples := max(m.written.Samples-left.dropped, 0)
	histograms := m.written.Histograms - max(left.dropped-m.written.Samples, 0)
	for name, n := range map[string]int{"Samples": samples, "Histograms": histograms, "Exemplars": left.kept} {
		w.Header().Set("X-Prometheus-Remote-Write-"+name+"-Written", strconv.Itoa(n))
	}
}

// promRead answers remote read with samples or chunks.
func (h *Handler) promRead(w *response, r *request) (err error) {
	if h.opt.Cluster != nil && (r.form != nil || h.mayForward(r)) { // and if that fails, it is answered here
		if r.form == nil {
			if r.form, err = h.readRaw(w, r); err != nil {
				return err
			}
			r.Header.Del("Content-Encoding")
		}
		r.Body = io.NopCloser(bytes.NewReader(r.form.Bytes()))
	}
	return h.readSeries(w, r, func() ([]engine.Selection, answerSeries, error) {
		message, err := h.readSnappy(w, r)
		if err != nil {
			return nil, nil, err
		}
		defer message.Release()
		req, err := remote.ParseReadRequest(message.Bytes())
		if err != nil {
			return nil, nil, badRequest(err.Error())
		}
		selections := make([]engine.Selection, len(req.Queries))
		for i, q := range req.Queries {
			selections[i] = engine.Selection(q)
		}
		w.compress = false // snappy and chunks do it
		if req.Chunks {
			return selections, readChunks, nil
		}
		return selections, readSamples, nil
	})
}

// seriesReader passes the series of selections to each.
type seriesReader struct {
	selections []engine.Selection
	account    *admission.Account
	each       func(each func(selection int, s engine.Series) error) error
}

// answerSeries answers with series.
type answerSeries func(w *response, out *encode.Output, in seriesReader) error

// readSeries answers with the series of the selections that parse returns.
func (h *Handler) readSeries(w *response, r *request, parse func() ([]engine.Selection, answerSeries, error)) error {
	if h.opt.Cluster != nil {
		if answered, err := h.readElsewhere(w, r, query.AnyNode, nil); answered || err != nil {
			return err
		}
	}
	if r.form == nil && r.Method == http.MethodPost && h.opt.Cluster != nil && h.mayForward(r) && h.opt.Health != nil && h.opt.Health.Degraded() {
		return h.forward(w, r) // the body cannot be sent once it is read
	}
	db, rp, named, err := h.promTarget(r)
	if err != nil {
		return err
	}
	if err := r.authorize(meta.ReadPrivilege, "read from", db); err != nil {
		return err
	}
	h.countClient(r, false)
	if named {
		if _, err := h.opt.Writer.RetentionPolicy(db, rp); err != nil {
			return databaseError(err, db)
		}
	}
	_ = r.FormValue("partial") // parses the URL
	partial, err := r.flag("partial")
	if err != nil {
		return err
	}
	selections, answer, err := parse()
	if err != nil {
		return err
	}
	opt := query.ExecuteOptions{User: r.userName()}
	ctx, done := h.follow(w, r, &opt)
	defer done()
	out := encode.NewOutput(w, outputTo(ctx, w, &opt))
	defer out.Free()
	access := &engine.Access{DB: db, RP: rp, MayLack: !named, Partial: partial, User: opt.User, Account: opt.Account, Turn: opt.Turn, Interrupt: opt.Interrupt}
	notes := warnings{header: w.Header()}
	err = answer(w, out, seriesReader{selections, opt.Account, func(each func(int, engine.Series) error) error {
		warn := func(text string) { notes.tell(warningHeader, text, out.AnySent()) }
		return h.opt.PromQL.Read(ctx, access, selections, warn, each)
	}})
	if err != nil && out.AnySent() {
		panic(http.ErrAbortHandler) // the client must see that the answer is not complete
	}
	if code, _, text, ok := promapi.Status(err); err != nil && ok && !h.othersMayAnswer(r, err) {
		return &apiError{code, text}
	}
	return err
}

// readChunks answers with frames of chunks.
func readChunks(w *response, out *encode.Output, in seriesReader) error {
	w.Header().Set("Content-Type", remote.MediaFrames)
	frames := remote.NewFrames(func(frame []byte) error {
		return out.Append(func(dst []byte) []byte { return append(dst, frame...) })
	})
	if err := in.each(frames.Add); err != nil {
		return err
	}
	if !out.AnySent() {
		w.WriteHeader(http.StatusOK) // an answer without series has a header too
	}
	_ = out.Flush() // the client is gone if this fails
	return nil
}

// readSamples answers with samples, as one compressed message.
func readSamples(w *response, _ *encode.Output, in seriesReader) error {
	samples := remote.NewSamples(in.account.SetAnswer)
	err := in.each(samples.Add)
	var message []byte
	if err == nil {
		message, err = samples.Finish(len(in.selections))
	}
	if err == nil {
		// Memory holds the message and its compressed form for a moment.
		err = in.account.SetAnswer(int64(cap(message) + snappy.MaxEncodedLen(len(message))))
	}
	if errors.Is(err, remote.ErrTooLarge) {
		return badRequest(err.Error())
	}
	if err != nil {
		return err
	}
	packed := snappy.Encode(nil, message)
	_ = in.account.SetAnswer(int64(cap(packed))) // less than before
	w.Header().Set("Content-Type", remote.MediaSamples)
	w.Header().Set("Content-Encoding", "snappy")
	_, _ = w.Write(packed) // the client is gone if this fails
	return nil
}

// readSnappy reads a body in snappy's block format. The limits of bodies apply to
// both the compressed and the decompressed bytes.
func (h *Handler) readSnappy(w *response, r *request) (*body.Body, error) {
	packed, err := h.readRaw(w, r)
	if err != nil {
		return nil, err
	}
	plain, err := packed.Unsnappy(h.limits.Load().MaxBodySize)
	return plain, bodyError(err)
}
