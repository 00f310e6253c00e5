package show

import (
	"cmp"
	"context"
	"errors"
	"maps"
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
	ids     *roaring.Bitmap // counted, unless something else is
	seen    *roaring.Bitmap // series whose values are in values
	names   map[string]struct{}
	values  []tagValues
	counted int64 // of values
}

// tagValues are the values of a tag key of a shard, to be counted.
type tagValues struct {
	shard     scan.Shard
	name, key string
	set       *roaring.Bitmap // nil: all series
}

func (v *tagValues) list() ([]string, error) { return v.shard.TagValues(v.name, v.key, v.set) }

// fewValues is the number of values up to which they are looked up in a shard's
// index, one by one, rather than merged with all that it has.
const fewValues = 100

// countValues counts the values that were gathered, which need the view.
func (c *counter) countValues(ctx context.Context) (err error) {
	c.counted, err = countValues(ctx, c.values)
	return err
}

// countValues counts the distinct values of parts. Where the first is all
// values of its shard and the others add few, its index may know their number.
func countValues(ctx context.Context, parts []tagValues) (int64, error) {
	if len(parts) == 0 {
		return 0, nil
	}
	first := parts[0]
	lists := make([][]string, 0, len(parts))
	oneKey := true
	for _, v := range parts[1:] {
		values, err := v.list()
		if err != nil {
			return 0, err
		}
		lists = append(lists, values)
		oneKey = oneKey && v.key == first.key
	}
	others := mergeSorted(lists)
	if first.set == nil && oneKey && len(others) <= fewValues {
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
	values, err := first.list()
	if err != nil {
		return 0, err
	}
	return int64(len(mergeSorted([][]string{values, others}))), nil
}

// shardSeries is a set of series of a measurement in a shard.
type shardSeries struct {
	shard scan.Shard
	set   *roaring.Bitmap
}

// selectSeries returns the series of a measurement by shard, the largest set
// first and none that is empty.
func selectSeries(m indexMeasurement, sel func(shard scan.Shard) (*roaring.Bitmap, error)) ([]shardSeries, error) {
	var parts []shardSeries
	for _, shard := range m.shards {
		set, err := sel(shard)
		if err != nil {
			return nil, err
		}
		if !set.IsEmpty() {
			parts = append(parts, shardSeries{shard, set})
		}
	}
	slices.SortStableFunc(parts, func(a, b shardSeries) int {
		return cmp.Compare(b.set.GetCardinality(), a.set.GetCardinality())
	})
	return parts, nil
}

func (c *counter) add(name string) {
	if c.names == nil {
		c.names = map[string]struct{}{}
	}
	c.names[name] = struct{}{}
}

func (c *counter) count() int64 {
	if c.ids != nil {
		return int64(c.ids.GetCardinality())
	}
	return int64(len(c.names)) + c.counted
}

// run counts. collect adds what a set of series of a measurement has in a shard.
func (c *cardinality) run(s *Statement, collect func(counter *counter, name string, shard scan.Shard, set *roaring.Bitmap) error) ([]*result.Series, error) {
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
	groups := map[string]*group{} // by GroupKey
	err := s.eachSourceMeasurement(c.database, c.sources, rng, func(_ *indexView, m indexMeasurement) error {
		keys, err := c.keys(m)
		if err != nil {
			return err
		}
		parts, err := selectSeries(m, func(shard scan.Shard) (*roaring.Bitmap, error) { return c.selectByTags(s.Ctx, shard, m.name) })
		if err != nil {
			return err
		}
		for _, p := range parts {
			shard, set := p.shard, p.set
			err = eachGroup(shard, m.name, set, keys, func(tuple []string, part *roaring.Bitmap) error {
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
				return collect(&groups[key].counter, m.name, shard, part)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}, func() error {
		for _, g := range groups {
			if err := g.countValues(s.Ctx); err != nil {
				return err
			}
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

// selectByTags returns the series that satisfy a WHERE clause; one that needs
// the values of fields is satisfied by none.
func (c *cardinality) selectByTags(ctx context.Context, shard scan.Shard, name string) (*roaring.Bitmap, error) {
	tags, rest := expr.SplitTags(c.where, expr.FieldTest(shard.Fields(name)))
	if rest != nil {
		return roaring.New(), nil
	}
	if c.present {
		tags = excludeMissingTags(tags)
	}
	return shard.Select(ctx, name, tags)
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

// eachGroup splits a set of series by the values of tag keys.
func eachGroup(shard scan.Shard, name string, set *roaring.Bitmap, keys []string, f func(tuple []string, part *roaring.Bitmap) error) error {
	if len(keys) == 0 {
		return f(nil, set)
	}
	groups, err := shard.GroupBy(name, set, keys)
	if err != nil {
		return err
	}
	parts := make([]*roaring.Bitmap, len(groups.Tuples))
	for i := range parts {
		parts[i] = roaring.New()
	}
	for it := set.Iterator(); it.HasNext(); {
		id := it.Next()
		parts[groups.Of(model.SeriesID(id))].Add(id)
	}
	for i, part := range parts {
		if err := f(groups.Tuples[i], part); err != nil {
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
	return c.run(s, func(c *counter, _ string, _ scan.Shard, set *roaring.Bitmap) error {
		if c.ids == nil {
			c.ids = roaring.New()
		}
		c.ids.Or(set)
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
	return c.run(s, func(c *counter, name string, _ scan.Shard, _ *roaring.Bitmap) error {
		c.add(name)
		return nil
	})
}

// ShowFieldKeyCardinality counts names of fields. Fields have no tags: a WHERE
// clause leaves none, and GROUP BY makes one group without values.
func (s *Statement) ShowFieldKeyCardinality(st *influxql.ShowFieldKeyCardinalityStatement) ([]*result.Series, error) {
	if influxql.HasTimeExpr(st.Condition) {
		return nil, errors.New("SHOW FIELD KEY CARDINALITY doesn't support time in WHERE clause")
	}
	counters := map[string]*counter{}
	err := s.eachSourceMeasurement(st.Database, st.Sources, model.AllTime, func(_ *indexView, m indexMeasurement) error {
		if counters[m.name] == nil {
			counters[m.name] = new(counter)
		}
		for _, shard := range m.shards {
			for _, f := range shard.Fields(m.name) {
				counters[m.name].add(f.Key)
			}
		}
		return nil
	}, nil)
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
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		if n := counters[name].count(); n > 0 {
			t := result.ValueTable(name, []string{columnCount}, []any{n})
			t.Tags = tags
			tables = append(tables, t)
		}
	}
	return tables, nil
}

// ShowTagKeyCardinality counts the tag keys of each measurement.
func (s *Statement) ShowTagKeyCardinality(st *influxql.ShowTagKeyCardinalityStatement) ([]*result.Series, error) {
	c := cardinality{
		what: "SHOW TAG KEY", database: st.Database, sources: st.Sources, where: st.Condition,
		dimensions: st.Dimensions, offset: st.Offset, column: columnCount, byName: true,
	}
	whole := st.Condition == nil && st.Dimensions == nil
	return c.run(s, func(c *counter, name string, shard scan.Shard, set *roaring.Bitmap) error {
		keys, err := shard.TagKeys(name)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if _, known := c.names[key]; known {
				continue
			}
			if whole { // every key of the index is on some series
				c.add(key)
				continue
			}
			values, err := firstTagValues(shard, name, key, set, 1)
			if err != nil {
				return err
			}
			if len(values) > 0 {
				c.add(key)
			}
		}
		return nil
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
	whole := st.Condition == nil && st.Dimensions == nil
	return c.run(s, func(c *counter, name string, shard scan.Shard, set *roaring.Bitmap) error {
		// A series has the same values in all shards.
		if c.seen == nil {
			c.seen = roaring.New()
		}
		fresh := roaring.AndNot(set, c.seen)
		if fresh.IsEmpty() {
			return nil
		}
		if whole && c.seen.IsEmpty() {
			fresh = nil
		}
		c.seen.Or(set)
		keys, err := shard.TagKeys(name)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if !match(key) {
				continue
			}
			c.values = append(c.values, tagValues{shard, name, key, fresh})
		}
		return nil
	})
}
