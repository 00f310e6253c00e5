package show

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/expr"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// ShowMeasurements looks at all policies of the database. The forms with a
// policy or a wildcard tell where each measurement was found. An unknown
// database has no measurements.
func (s *Statement) ShowMeasurements(st *influxql.ShowMeasurementsStatement) ([]*result.Series, error) {
	if st.Database == "" && !st.WildcardDatabase {
		return nil, syntax.ErrDatabaseNameRequired
	}
	if influxql.HasTimeExpr(st.Condition) {
		return nil, errors.New("SHOW MEASUREMENTS doesn't support time in WHERE clause")
	}
	keep, err := measurementSource(st.Source)
	if err != nil {
		return nil, err
	}
	var databases []*meta.Database
	if st.WildcardDatabase {
		databases = s.Catalog().Databases
	} else if db := s.Catalog().Database(st.Database); db != nil {
		databases = []*meta.Database{db}
	}
	if st.RetentionPolicy != "" || st.WildcardRetentionPolicy || st.WildcardDatabase {
		if databases == nil {
			return nil, fmt.Errorf("unknown database %s", st.Database)
		}
		return s.showMeasurementsByPolicy(st, databases, keep)
	}
	var names []string
	for _, db := range databases {
		found, err := s.measurementNames(db.Name, policyNames(db), keep, st.Condition)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	return appendTexts(nil, "measurements", st.Limit, st.Offset, []string{"name"}, names), nil
}

func (s *Statement) showMeasurementsByPolicy(st *influxql.ShowMeasurementsStatement, databases []*meta.Database, keep func(string) bool) ([]*result.Series, error) {
	var found, of, policyOf []string // of each: its name, database and policy
	for _, db := range databases {
		if s.MayRead != nil && st.WildcardDatabase && !s.MayRead(db.Name) {
			continue
		}
		policies := policyNames(db)
		if !st.WildcardRetentionPolicy && st.RetentionPolicy != "" {
			if db.RetentionPolicy(st.RetentionPolicy) == nil {
				if st.WildcardDatabase {
					continue
				}
				return nil, fmt.Errorf("%w: %s", meta.ErrRetentionPolicyNotFound, st.RetentionPolicy)
			}
			policies = []string{st.RetentionPolicy}
		}
		for _, policy := range policies {
			names, err := s.measurementNames(db.Name, []string{policy}, keep, st.Condition)
			if err != nil {
				return nil, err
			}
			found = append(found, names...)
			of = append(of, slices.Repeat([]string{db.Name}, len(names))...)
			policyOf = append(policyOf, slices.Repeat([]string{policy}, len(names))...)
		}
	}
	return appendTexts(nil, "measurements", st.Limit, st.Offset, []string{"name", "database", "retention policy"}, found, of, policyOf), nil
}

// measurementSource turns WITH MEASUREMENT into a test; nil is all.
func measurementSource(source influxql.Source) (func(string) bool, error) {
	switch m := source.(type) {
	case nil:
		return nil, nil
	case *influxql.Measurement:
		return func(name string) bool { return expr.MatchesSource(m, name) }, nil
	}
	return nil, errors.New("invalid measurement")
}

// measurementNames returns the sorted names of the measurements that satisfy
// the source and the WHERE clause.
func (s *Statement) measurementNames(db string, policies []string, keep func(string) bool, where influxql.Expr) ([]string, error) {
	is, err := predicate(where, measurementComparison)
	if err != nil {
		return nil, err
	}
	var names []string
	among := func(v *indexView) ([]string, bool, error) { return v.satisfying(s.Ctx, is) }
	err = s.eachMeasurement([]sourceGroup{{database: db, policies: policies, among: among}}, model.AllTime, func(_ *indexView, m indexMeasurement) error {
		if keep != nil && !keep(m.name) {
			return nil
		}
		ok, err := m.satisfies(s.Ctx, is)
		if ok {
			names = append(names, m.name)
		}
		return err
	}, nil)
	return names, err
}

// measurementComparison returns the predicate of a comparison in a WHERE clause of SHOW
// MEASUREMENTS.
func measurementComparison(where influxql.Expr) (*model.TagExpr, error) {
	e, ok := where.(*influxql.BinaryExpr)
	if !ok {
		return nil, fmt.Errorf("invalid condition expression: %s", where)
	}
	if members, negated, ok := expr.SetMembers(e); ok {
		all := make([]*model.TagExpr, len(members))
		for i, m := range members {
			var err error
			if all[i], err = measurementComparison(expr.MemberComparison(e, m, negated)); err != nil {
				return nil, err
			}
		}
		return expr.JoinTags(all, negated), nil
	}
	right := "tag value string"
	switch e.Op {
	case influxql.EQ, influxql.NEQ:
	case influxql.EQREGEX, influxql.NEQREGEX:
		right = "regular expression"
	default:
		return nil, errors.New("invalid tag comparison operator")
	}
	ref, ok := e.LHS.(*influxql.VarRef)
	if !ok {
		return nil, fmt.Errorf("left side of '%s' must be a tag key", e.Op)
	}
	c, ok := metaComparison(e)
	switch {
	case !ok:
		return nil, fmt.Errorf("right side of '%s' must be a %s", e.Op, right)
	case ref.Val != "_name" && influxql.IsSystemName(ref.Val):
		return &model.TagExpr{Op: model.TagNone}, nil
	}
	return c, nil
}

// satisfying returns the candidates that satisfy a predicate as a whole. A series for each
// comparison is enough, in any shard.
func (v *indexView) satisfying(ctx context.Context, is *model.TagExpr) (names []string, known bool, err error) {
	return is.Among(func(is *model.TagExpr) ([]string, bool, error) {
		switch {
		case is == nil || is.Key == "_name":
			return nil, false, nil
		case is.Op == model.TagNone:
			return nil, true, nil
		case is.Op == model.TagNotEqual || is.Op == model.TagNotMatch:
			return v.having(ctx, &model.TagExpr{Op: model.TagNotEqual, Key: is.Key})
		}
		return v.having(ctx, is)
	})
}

// satisfies reports whether a predicate is true of the measurement as a whole, as in
// InfluxDB: tag = 'x' is true if some series has this value, tag != 'x' if the measurement
// has the tag key, and no series has this value.
func (m *indexMeasurement) satisfies(ctx context.Context, is *model.TagExpr) (bool, error) {
	if is == nil {
		return true, nil
	}
	switch is.Op {
	case model.TagNone:
		return false, nil
	case model.TagAnd, model.TagOr:
		ok, err := m.satisfies(ctx, is.Left)
		if err != nil || ok == (is.Op == model.TagOr) {
			return ok, err
		}
		return m.satisfies(ctx, is.Right)
	}
	if is.Key == "_name" {
		return admits(is, m.name), nil
	}
	return m.hasTag(ctx, is)
}

// hasTagValue reports whether some value of the tag key equals or matches. One
// value is looked up; only a regular expression needs the list of values.
func hasTagValue(ctx context.Context, shard scan.Shard, name string, c *model.TagExpr) (bool, error) {
	if c.Regex == nil {
		if c.Value == "" {
			return false, nil // no value is empty
		}
		set, err := shard.Select(ctx, name, &model.TagExpr{Op: model.TagEqual, Key: c.Key, Value: c.Value})
		return err == nil && !set.IsEmpty(), err
	}
	found := false
	err := shard.CountByTagValue(name, c.Key, nil, func(value []byte, _ int) bool { // without a list of them all
		found = c.Regex.Match(value)
		return !found
	})
	return found, err
}

// hasTag decides one comparison for a measurement.
func (m *indexMeasurement) hasTag(ctx context.Context, c *model.TagExpr) (bool, error) {
	known, match := false, false
	for _, shard := range m.shards {
		if match {
			break
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		keys, err := shard.TagKeys(m.name)
		if err != nil {
			return false, err
		}
		if !slices.Contains(keys, c.Key) {
			continue
		}
		known = true
		if match, err = hasTagValue(ctx, shard, m.name, c); err != nil {
			return false, err
		}
	}
	return known && match != (c.Op == model.TagNotEqual || c.Op == model.TagNotMatch), nil
}
