package query

import (
	"errors"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/query/expr"
)

// ErrLimitedTags is the error of KeepTags for a statement that would have other rows.
var ErrLimitedTags = errors.New("the rows get all their tags by GROUP BY *, with which LIMIT and OFFSET count the rows of each series: write GROUP BY * if that is meant")

// KeepTags groups the SELECTs of a query whose rows are rows of the source by all tags, so
// that each row comes with its tags. A SELECT with an aggregate, a selector or a
// transformation has the tags of its GROUP BY, which say what it is computed over.
func KeepTags(q *influxql.Query) error {
	for _, stmt := range q.Statements {
		if s, ok := stmt.(*influxql.SelectStatement); ok && isRaw(s) {
			if err := keepTags(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepTags groups a SELECT and its subqueries by all tags.
func keepTags(s *influxql.SelectStatement) error {
	if !hasAllTags(s) {
		if s.Limit > 0 || s.Offset > 0 {
			return ErrLimitedTags
		}
		s.Dimensions = append(s.Dimensions, &influxql.Dimension{Expr: &influxql.Wildcard{}})
	}
	for _, source := range s.Sources {
		if sub, ok := source.(*influxql.SubQuery); ok {
			if err := keepTags(sub.Statement); err != nil {
				return err
			}
		}
	}
	return nil
}

// isRaw reports whether the rows of a SELECT are rows of its sources.
func isRaw(s *influxql.SelectStatement) bool {
	raw := true
	influxql.WalkFunc(s.Fields, func(n influxql.Node) {
		if call, ok := n.(*influxql.Call); ok && !expr.IsMathFunction(call.Name) {
			raw = false
		}
	})
	for _, source := range s.Sources {
		if sub, ok := source.(*influxql.SubQuery); ok && !isRaw(sub.Statement) {
			raw = false
		}
	}
	return raw
}

func hasAllTags(s *influxql.SelectStatement) bool {
	return slices.ContainsFunc(s.Dimensions, func(d *influxql.Dimension) bool { _, ok := d.Expr.(*influxql.Wildcard); return ok })
}
