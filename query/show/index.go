package show

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/expr"
	"tsdbd/query/result"
)

// ShowFieldKeys shows the fields of the default or named policy, one row for
// each type that some shard gives the field.
func (s *Statement) ShowFieldKeys(st *influxql.ShowFieldKeysStatement) ([]*result.Series, error) {
	fields, err := s.fields(st.Database, st.Sources)
	if err != nil {
		return nil, err
	}
	var tables []*result.Series
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		list := slices.SortedFunc(maps.Keys(fields[name]), func(a, b column.Field) int {
			return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Type.String(), b.Type.String()))
		})
		var keys, types []string
		for _, f := range list {
			keys, types = append(keys, f.Key), append(types, f.Type.String())
		}
		tables = appendTexts(tables, name, st.Limit, st.Offset, []string{"fieldKey", "fieldType"}, keys, types)
	}
	return tables, nil
}

// fields returns the fields of each measurement of the sources.
func (s *Statement) fields(db string, sources influxql.Sources) (map[string]map[column.Field]struct{}, error) {
	fields := map[string]map[column.Field]struct{}{}
	err := s.eachSourceMeasurement(db, sources, nil, model.AllTime, func(_ *indexView, m indexMeasurement) error {
		if fields[m.name] == nil {
			fields[m.name] = map[column.Field]struct{}{}
		}
		for _, shard := range m.shards {
			for _, f := range shard.Fields(m.name) {
				fields[m.name][f] = struct{}{}
			}
		}
		return nil
	}, nil)
	return fields, err
}

// appendTexts appends a table of what LIMIT and OFFSET leave of columns of texts,
// unless that is nothing.
func appendTexts(tables []*result.Series, name string, limit, offset int, names []string, columns ...[]string) []*result.Series {
	lo, hi := result.RowWindow(len(columns[0]), limit, offset)
	if lo >= hi {
		return tables
	}
	t := result.NewTable(name, names...)
	t.Rows = hi - lo
	for i, texts := range columns {
		t.Values[i] = column.Vector{Type: model.String, Strings: texts[lo:hi]}
	}
	return append(tables, t)
}

// measurementsOf returns the measurements among sources, whose policies are
// passed over.
func measurementsOf(sources influxql.Sources) []*influxql.Measurement {
	var list []*influxql.Measurement
	for _, source := range sources {
		if m, ok := source.(*influxql.Measurement); ok {
			list = append(list, m)
		}
	}
	return list
}

// tagParts calls f for each part that a SHOW TAG statement looks at. It passes over
// measurements without a tag key that asked is true of; asked nil: without tag keys.
func (s *Statement) tagParts(db string, policies []string, sources influxql.Sources, cond expr.Condition, asked func(key string) bool, f func(part) error) error {
	if cond.Range.Empty() {
		return nil
	}
	among := func(v *indexView) ([]string, bool, error) {
		predicate, err := metaPredicate(cond.Expr, ofAnyName)
		if err != nil {
			return nil, false, nil // the first measurement with a tag key fails with it
		}
		keyed, err := v.withKey(s.Ctx, asked)
		if err != nil {
			return nil, false, err
		}
		return v.having(s.Ctx, expr.AndTags(keyed, predicate))
	}
	all := []sourceGroup{{db, policies, measurementsOf(sources), among}}
	return s.eachMeasurement(all, cond.Range, func(_ *indexView, m indexMeasurement) error {
		if found, err := m.hasKey(asked); err != nil || !found {
			return err
		}
		predicate, err := metaPredicate(cond.Expr, ofName(m.name))
		if err != nil {
			return err
		}
		parts, err := s.parts(m, roaring.New(), func(scan.Shard) *model.TagExpr { return predicate })
		if err != nil {
			return err
		}
		for _, p := range parts {
			if err := f(p); err != nil {
				return err
			}
		}
		return nil
	}, nil)
}

