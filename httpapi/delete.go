package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/query"
	"tsdbd/query/expr"
	"tsdbd/query/syntax"
)

// maxPredicate bounds the text of a predicate; see maxDepth.
const maxPredicate = 8 << 10

// anyMeasurement selects all measurements of a policy.
var anyMeasurement = regexp.MustCompile(`.*`)

// deleteRequest is the body of /api/v2/delete.
type deleteRequest struct {
	Start, Stop, Predicate string
}

// deleteV2 answers /api/v2/delete. It deletes the rows of a bucket between two
// times, selected by tags. If the bucket names a policy, only rows of that policy
// are deleted; InfluxDB 1.x deletes them from all policies of the database. If it
// names none, rows of all policies are deleted.
func (h *Handler) deleteV2(w *response, r *request) error {
	db, rp, err := splitBucket(r.URL.Query().Get("bucket"))
	if err != nil {
		return err
	}
	if err := r.authorize(meta.WritePrivilege, "delete from", db); err != nil {
		return err
	}
	if _, err := h.opt.Writer.RetentionPolicy(db, rp); err != nil {
		if errors.Is(err, meta.ErrRetentionPolicyNotFound) {
			return &apiError{http.StatusNotFound, err.Error()}
		}
		return databaseError(err, db)
	}
	body, err := h.readBody(w, r)
	if err != nil {
		return err
	}
	defer body.Release()
	var req deleteRequest
	if err := json.NewDecoder(body).Decode(&req); err != nil {
		return badRequest("delete - cannot parse request body: " + err.Error())
	}
	stmt, err := req.statement(db, rp)
	if err != nil || stmt == nil {
		return err
	}
	failed := h.run(r.Context(), stmt, query.ExecuteOptions{Database: db})
	if failed != nil && strings.Contains(failed.Error(), fieldInPredicate) {
		return badRequest("delete - " + failed.Error())
	}
	return failed
}

// fieldInPredicate is part of the error for a predicate that names a field. Only
// the engine can tell a field from a tag.
const fieldInPredicate = "fields not supported in WHERE clause during deletion"

// statement returns the DELETE of a request. It is nil if no row can be between
// the times.
func (d *deleteRequest) statement(db, rp string) (*influxql.DeleteSeriesStatement, error) {
	start, err := deleteTime("start", d.Start)
	if err != nil {
		return nil, err
	}
	stop, err := deleteTime("stop", d.Stop)
	if err != nil {
		return nil, err
	}
	measurement, where, err := d.parsePredicate()
	if errors.Is(err, errPredicate) {
		return nil, badRequest(fmt.Sprintf("delete - predicate only supports equality operators and conjunctions. database: %q, retention policy: %q, start: %q, stop: %q, predicate: %q",
			db, rp, d.Start, d.Stop, d.Predicate))
	}
	if err != nil {
		return nil, err
	}
	// A bound outside of the legal times is left out. The first legal time cannot
	// be written as a literal.
	first, last := time.Unix(0, model.MinTime), time.Unix(0, model.MaxTime)
	if !start.Before(stop) || start.After(last) || !stop.After(first) {
		return nil, nil
	}
	if start.After(first) {
		where = expr.And(where, expr.TimeBound(influxql.GTE, start))
	}
	if !stop.After(last) {
		where = expr.And(where, expr.TimeBound(influxql.LT, stop))
	}
	source := &influxql.Measurement{RetentionPolicy: rp, Name: measurement}
	if measurement == "" {
		source.Regex = &influxql.RegexLiteral{Val: anyMeasurement}
	}
	return &influxql.DeleteSeriesStatement{Sources: influxql.Sources{source}, Condition: where}, nil
}

// deleteTime reads a bound of the range.
func deleteTime(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, badRequest("delete - " + name + " field in RFC3339Nano format required")
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, badRequest(fmt.Sprintf("delete - invalid format for %s field %q, please use RFC3339Nano: %v", name, text, err))
	}
	return t.UTC(), nil
}

// errPredicate is the class of predicates that parse and are not supported.
var errPredicate = errors.New("unsupported predicate")

// parsePredicate returns the measurement that a predicate names, or "", and the
// condition on tags, or nil.
func (d *deleteRequest) parsePredicate() (measurement string, where influxql.Expr, err error) {
	if strings.TrimSpace(d.Predicate) == "" {
		return "", nil, nil
	}
	if len(d.Predicate) > maxPredicate {
		return "", nil, badRequest("delete - predicate is too long")
	}
	if _, err := syntax.CheckRegexes(d.Predicate, nil); err != nil {
		return "", nil, badRequest("delete - cannot parse predicate: " + err.Error())
	}
	e, err := influxql.ParseExpr(d.Predicate)
	if err != nil {
		return "", nil, badRequest("delete - cannot parse predicate: " + err.Error())
	}
	err = eachEquality(e, func(key, value string) error {
		if key == "_field" {
			return badRequest("delete - a predicate cannot select a field: a delete removes whole points")
		}
		if key != "_measurement" {
			where = expr.And(where, &influxql.BinaryExpr{
				Op: influxql.EQ, LHS: &influxql.VarRef{Val: key}, RHS: &influxql.StringLiteral{Val: value},
			})
			return nil
		}
		if value == "" || (measurement != "" && measurement != value) {
			return errPredicate // a row has one measurement
		}
		measurement = value
		return nil
	})
	return measurement, where, err
}

// eachEquality calls f for each key = value of a conjunction.
func eachEquality(e influxql.Expr, f func(key, value string) error) error {
	switch e := e.(type) {
	case *influxql.ParenExpr:
		return eachEquality(e.Expr, f)
	case *influxql.BinaryExpr:
		switch e.Op {
		case influxql.AND:
			if err := eachEquality(e.LHS, f); err != nil {
				return err
			}
			return eachEquality(e.RHS, f)
		case influxql.EQ:
			key, ok := e.LHS.(*influxql.VarRef)
			if !ok {
				return errPredicate
			}
			switch v := e.RHS.(type) {
			case *influxql.VarRef: // bare, or in double quotes as v2 has it
				return f(key.Val, v.Val)
			case *influxql.StringLiteral:
				return f(key.Val, v.Val)
			}
		}
	}
	return errPredicate
}
