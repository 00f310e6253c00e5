package query

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/expr"
)

// dropMeasurement removes a measurement from all policies. A missing one is
// no error.
func (s *session) dropMeasurement(st *influxql.DropMeasurementStatement) error {
	db, err := s.requestDatabase()
	if err != nil {
		return err
	}
	return s.opt.Admin.Delete(s.ctx, scan.DeleteRequest{
		Database:    db,
		Measurement: func(name string) bool { return name == st.Name },
		Range:       model.AllTime,
	})
}

// dropSeries removes whole series from all policies.
func (s *session) dropSeries(st *influxql.DropSeriesStatement) error {
	db, err := s.requestDatabase()
	if err != nil {
		return err
	}
	if influxql.HasTimeExpr(st.Condition) {
		return errors.New("DROP SERIES doesn't support time in WHERE clause")
	}
	return s.deleteFrom(db, st.Sources, influxql.Reduce(st.Condition, nil), model.AllTime)
}

// deleteRows removes rows by tags and time.
func (s *session) deleteRows(st *influxql.DeleteSeriesStatement) error {
	db, err := s.requestDatabase()
	if err != nil {
		return err
	}
	cond, err := expr.SplitTime(st.Condition, s.opt.Now(), time.UTC)
	if err != nil {
		return err
	}
	if cond.Range.Empty() {
		return nil
	}
	return s.deleteFrom(db, st.Sources, cond.Expr, cond.Range)
}

// requestDatabase returns the database of the request, which must exist.
func (s *session) requestDatabase() (string, error) {
	if s.catalog().Database(s.req.Database) == nil {
		return "", fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, s.req.Database)
	}
	return s.req.Database, nil
}

// deleteFrom deletes from the sources, those of one policy at a time. No
// sources are all measurements of all policies.
func (s *session) deleteFrom(db string, sources influxql.Sources, where influxql.Expr, r model.TimeRange) error {
	req := scan.DeleteRequest{Database: db, Range: r}
	if where != nil {
		req.Where = func(_ string, fields []column.Field) (*model.TagExpr, error) {
			return tagPredicate(where, fields, errFieldsInDelete)
		}
	}
	if len(sources) == 0 {
		return s.opt.Admin.Delete(s.ctx, req)
	}
	var policies []string
	byPolicy := map[string][]*influxql.Measurement{}
	for _, source := range sources {
		m, ok := source.(*influxql.Measurement)
		if !ok {
			return fmt.Errorf("invalid measurement")
		}
		if m.RetentionPolicy != "" {
			if _, err := s.catalog().RetentionPolicy(db, m.RetentionPolicy); err != nil {
				return err
			}
		}
		if _, seen := byPolicy[m.RetentionPolicy]; !seen {
			policies = append(policies, m.RetentionPolicy)
		}
		byPolicy[m.RetentionPolicy] = append(byPolicy[m.RetentionPolicy], m)
	}
	for _, policy := range policies {
		measurements := byPolicy[policy]
		req.RetentionPolicy = policy
		req.Measurement = func(name string) bool {
			return slices.ContainsFunc(measurements, func(m *influxql.Measurement) bool { return expr.MatchesSource(m, name) })
		}
		if err := s.opt.Admin.Delete(s.ctx, req); err != nil {
			return err
		}
	}
	return nil
}

var errFieldsInDelete = errors.New("fields not supported in WHERE clause during deletion")

// tagPredicate turns a WHERE clause without time into a predicate over series. Rows cannot
// be chosen by their values: that is the error refused.
func tagPredicate(where influxql.Expr, fields []column.Field, refused error) (*model.TagExpr, error) {
	tags, rest := expr.SplitTags(where, expr.FieldTest(fields))
	if rest == nil {
		return tags, nil
	}
	return nil, refused // also of a tag that is compared with a number
}
