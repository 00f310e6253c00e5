package show

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/expr"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// Cardinalities are exact here: they come from the index's sets of series. The
// column of the forms that InfluxDB estimates keeps its name all the same.
const (
	columnEstimate = "cardinality estimation"
	columnCount    = "count"
)

// cardinality is a statement of the family in one shape.
type cardinality struct {
	what       string // for the message about time
	database   string
	sources    influxql.Sources
	where      influxql.Expr
	dimensions influxql.Dimensions
	offset     int
	column     string
	// byName makes a table for each measurement, else one for all.
	byName bool
	// present has comparisons only hold for series that have the tag.
	present bool
}

// counter counts one distinct thing within a group of series.
type counter struct {
	names   map[string]struct{}
	values  []tagValues
	counted int64 // series, or values
}

func (c *counter) add(name string) {
	if c.names == nil {
		c.names = map[string]struct{}{}
	}
	c.names[name] = struct{}{}
}

func (c *counter) count() int64 { return int64(len(c.names)) + c.counted }

// tagValues are the values of a tag key of a part, to be counted.
type tagValues struct {
	part
	key string
}

// fewValues is the number of values up to which they are looked up in a shard's
// index, one by one, rather than merged with all that it has.
const fewValues = 100

// countValues counts the distinct values of parts, which need the view. Where the first
// is all values of its shard and the others add few, its index may know their number.
func countValues(ctx context.Context, parts []tagValues) (int64, error) {
	if len(parts) == 0 {
		return 0, nil
	}
	first := parts[0]
	lists := make([][]string, 0, len(parts))
	oneKey := true
	for _, v := range parts[1:] {
		values, err := v.values(v.key, math.MaxInt)
		if err != nil {
			return 0, err
		}
		lists = append(lists, values)
		oneKey = oneKey && v.key == first.key
	}
	others := mergeSorted(lists)
	if first.whole && oneKey && len(others) <= fewValues {
		n, err := first.shard.TagValueCount(first.name, first.key)
		if err != nil {
			return 0, err
		}
		for _, value := range others {
			set, err := first.shard.Select(ctx, first.name, &model.TagExpr{Op: model.TagEqual, Key: first.key, Value: value})
			if err != nil {
				return 0, err
			}
			if set.IsEmpty() {
				n++
			}
		}
		return int64(n), nil
	}
	values, err := first.values(first.key, math.MaxInt)
	if err != nil {
		return 0, err
	}
	return int64(len(mergeSorted([][]string{values, others}))), nil
}

