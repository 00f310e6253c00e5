package show

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	v, err := s.view(db, policies, model.AllTime)
	defer v.release()
	if err != nil {
		return nil, err
	}
	list, err := v.measurements(s.Ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	admitted, err := measurementsWhere(s.Ctx, where, list)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range list {
		if _, ok := admitted[m.name]; ok && (keep == nil || keep(m.name)) {
			names = append(names, m.name)
		}
	}
	return names, nil
}

// measurementsWhere returns the measurements that satisfy a WHERE clause. Its
// comparisons are about the measurement as a whole, as in InfluxDB: tag = 'x'
// is one that has the tag key with this value on some series, tag != 'x' one
// that has the tag key but this value on no series. AND is the intersection of
// the measurements, OR the union.
func measurementsWhere(ctx context.Context, where influxql.Expr, list []indexMeasurement) (map[string]struct{}, error) {
	admitted := make(map[string]struct{}, len(list))
	switch e := where.(type) {
	case nil:
		for _, m := range list {
			admitted[m.name] = struct{}{}
		}
		return admitted, nil
	case *influxql.ParenExpr:
		return measurementsWhere(ctx, e.Expr, list)
	case *influxql.BinaryExpr:
		switch e.Op {
		case influxql.AND, influxql.OR:
			left, err := measurementsWhere(ctx, e.LHS, list)
			if err != nil {
				return nil, err
			}
			right, err := measurementsWhere(ctx, e.RHS, list)
			if err != nil {
				return nil, err
			}
			if e.Op == influxql.OR {
				maps.Copy(left, right)
				return left, nil
			}
			maps.DeleteFunc(left, func(name string, _ struct{}) bool { _, both := right[name]; return !both })
			return left, nil
		case influxql.EQ, influxql.NEQ, influxql.EQREGEX, influxql.NEQREGEX:
		case expr.InOp, expr.NotInOp:
			return measurementsIn(ctx, e, list)
		default:
			return nil, errors.New("invalid tag comparison operator")
		}
		ref, ok := e.LHS.(*influxql.VarRef)
		if !ok {
			return nil, fmt.Errorf("left side of '%s' must be a tag key", e.Op)
		}
		c, ok := metaComparison(e)
		if !ok {
			if e.Op == influxql.EQREGEX || e.Op == influxql.NEQREGEX {
				return nil, fmt.Errorf("right side of '%s' must be a regular expression", e.Op)
			}
			return nil, fmt.Errorf("right side of '%s' must be a tag value string", e.Op)
		}
		for _, m := range list {
			ok := false
			if ref.Val == "_name" {
				ok = admits(c, m.name)
			} else if !influxql.IsSystemName(ref.Val) {
				var err error
				if ok, err = hasTag(ctx, m, c); err != nil {
					return nil, err
				}
			}
			if ok {
				admitted[m.name] = struct{}{}
			}
		}
		return admitted, nil
	}
	return nil, fmt.Errorf("invalid condition expression: %s", where)
}

// measurementsIn is measurementsWhere of x IN (members).
func measurementsIn(ctx context.Context, e *influxql.BinaryExpr, list []indexMeasurement) (map[string]struct{}, error) {
	members, negated, _ := expr.SetMembers(e)
	var admitted map[string]struct{}
	for _, m := range members {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		some, err := measurementsWhere(ctx, expr.MemberComparison(e, m, negated), list)
		switch {
		case err != nil:
			return nil, err
		case admitted == nil:
			admitted = some
		case negated:
			maps.DeleteFunc(admitted, func(name string, _ struct{}) bool { _, both := some[name]; return !both })
		default:
			maps.Copy(admitted, some)
		}
	}
	return admitted, nil
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
func hasTag(ctx context.Context, m indexMeasurement, c *model.TagExpr) (bool, error) {
	known, match := false, false
	for _, shard := range m.shards {
		if match {
			break
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