// ShowTagKeys looks at all policies: those named in FROM do not narrow it.
func (s *Statement) ShowTagKeys(st *influxql.ShowTagKeysStatement) ([]*result.Series, error) {
	db, err := s.Database(st.Database)
	if err != nil {
		return nil, err
	}
	match, err := keyMatcher(st.TagKeyOp, st.TagKeyExpr)
	if err != nil {
		return nil, err
	}
	cond, err := s.splitTime(st.Condition)
	if err != nil {
		return nil, err
	}
	keys := map[string]*counter{}
	err = s.tagParts(db.Name, policyNames(db), st.Sources, cond, match, func(p part) error {
		c := keys[p.name]
		if c == nil {
			c = new(counter)
			keys[p.name] = c
		}
		found, err := p.keys(func(key string) bool { _, known := c.names[key]; return !known && (match == nil || match(key)) })
		for _, key := range found {
			c.add(key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var tables []*result.Series
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		list := slices.Sorted(maps.Keys(keys[name].names))
		tables = appendTexts(tables, name, st.Limit, st.Offset, []string{"tagKey"}, list)
	}
	return tables, nil
}

// ShowTagValues looks at all policies, or at the one that FROM names.
func (s *Statement) ShowTagValues(st *influxql.ShowTagValuesStatement) ([]*result.Series, error) {
	db, err := s.Database(st.Database)
	if err != nil {
		return nil, err
	}
	policies, err := oneRetentionPolicy(st.Sources)
	if err != nil {
		return nil, err
	}
	if policies == nil {
		policies = policyNames(db)
	}
	match, err := keyMatcher(st.Op, st.TagKeyExpr)
	if err != nil {
		return nil, err
	}
	cond, err := s.splitTime(st.Condition)
	if err != nil {
		return nil, err
	}
	var ofValue *model.TagExpr
	cond.Expr, ofValue = splitValue(cond.Expr)
	most := math.MaxInt // values of a key that can be shown
	if st.Limit > 0 && ofValue == nil {
		most = result.AddLimits(st.Limit, st.Offset)
	}
	type found map[string][][]string // key -> sorted values by shard
	byMeasurement := map[string]found{}
	err = s.tagParts(db.Name, policies, st.Sources, cond, match, func(p part) error {
		tagKeys, err := p.shard.TagKeys(p.name)
		if err != nil {
			return err
		}
		for _, key := range tagKeys {
			if !match(key) {
				continue
			}
			values, err := p.values(key, most)
			if err != nil {
				return err
			}
			if ofValue != nil {
				values = slices.DeleteFunc(slices.Clone(values), func(text string) bool {
					return !ofValue.Match(model.Tags{{Key: "value", Value: text}})
				})
			}
			if len(values) == 0 {
				continue
			}
			if byMeasurement[p.name] == nil {
				byMeasurement[p.name] = found{}
			}
			byMeasurement[p.name][key] = append(byMeasurement[p.name][key], values)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var tables []*result.Series
	for _, name := range slices.Sorted(maps.Keys(byMeasurement)) {
		var keys, values []string
		for _, key := range slices.Sorted(maps.Keys(byMeasurement[name])) {
			n := 0
			for _, list := range byMeasurement[name][key] {
				n += len(list)
			}
			if err := s.Keep(2 * listBytes * int64(n)); err != nil {
				return nil, err
			}
			for _, value := range mergeSorted(byMeasurement[name][key]) {
				keys, values = append(keys, key), append(values, value)
			}
		}
		tables = appendTexts(tables, name, st.Limit, st.Offset, []string{"key", "value"}, keys, values)
	}
	return tables, nil
}

// splitValue takes the comparisons of the column "value" out of a WHERE clause:
// they are about the values that are shown, not about a tag of that name.
func splitValue(where influxql.Expr) (rest influxql.Expr, ofValue *model.TagExpr) {
	switch e := where.(type) {
	case *influxql.ParenExpr:
		return splitValue(e.Expr)
	case *influxql.BinaryExpr:
		if e.Op == influxql.AND || e.Op == influxql.OR {
			restL, left := splitValue(e.LHS)
			restR, right := splitValue(e.RHS)
			switch rest = expr.JoinExpr(e.Op, restL, restR); {
			case left == nil || right == nil:
				return rest, cmp.Or(left, right)
			case e.Op == influxql.AND:
				return rest, expr.AndTags(left, right)
			}
			return rest, expr.OrTags(left, right)
		}
		if c, ok := metaComparison(e); ok && c.Key == "value" {
			return nil, c
		}
		if comparesNumber(e, "value") {
			return nil, &model.TagExpr{Op: model.TagNone}
		}
	}
	return where, nil
}

// comparesNumber reports whether e is key = 1 or key != 1, which no text satisfies.
func comparesNumber(e *influxql.BinaryExpr, key string) bool {
	ref, ok := e.LHS.(*influxql.VarRef)
	if !ok || ref.Val != key || e.Op != influxql.EQ && e.Op != influxql.NEQ {
		return false
	}
	switch e.RHS.(type) {
	case *influxql.IntegerLiteral, *influxql.UnsignedLiteral, *influxql.NumberLiteral, *influxql.BooleanLiteral:
		return true
	}
	return false
}

// mergeSorted returns the sorted union of sorted lists.
func mergeSorted(lists [][]string) []string {
	if len(lists) == 1 {
		return lists[0]
	}
	all := slices.Concat(lists...)
	slices.Sort(all)
	return slices.Compact(all)
}

// oneRetentionPolicy returns the policy that sources name, or nil.
func oneRetentionPolicy(sources influxql.Sources) ([]string, error) {
	names := map[string]struct{}{}
	for _, source := range sources {
		if m, ok := source.(*influxql.Measurement); ok && m.RetentionPolicy != "" {
			names[m.RetentionPolicy] = struct{}{}
		}
	}
	list := slices.Sorted(maps.Keys(names))
	if len(list) > 1 {
		return nil, fmt.Errorf(`only one retention policy allowed in SHOW TAG VALUES query: "%s"`, strings.Join(list, `", "`))
	}
	return list, nil
}

// ShowSeries shows series keys, escaped as in line protocol, in the order of
// measurement and key. A time bound keeps the series that have rows in it.
func (s *Statement) ShowSeries(st *influxql.ShowSeriesStatement) ([]*result.Series, error) {
	cond, err := s.splitTime(st.Condition)
	if err != nil {
		return nil, err
	}
	if err := checkTagOperators(cond.Expr); err != nil {
		return nil, err
	}
	if cond.Range.Empty() {
		return nil, nil
	}
	type part struct {
		view *indexView
		set  *roaring.Bitmap
	}
	byMeasurement := map[string][]part{}
	var list []string
	tags, _ := expr.SplitTags(cond.Expr, expr.FieldTest(nil)) // where no name is a field
	among := func(v *indexView) ([]string, bool, error) {
		names, known, err := v.having(s.Ctx, tags)
		if err != nil || !known {
			return nil, false, err
		}
		more, err := v.withFields(s.Ctx, cond.Expr)
		return mergeSorted([][]string{names, more}), true, err
	}
	collect := func(v *indexView, m indexMeasurement) error {
		set, err := s.seriesOf(v, m, cond)
		if err == nil && !set.IsEmpty() {
			byMeasurement[m.name] = append(byMeasurement[m.name], part{v, set})
		}
		return err
	}
	// Keys are made measurement by measurement, and not beyond the limit: they
	// are what needs memory.
	err = s.eachSourceMeasurement(st.Database, st.Sources, among, cond.Range, collect, func() error {
		for _, name := range slices.Sorted(maps.Keys(byMeasurement)) {
			if st.Limit > 0 && len(list) >= result.AddLimits(st.Offset, st.Limit) {
				break
			}
			var keys []string
			for _, p := range byMeasurement[name] {
				var err error
				if keys, err = p.view.appendSeriesKeys(s.Ctx, keys, p.set); err != nil {
					return err
				}
			}
			slices.Sort(keys)
			list = append(list, slices.Compact(keys)...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return appendTexts(nil, "", st.Limit, st.Offset, []string{"key"}, list), nil
}

// withFields returns, sorted, the measurements that have a field that a condition names.
func (v *indexView) withFields(ctx context.Context, where influxql.Expr) (names []string, err error) {
	var refs []*influxql.VarRef
	influxql.WalkFunc(where, func(n influxql.Node) {
		if ref, ok := n.(*influxql.VarRef); ok {
			refs = append(refs, ref)
		}
	})
	for _, shard := range v.shards {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, name := range shard.Measurements() {
			if slices.ContainsFunc(refs, expr.FieldTest(shard.Fields(name))) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), v.keep(int64(len(names)) * listBytes)
}

// checkTagOperators refuses comparisons that no tag knows.
func checkTagOperators(where influxql.Expr) error {
	var err error
	if where != nil {
		influxql.WalkFunc(where, func(n influxql.Node) {
			if e, ok := n.(*influxql.BinaryExpr); ok {
				switch e.Op {
				case influxql.EQ, influxql.NEQ, influxql.EQREGEX, influxql.NEQREGEX, influxql.OR, influxql.AND, expr.InOp, expr.NotInOp:
				default:
					err = errors.New("invalid tag comparison operator")
				}
			}
		})
	}
	return err
}

// seriesOf returns the series of a measurement that satisfy the tag part of a
// condition; its comparisons of fields are passed over. Shards that the time
// bounds cut are read, to see which series have rows within.
func (s *Statement) seriesOf(v *indexView, m indexMeasurement, cond expr.Condition) (*roaring.Bitmap, error) {
	all := roaring.New()
	for _, shard := range m.shards {
		fields := shard.Fields(m.name)
		isField := expr.FieldTest(fields)
		tags, rest := expr.SplitTags(cond.Expr, isField)
		set, err := shard.Select(s.Ctx, m.name, tags)
		if err != nil {
			return nil, err
		}
		if comparesTags(rest, isField) {
			if set, err = v.withTags(s.Ctx, set, func(tags model.Tags) bool { return tagsHold(rest, tags, isField) }); err != nil {
				return nil, err
			}
		}
		if (cond.HasMin || cond.HasMax) && !set.IsEmpty() && !cond.Range.Covers(shard.TimeRange()) {
			if set, err = s.withRows(shard, m.name, set, fields, cond.Range); err != nil {
				return nil, err
			}
		}
		all.Or(set)
	}
	return all, nil
}

// withRows returns the series of set that have rows with times in r.
func (s *Statement) withRows(shard scan.Shard, name string, set *roaring.Bitmap, fields []column.Field, r model.TimeRange) (*roaring.Bitmap, error) {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	cursor, err := shard.Scan(s.Ctx, scan.Request{Measurement: name, Series: set, Fields: keys, Range: r, Hold: s.Keep})
	if err != nil {
		return nil, err
	}
	defer cursor.Close()
	found := roaring.New()
	for {
		id, ok := cursor.NextSeries()
		if !ok {
			return found, cursor.Err()
		}
		found.Add(uint32(id))
	}
}
