package httpapi

import (
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
)

// nameLabel is the label that holds the name of a metric.
const nameLabel = "__name__"

// promRead answers /api/v1/prom/read, remote read with samples: one query, over
// the float field named value.
func (h *Handler) promRead(w http.ResponseWriter, r *http.Request) {
	answer, err := h.readSamples(w, r)
	if err != nil {
		writeError(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	if rw, ok := w.(*response); ok {
		rw.compress = false // it is already
	}
	w.Header().Set("Content-Encoding", "snappy")
	_, _ = w.Write(snappy.Encode(nil, answer)) // the client is gone if this fails
}

func (h *Handler) readSamples(w http.ResponseWriter, r *http.Request) ([]byte, error) {
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
	var out promAnswer
	warn := warnings{header: w.Header()}
	err = h.opt.Query.Execute(r.Context(), q, query.ExecuteOptions{
		Database: db, RetentionPolicy: rp, ChunkSize: defaultChunkSize, User: userName(r),
	}, func(res *query.Result) error {
		warn.add(res, false)
		return out.add(res)
	})
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
	for _, m := range q.matchers {
		var value influxql.Expr = &influxql.StringLiteral{Val: m.value}
		op := influxql.EQ
		switch m.kind {
		case 0:
		case 1:
			op = influxql.NEQ
		case 2, 3:
			re, err := regexp.Compile("^(?:" + m.value + ")$")
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

// promAnswer builds a ReadResponse from results.
type promAnswer struct {
	result []byte // the QueryResult
	series []byte // the TimeSeries that is open
	last   *query.Series
	failed error
}

func (a *promAnswer) add(res *query.Result) error {
	if res.Err != nil {
		a.failed = errors.Join(a.failed, res.Err)
		return nil
	}
	for _, s := range res.Series {
		if len(s.Columns) != 2 || s.Rows == 0 {
			continue
		}
		if a.last == nil || !a.last.Partial || !sameSeries(a.last, s) {
			a.close()
			a.open(s)
		}
		a.last = s
		times, values := &s.Values[0], &s.Values[1]
		if values.Type != model.Float {
			continue
		}
		for i := range s.Rows {
			if values.IsValid(i) {
				a.series = appendSample(a.series, promSample{values.Floats[i], floorDivide(times.Ints[i], int64(time.Millisecond))})
			}
		}
		if len(a.series)+len(a.result) > maxDocument {
			return badRequest("answer is too large, ask for a shorter range or fewer series")
		}
	}
	return nil
}

// open begins a series with its labels, in order of their names.
func (a *promAnswer) open(s *query.Series) {
	named := false
	for _, t := range s.Tags {
		if !named && t.Key >= nameLabel {
			named = true
			if t.Key != nameLabel || t.Value == "" { // written by line protocol
				a.series = appendLabel(a.series, nameLabel, s.Name)
			}
		}
		if t.Value != "" {
			a.series = appendLabel(a.series, t.Key, t.Value)
		}
	}
	if !named {
		a.series = appendLabel(a.series, nameLabel, s.Name)
	}
}

func (a *promAnswer) close() {
	if len(a.series) > 0 {
		a.result = protowire.AppendBytes(protowire.AppendTag(a.result, 1, protowire.BytesType), a.series)
		a.series = a.series[:0]
	}
}

// finish returns the message.
func (a *promAnswer) finish() ([]byte, error) {
	if a.failed != nil {
		return nil, a.failed
	}
	a.close()
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), a.result), nil
}

// floorDivide divides by a positive number and rounds down.
func floorDivide(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