// run counts. collect adds what a part of a group has.
func (c *cardinality) run(s *Statement, collect func(*counter, part) error) ([]*result.Series, error) {
	rng := model.AllTime
	if influxql.HasTimeExpr(c.where) {
		if !c.present {
			return nil, errors.New(c.what + " EXACT CARDINALITY doesn't support time in WHERE clause")
		}
		cond, err := expr.SplitTime(c.where, s.Now(), time.UTC)
		if err != nil {
			return nil, err
		}
		if c.where, rng = cond.Expr, cond.Range; !rng.Contains(0) {
			return nil, nil // InfluxDB gives values of tags the time 0
		}
	}
	type group struct {
		counter
		name string
		tags model.Tags
	}
	groups := map[string]*group{}           // by GroupKey
	seen := map[[2]string]*roaring.Bitmap{} // series, by database and measurement
	err := s.eachSourceMeasurement(c.database, c.sources, nil, rng, func(v *indexView, m indexMeasurement) error {
		keys, err := c.keys(m)
		if err != nil {
			return err
		}
		of := [2]string{v.database, m.name}
		if seen[of] == nil {
			seen[of] = roaring.New()
		}
		parts, err := s.parts(m, seen[of], func(shard scan.Shard) *model.TagExpr { return c.predicate(shard, m.name) })
		if err != nil {
			return err
		}
		for _, p := range parts {
			err = p.eachGroup(keys, func(tuple []string, p part) error {
				name := ""
				if c.byName {
					name = m.name
				}
				key := string(scan.GroupKey(nil, name, tuple))
				if groups[key] == nil {
					g := &group{name: name}
					for i, k := range keys {
						g.tags = append(g.tags, model.Tag{Key: k, Value: tuple[i]})
					}
					groups[key] = g
				}
				return collect(&groups[key].counter, p)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}, func() error {
		for _, g := range groups {
			n, err := countValues(s.Ctx, g.values)
			if err != nil {
				return err
			}
			g.counted += n
		}
		return nil
	})
	if err != nil || c.offset > 0 { // each table has one row
		return nil, err
	}
	order := slices.SortedFunc(maps.Values(groups), func(a, b *group) int {
		return cmp.Or(strings.Compare(a.name, b.name), slices.CompareFunc(a.tags, b.tags, func(x, y model.Tag) int {
			return strings.Compare(x.Value, y.Value)
		}))
	})
	var tables []*result.Series
	for _, g := range order {
		if n := g.count(); n > 0 {
			t := result.ValueTable(g.name, []string{c.column}, []any{n})
			t.Tags = g.tags
			tables = append(tables, t)
		}
	}
	return tables, nil
}

// keys returns the sorted tag keys that GROUP BY names for a measurement.
func (c *cardinality) keys(m indexMeasurement) ([]string, error) {
	var keys []string
	matching := func(match func(key string) bool) error {
		for _, shard := range m.shards {
			all, err := shard.TagKeys(m.name)
			if err != nil {
				return err
			}
			for _, key := range all {
				if match(key) {
					keys = append(keys, key)
				}
			}
		}
		return nil
	}
	for _, d := range c.dimensions {
		switch e := d.Expr.(type) {
		case *influxql.VarRef:
			keys = append(keys, e.Val)
		case *influxql.Wildcard:
			if err := matching(func(string) bool { return true }); err != nil {
				return nil, err
			}
		case *influxql.RegexLiteral:
			if err := matching(e.Val.MatchString); err != nil {
				return nil, err
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// predicate returns the predicate of a WHERE clause. One that needs the values of fields is
// true of no series.
func (c *cardinality) predicate(shard scan.Shard, name string) *model.TagExpr {
	tags, rest := expr.SplitTags(c.where, expr.FieldTest(shard.Fields(name)))
	switch {
	case rest != nil:
		return &model.TagExpr{Op: model.TagNone}
	case c.present:
		return excludeMissingTags(tags)
	}
	return tags
}

// excludeMissingTags returns a predicate whose comparisons are false for a tag that a
// series lacks.
func excludeMissingTags(e *model.TagExpr) *model.TagExpr {
	if e == nil {
		return nil
	}
	switch e.Op {
	case model.TagAnd, model.TagOr:
		return &model.TagExpr{Op: e.Op, Left: excludeMissingTags(e.Left), Right: excludeMissingTags(e.Right)}
	case model.TagAll: // of the names of the index, which are no tags
		return &model.TagExpr{Op: model.TagNone}
	case model.TagNone:
		return e
	}
	return &model.TagExpr{Op: model.TagAnd, Left: e, Right: &model.TagExpr{Op: model.TagNotEqual, Key: e.Key}}
}

// eachGroup splits a part by the values of tag keys.
func (p part) eachGroup(keys []string, f func(tuple []string, p part) error) error {
	if len(keys) == 0 {
		return f(nil, p)
	}
	groups, err := p.shard.GroupBy(p.name, p.set, keys)
	if err != nil {
		return err
	}
	sets := make([]*roaring.Bitmap, len(groups.Tuples))
	for i := range sets {
		sets[i] = roaring.New()
	}
	for it := p.set.Iterator(); it.HasNext(); {
		id := it.Next()
		sets[groups.Of(model.SeriesID(id))].Add(id)
	}
	for i, set := range sets {
		if err := f(groups.Tuples[i], part{p.shard, p.name, set, false}); err != nil {
			return err
		}
	}
	return nil
}

// wholeDatabase calls f with a view of all policies and times of a database.
func (s *Statement) wholeDatabase(db *meta.Database, f func(*indexView) error) error {
	v, err := s.view(db.Name, policyNames(db), model.AllTime)
	defer v.release()
	if err != nil {
		return err
	}
	return f(v)
}

// seriesCount returns the number of series in the shards of the view.
func (v *indexView) seriesCount() int64 {
	all := roaring.New()
	for _, shard := range v.shards {
		all.Or(shard.AllSeries())
	}
	return int64(all.GetCardinality())
}

// estimated shows the total of a database, or 0 for one that is unknown.
func (s *Statement) estimated(database string, total func(*indexView) (int64, error)) ([]*result.Series, error) {
	if database == "" {
		return nil, syntax.ErrDatabaseNameRequired
	}
	var n int64
	if db := s.Catalog().Database(database); db != nil {
		err := s.wholeDatabase(db, func(v *indexView) (err error) {
			n, err = total(v)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return []*result.Series{result.ValueTable("", []string{columnEstimate}, []any{n})}, nil
}

// ShowSeriesCardinality counts series.
func (s *Statement) ShowSeriesCardinality(st *influxql.ShowSeriesCardinalityStatement) ([]*result.Series, error) {
	plain := !st.Exact && st.Dimensions == nil && st.Limit == 0 && st.Offset == 0
	if plain && st.Sources == nil && st.Condition == nil {
		return s.estimated(st.Database, func(v *indexView) (int64, error) {
			return v.seriesCount(), nil
		})
	}
	c := cardinality{
		what: "SHOW SERIES", database: st.Database, sources: st.Sources, where: st.Condition,
		dimensions: st.Dimensions, offset: st.Offset, column: columnCount, byName: true,
	}
	if plain {
		c.column = columnEstimate
	}
	return c.run(s, func(c *counter, p part) error {
		c.counted += int64(p.set.GetCardinality())
		return nil
	})
}

// ShowMeasurementCardinality counts measurements.
func (s *Statement) ShowMeasurementCardinality(st *influxql.ShowMeasurementCardinalityStatement) ([]*result.Series, error) {
	if !st.Exact && st.Sources == nil && st.Condition == nil && st.Dimensions == nil && st.Limit == 0 && st.Offset == 0 {
		return s.estimated(st.Database, func(v *indexView) (int64, error) {
			list, err := v.measurements(s.Ctx, nil, nil)
			return int64(len(list)), err
		})
	}
	c := cardinality{
		what: "SHOW MEASUREMENT", database: st.Database, sources: st.Sources, where: st.Condition,
		dimensions: st.Dimensions, offset: st.Offset, column: columnCount,
	}
	return c.run(s, func(c *counter, p part) error {
		c.add(p.name)
		return nil
	})
}

// ShowFieldKeyCardinality counts names of fields. Fields have no tags: a WHERE
// clause leaves none, and GROUP BY makes one group without values.
func (s *Statement) ShowFieldKeyCardinality(st *influxql.ShowFieldKeyCardinalityStatement) ([]*result.Series, error) {
	if influxql.HasTimeExpr(st.Condition) {
		return nil, errors.New("SHOW FIELD KEY CARDINALITY doesn't support time in WHERE clause")
	}
	fields, err := s.fields(st.Database, st.Sources)
	if err != nil || st.Condition != nil || st.Offset > 0 {
		return nil, err
	}
	var tags model.Tags
	for _, d := range st.Dimensions {
		if ref, ok := d.Expr.(*influxql.VarRef); ok {
			tags = append(tags, model.Tag{Key: ref.Val})
		}
	}
	tags.Sort()
	var tables []*result.Series
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var keys counter
		for f := range fields[name] {
			keys.add(f.Key)
		}
		t := result.ValueTable(name, []string{columnCount}, []any{keys.count()})
		t.Tags = tags
		tables = append(tables, t)
	}
	return tables, nil
}

// ShowTagKeyCardinality counts the tag keys of each measurement.
func (s *Statement) ShowTagKeyCardinality(st *influxql.ShowTagKeyCardinalityStatement) ([]*result.Series, error) {
	c := cardinality{
		what: "SHOW TAG KEY", database: st.Database, sources: st.Sources, where: st.Condition,
		dimensions: st.Dimensions, offset: st.Offset, column: columnCount, byName: true,
	}
	return c.run(s, func(c *counter, p part) error {
		keys, err := p.keys(func(key string) bool { _, known := c.names[key]; return !known })
		for _, key := range keys {
			c.add(key)
		}
		return err
	})
}

// ShowTagValuesCardinality counts the values of the chosen tag keys of each
// measurement.
func (s *Statement) ShowTagValuesCardinality(st *influxql.ShowTagValuesCardinalityStatement) ([]*result.Series, error) {
	match, err := keyMatcher(st.Op, st.TagKeyExpr)
	if err != nil {
		return nil, err
	}
	c := cardinality{
		what: "SHOW TAG VALUES", database: st.Database, sources: st.Sources, where: st.Condition,
		dimensions: st.Dimensions, offset: st.Offset, column: columnCount, byName: true, present: true,
	}
	return c.run(s, func(c *counter, p part) error {
		keys, err := p.shard.TagKeys(p.name)
		for _, key := range keys {
			if match == nil || match(key) {
				c.values = append(c.values, tagValues{p, key})
			}
		}
		return err
	})
}
