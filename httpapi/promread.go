package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/influxdata/influxql"
	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/model"
	"tsdbd/query"
	"tsdbd/query/result"
)

// nameLabel is the label that holds the name of a metric.
const nameLabel = "__name__"

// promRead answers /api/v1/prom/read, remote read with samples: one query, over
// the float field named value.
func (h *Handler) promRead(w http.ResponseWriter, r *http.Request) {
	opt := query.ExecuteOptions{ChunkSize: defaultChunkSize, User: userName(r)}
	ctx, done := h.follow(w, r, &opt)
	defer done()
	answer, err := h.readSamples(ctx, w, r, opt)
	if err == nil {
		// Until it is compressed, the message is held twice.
		err = opt.Account.SetAnswer(int64(cap(answer) + snappy.MaxEncodedLen(len(answer))))
	}
	if err != nil {
		writeError(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	if rw, ok := w.(*response); ok {
		rw.compress = false // it is already
	}
	w.Header().Set("Content-Encoding", "snappy")
	answer = snappy.Encode(nil, answer)
	_ = opt.Account.SetAnswer(int64(cap(answer))) // less than before
	_, _ = w.Write(answer)                        // the client is gone if this fails
}

func (h *Handler) readSamples(ctx context.Context, w http.ResponseWriter, r *http.Request, opt query.ExecuteOptions) ([]byte, error) {
	db, rp := r.URL.Query().Get("db"), r.URL.Query().Get("rp")
	if db == "" {
		return nil, errDatabaseRequired
	}
	if err := h.authorizeRead(r, db); err != nil {
		return nil, err
	}
	h.watchers.count(r, false)
	if _, err := h.opt.Writer.RetentionPolicy(db, rp); err != nil {
		return nil, databaseError(err, db)
	}
	message, err := h.readSnappy(w, r)
	if err != nil {
		return nil, err
	}
	queries, err := parseReadRequest(message.Bytes())
	message.release()
	if err != nil {
		return nil, badRequest(err.Error())
	}
	if len(queries) != 1 {
		return nil, badRequest("Prometheus read endpoint currently only supports one query at a time")
	}
	stmt, err := queries[0].statement(db, rp)
	if err != nil {
		return nil, err
	}
	q := &influxql.Query{Statements: influxql.Statements{stmt}}
	opt.Database, opt.RetentionPolicy = db, rp
	out := promAnswer{output: output{keep: true, limit: maxDocument, account: opt.Account, buf: make([]byte, promHead)}}
	turn := new(query.Turn)
	opt.Turn = turn
	out.outside = func(f func() error) error { return turn.Outside(ctx, f) }
	if rw, ok := w.(*response); ok {
		out.stopped = rw.client.ended
	}
	warn := warnings{header: w.Header()}
	err = h.opt.Query.Execute(ctx, q, opt, func(res *result.Result) error {
		warn.add(res, false)
		return out.add(res)
	})
	if errors.Is(err, errDocumentTooLarge) {
		err = badRequest("answer is too large, ask for a shorter range or fewer series")
	}
	if err != nil {
		return nil, err
	}
	return out.finish()
}

// statement returns the SELECT that finds what a query asks for.
func (q *promQuery) statement(db, rp string) (*influxql.SelectStatement, error) {
	if len(q.matchers) > maxDepth/2 {
		return nil, badRequest("too many matchers")
	}
	source := &influxql.Measurement{Database: db, RetentionPolicy: rp, Regex: &influxql.RegexLiteral{Val: anyMeasurement}}
	var where influxql.Expr
	var regexes query.RegexBudget
	for _, m := range q.matchers {
		var value influxql.Expr = &influxql.StringLiteral{Val: m.value}
		op := influxql.EQ
		switch m.kind {
		case 0:
		case 1:
			op = influxql.NEQ
		case 2, 3:
			expr := "^(?:" + m.value + ")$"
			if err := regexes.Add(expr); err != nil {
				return nil, badRequest(err.Error())
			}
			re, err := regexp.Compile(expr)
			if err != nil {
				return nil, badRequest(err.Error())
			}
			op, value = influxql.EQREGEX, &influxql.RegexLiteral{Val: re}
			if m.kind == 3 {
				op = influxql.NEQREGEX
			}
			if m.name == nameLabel && m.kind == 2 {
				source.Regex.Val = re
				continue
			}
		default:
			return nil, badRequest(fmt.Sprintf("unknown match type: %d", m.kind))
		}
		if m.name == nameLabel && m.kind == 0 {
			source.Name, source.Regex = m.value, nil
			if m.value == "" {
				return nil, badRequest("a metric has a name")
			}
			continue
		}
		// The name is a tag as well.
		where = and(where, &influxql.BinaryExpr{Op: op, LHS: &influxql.VarRef{Val: m.name, Type: influxql.Tag}, RHS: value})
	}
	at := func(ms int64) *influxql.TimeLiteral {
		const scale = int64(time.Millisecond)
		ns := max(min(ms, model.MaxTime/scale), model.MinTime/scale) * scale
		return &influxql.TimeLiteral{Val: time.Unix(0, ns).UTC()}
	}
	where = and(where, &influxql.BinaryExpr{Op: influxql.GTE, LHS: &influxql.VarRef{Val: "time"}, RHS: at(q.start)})
	where = and(where, &influxql.BinaryExpr{Op: influxql.LTE, LHS: &influxql.VarRef{Val: "time"}, RHS: at(q.end)})
	return &influxql.SelectStatement{
		Fields:     influxql.Fields{{Expr: &influxql.VarRef{Val: "value", Type: influxql.Float}}},
		Sources:    influxql.Sources{source},
		Condition:  where,
		Dimensions: influxql.Dimensions{{Expr: &influxql.Wildcard{}}},
		IsRawQuery: true,
	}, nil
}

// promHead is room for the head of a ReadResponse, and of each of its series: a
// tag and a length.
const promHead = 16

// promAnswer builds a ReadResponse from results. The lengths of messages stand
// before them, so each is written behind room for its head.
type promAnswer struct {
	output     // the ReadResponse
	series int // where the open TimeSeries begins, 0: there is none
	last   *result.Series
	failed error
}

func (a *promAnswer) add(res *result.Result) error {
	if res.Err != nil {
		a.failed = errors.Join(a.failed, res.Err)
		return nil
	}
	for _, s := range res.Series {
		if a.ended() {
			return query.ErrStopped
		}
		if len(s.Columns) != 2 || s.Rows == 0 {
			continue
		}
		if a.last == nil || !a.last.Partial || !sameSeries(a.last, s) {
			a.close()
			if err := a.open(s); err != nil {
				return err
			}
		}
		a.last = s
		times, values := &s.Values[0], &s.Values[1]
		if values.Type != model.Float {
			continue
		}
		if err := a.extend(s.Rows * maxPromSample); err != nil {
			return err
		}
		for i := range s.Rows {
			if values.IsValid(i) {
				a.buf = appendSample(a.buf, promSample{values.Floats[i], floorDivide(times.Ints[i], int64(time.Millisecond))})
			}
		}
	}
	return nil
}

// open begins a series with its labels, in order of their names.
func (a *promAnswer) open(s *result.Series) error {
	size := promHead + maxPromLabel + len(nameLabel) + len(s.Name)
	for i := range s.Tags {
		size += maxPromLabel + len(s.Tags[i].Key) + len(s.Tags[i].Value)
	}
	if err := a.extend(size); err != nil {
		return err
	}
	a.buf = append(a.buf, make([]byte, promHead)...)
	a.series = len(a.buf)
	named := false
	for _, t := range s.Tags {
		if !named && t.Key >= nameLabel {
			named = true
			if t.Key != nameLabel || t.Value == "" { // written by line protocol
				a.buf = appendLabel(a.buf, nameLabel, s.Name)
			}
		}
		if t.Value != "" {
			a.buf = appendLabel(a.buf, t.Key, t.Value)
		}
	}
	if !named {
		a.buf = appendLabel(a.buf, nameLabel, s.Name)
	}
	return nil
}

// close puts the head before the open series.
func (a *promAnswer) close() {
	if a.series == 0 {
		return
	}
	var head [promHead]byte
	h := protowire.AppendVarint(protowire.AppendTag(head[:0], 1, protowire.BytesType), uint64(len(a.buf)-a.series))
	at := a.series - promHead
	n := copy(a.buf[at:], h)
	a.buf = append(a.buf[:at+n], a.buf[a.series:]...)
	a.series = 0
}

// finish returns the message.
func (a *promAnswer) finish() ([]byte, error) {
	if a.failed != nil {
		return nil, a.failed
	}
	a.close()
	var head [promHead]byte
	h := protowire.AppendVarint(protowire.AppendTag(head[:0], 1, protowire.BytesType), uint64(len(a.buf)-promHead))
	message := a.buf[promHead-len(h):]
	copy(message, h)
	return message, nil
}

// floorDivide divides by a positive number and rounds down.
func floorDivide(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
