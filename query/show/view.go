package show

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/expr"
)

// indexView is the set of shards that a SHOW statement looks at.
type indexView struct {
	database string
	views    []scan.View
	shards   []scan.Shard
	keep     func(bytes int64) error // Statement.Keep
}

// listBytes is what a text takes in the lists of a statement in addition to its
// bytes, nameBytes what a name takes in its maps.
const (
	listBytes = 32
	nameBytes = 128
)

// view references the shards of some policies of a database that overlap r.
// The caller must release it, also after an error.
func (s *Statement) view(db string, policies []string, r model.TimeRange) (*indexView, error) {
	v := &indexView{database: db, keep: s.Keep}
	for _, policy := range policies {
		part, err := s.Storage.View(db, policy, r)
		if err != nil {
			if errors.Is(err, meta.ErrRetentionPolicyNotFound) && s.Catalog().Database(db).RetentionPolicy(policy) == nil && len(policies) > 1 {
				continue // dropped in between
			}
			return v, err
		}
		v.views = append(v.views, part)
		if s.Warn != nil {
			for _, text := range scan.Notes(part, r) {
				s.Warn(text)
			}
		}
		for _, shard := range part.Shards() {
			v.shards = append(v.shards, shard.Charged(s.Keep))
		}
	}
	return v, nil
}

func (v *indexView) release() {
	for _, part := range v.views {
		part.Release()
	}
}

// appendSeriesKeys appends the keys of a set of series.
func (v *indexView) appendSeriesKeys(ctx context.Context, dst []string, set *roaring.Bitmap) ([]string, error) {
	if err := v.keep(int64(set.GetCardinality()) * listBytes); err != nil {
		return nil, err
	}
	dst = slices.Grow(dst, int(set.GetCardinality()))
	owed := int64(0)
	for n, it := 0, set.Iterator(); it.HasNext(); n++ {
		if n%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		key, err := v.views[0].SeriesKey(model.SeriesID(it.Next()))
		if err != nil {
			return nil, err
		}
		dst = append(dst, key)
		if owed += int64(len(key)); owed >= 64<<10 {
			if err := v.keep(owed); err != nil {
				return nil, err
			}
			owed = 0
		}
	}
	return dst, v.keep(owed)
}

// indexMeasurement is a measurement and the shards that have it.
type indexMeasurement struct {
	name   string
	shards []scan.Shard
}

// measurements returns the measurements that match, sorted by name. Where
// names lists all candidates (nil: it does not), only those are looked up, in each shard.
func (v *indexView) measurements(ctx context.Context, names []string, match func(name string) bool) ([]indexMeasurement, error) {
	byName := map[string][]scan.Shard{}
	for _, shard := range v.shards {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if names != nil {
			for _, name := range names {
				if len(shard.Fields(name)) > 0 && (match == nil || match(name)) {
					byName[name] = append(byName[name], shard)
				}
			}
			continue
		}
		before := len(byName)
		for _, name := range shard.Measurements() {
			if match == nil || match(name) {
				byName[name] = append(byName[name], shard)
			}
		}
		if err := v.keep(int64(len(byName)-before) * nameBytes); err != nil {
			return nil, err
		}
	}
	list := make([]indexMeasurement, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		list = append(list, indexMeasurement{name, byName[name]})
	}
	return list, nil
}

// candidates returns, sorted, measurements among which are all that a statement is about, and
// false if it does not know them.
type candidates func(*indexView) (names []string, known bool, err error)

// having returns the candidates with a series, in some shard, that satisfies a predicate; nil
// is true of all series.
func (v *indexView) having(ctx context.Context, where *model.TagExpr) (names []string, known bool, err error) {
	if where == nil {
		return nil, false, nil
	}
	for _, shard := range v.shards {
		taken := int64(0)
		found, _, err := shard.Charged(func(bytes int64) error {
			taken += bytes
			return v.keep(bytes)
		}).MeasurementsWhere(ctx, where)
		if err != nil {
			return nil, false, err
		}
		before := len(names)
		names = mergeSorted([][]string{names, found})
		if err := v.keep(int64(len(names)-before)*listBytes - taken); err != nil {
			return nil, false, err
		}
	}
	return names, true, nil
}

// manyKeys is the number of tag keys from which it is not worth while to look for the
// measurements that have one of them.
const manyKeys = 16

// withKey returns a predicate that series satisfy which have a tag key that match is true of;
// nil if there are many keys, or match is nil.
func (v *indexView) withKey(ctx context.Context, match func(key string) bool) (*model.TagExpr, error) {
	if match == nil {
		return nil, nil
	}
	keys := map[string]bool{}
	all := []*model.TagExpr{} // none: no series
	for _, shard := range v.shards {
		err := shard.EachTagKey(ctx, nil, func(key string) error {
			if !keys[key] && match(key) {
				keys[key] = true
				if all = append(all, &model.TagExpr{Op: model.TagNotEqual, Key: key}); len(all) == manyKeys {
					return errManyKeys
				}
			}
			return nil
		})
		if errors.Is(err, errManyKeys) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return expr.JoinTags(all, false), nil
}

// errManyKeys ends a walk over keys.
var errManyKeys = errors.New("many keys")

// hasKey reports whether the measurement has a tag key that match is true of; nil is of each.
func (m *indexMeasurement) hasKey(match func(key string) bool) (bool, error) {
	for _, shard := range m.shards {
		keys, err := shard.TagKeys(m.name)
		if err != nil || match == nil && len(keys) > 0 || match != nil && slices.ContainsFunc(keys, match) {
			return err == nil, err
		}
	}
	return false, nil
}

// part is series of a measurement in a shard.
type part struct {
	shard scan.Shard
	name  string
	set   *roaring.Bitmap
	whole bool // set is all series that the measurement has in the shard
}

// index returns the series for a question to the index; nil is all of the measurement.
func (p part) index() *roaring.Bitmap {
	if p.whole {
		return nil
	}
	return p.set
}

// parts returns the series of a measurement that satisfy a predicate, by shard, the
// largest part first. A series has the same tags in every shard, so each is in one part
// only, and in none if it is in seen, to which it is added. As a rule most shards hold
// no series that a larger one has not.
func (s *Statement) parts(m indexMeasurement, seen *roaring.Bitmap, where func(scan.Shard) *model.TagExpr) ([]part, error) {
	var all []part
	for _, shard := range m.shards {
		if err := s.Ctx.Err(); err != nil {
			return nil, err
		}
		is := where(shard)
		set, err := shard.Select(s.Ctx, m.name, is)
		if err != nil {
			return nil, err
		}
		all = append(all, part{shard, m.name, set, is == nil})
	}
	slices.SortStableFunc(all, func(a, b part) int { return cmp.Compare(b.set.GetCardinality(), a.set.GetCardinality()) })
	kept := all[:0]
	for _, p := range all {
		if p.set.Intersects(seen) {
			p.set.AndNot(seen)
			p.whole = false
		}
		if !p.set.IsEmpty() {
			seen.Or(p.set)
			kept = append(kept, p)
		}
	}
	return kept, nil
}

// keys returns the tag keys of the part's series, those that want is true of.
func (p part) keys(want func(key string) bool) (keys []string, err error) {
	all, err := p.shard.TagKeys(p.name)
	if err != nil {
		return nil, err
	}
	for _, key := range all {
		if !want(key) {
			continue
		}
		if !p.whole { // else every key of the index is on some series
			if values, err := p.values(key, 1); err != nil {
				return nil, err
			} else if len(values) == 0 {
				continue
			}
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// values returns the values that the part's series have of a tag key, the first limit of
// them if that spares the index the rest.
func (p part) values(key string, limit int) ([]string, error) {
	if limit < math.MaxInt {
		return p.shard.FirstTagValues(p.name, key, p.index(), limit)
	}
	return p.shard.TagValues(p.name, key, p.index())
}

// exactNames returns the distinct names of measurements if none is a regular
// expression, else nil.
func exactNames(sources []*influxql.Measurement) []string {
	var names []string
	for _, m := range sources {
		if m.Regex != nil {
			return nil
		}
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// policyNames returns the names of all policies of a database.
func policyNames(db *meta.Database) []string {
	names := make([]string, len(db.RetentionPolicies))
	for i, rp := range db.RetentionPolicies {
		names[i] = rp.Name
	}
	return names
}

// sourceGroup is the sources of one statement that are read from the same policies.
type sourceGroup struct {
	database string
	policies []string
	sources  []*influxql.Measurement // nil: all measurements
	among    candidates              // of those; nil: it is not known
}

func (g *sourceGroup) matches(name string) bool {
	return g.sources == nil || slices.ContainsFunc(g.sources, func(m *influxql.Measurement) bool { return expr.MatchesSource(m, name) })
}

// sourceGroups groups normalized sources. No sources are all measurements of
// the request's or the default policy of db.
func (s *Statement) sourceGroups(db string, sources influxql.Sources) ([]sourceGroup, error) {
	if len(sources) == 0 {
		database, err := s.Database(db)
		if err != nil {
			return nil, err
		}
		policy := s.RetentionPolicy
		if policy == "" {
			policy = database.DefaultRetentionPolicy
		}
		return []sourceGroup{{database: db, policies: []string{policy}}}, nil
	}
	var groups []sourceGroup
	for _, source := range sources {
		m, ok := source.(*influxql.Measurement)
		if !ok {
			return nil, errors.New("invalid measurement")
		}
		i := slices.IndexFunc(groups, func(g sourceGroup) bool {
			return g.database == m.Database && g.policies[0] == m.RetentionPolicy
		})
		if i < 0 {
			i = len(groups)
			groups = append(groups, sourceGroup{database: m.Database, policies: []string{m.RetentionPolicy}})
		}
		groups[i].sources = append(groups[i].sources, m)
	}
	return groups, nil
}

// eachSourceMeasurement is eachMeasurement for the normalized sources of a statement.
func (s *Statement) eachSourceMeasurement(db string, sources influxql.Sources, among candidates, r model.TimeRange, f func(*indexView, indexMeasurement) error, done func() error) error {
	groups, err := s.sourceGroups(db, sources)
	if err != nil {
		return err
	}
	for i := range groups {
		groups[i].among = among
	}
	return s.eachMeasurement(groups, r, f, done)
}

// eachMeasurement calls f for the measurements of the groups in the shards that overlap r,
// with the view they belong to. The views stay open until done, which is called after
// the last f, has returned; done may be nil.
func (s *Statement) eachMeasurement(groups []sourceGroup, r model.TimeRange, f func(*indexView, indexMeasurement) error, done func() error) error {
	for i := range groups {
		g := &groups[i]
		v, err := s.view(g.database, g.policies, r)
		defer v.release()
		if err != nil {
			return err
		}
		names := exactNames(g.sources)
		if names == nil && g.among != nil {
			found, known, err := g.among(v)
			if err != nil {
				return err
			}
			if known {
				names = append([]string{}, found...) // not nil
			}
		}
		list, err := v.measurements(s.Ctx, names, g.matches)
		if err != nil {
			return err
		}
		for _, m := range list {
			if err := s.Ctx.Err(); err != nil {
				return err
			}
			if err := f(v, m); err != nil {
				return err
			}
		}
	}
	if done != nil {
		return done()
	}
	return nil
}

// splitTime separates the time bounds of a WHERE clause.
func (s *Statement) splitTime(where influxql.Expr) (expr.Condition, error) {
	return expr.SplitTime(where, s.Now(), time.UTC)
}

// predicate turns a WHERE clause into a predicate. leaf returns that of what is neither AND
// nor OR.
func predicate(where influxql.Expr, leaf func(influxql.Expr) (*model.TagExpr, error)) (*model.TagExpr, error) {
	switch e := where.(type) {
	case nil:
		return nil, nil
	case *influxql.ParenExpr:
		return predicate(e.Expr, leaf)
	case *influxql.BinaryExpr:
		if e.Op != influxql.AND && e.Op != influxql.OR {
			break
		}
		left, err := predicate(e.LHS, leaf)
		if err != nil {
			return nil, err
		}
		right, err := predicate(e.RHS, leaf)
		if err != nil {
			return nil, err
		}
		if e.Op == influxql.OR {
			return expr.OrTags(left, right), nil
		}
		return expr.AndTags(left, right), nil
	}
	return leaf(where)
}

// metaPredicate turns the WHERE clause of a statement about tags into a
// predicate over the series of a measurement. All names are tags, except _name,
// which is the measurement's name, and the other names of the system, which
// are passed over. named decides comparisons of the measurement's name.
func metaPredicate(where influxql.Expr, named func(*model.TagExpr) bool) (*model.TagExpr, error) {
	return predicate(where, func(where influxql.Expr) (*model.TagExpr, error) {
		switch e := where.(type) {
		case *influxql.BooleanLiteral:
			return constantTag(e.Val), nil
		case *influxql.BinaryExpr:
			if members, negated, ok := expr.SetMembers(e); ok {
				return metaSet(e, members, negated, named)
			}
			if c, ok := metaComparison(e); ok {
				switch {
				case c.Key == "_name":
					return constantTag(named(c)), nil
				case influxql.IsSystemName(c.Key):
					return nil, nil
				}
				return c, nil
			}
		}
		//lint:ignore ST1005 clients know this text
		return nil, fmt.Errorf("Expression too complex for metaquery: %s", where)
	})
}

// metaSet is metaPredicate of x IN (members).
func metaSet(e *influxql.BinaryExpr, members []influxql.Expr, negated bool, named func(*model.TagExpr) bool) (*model.TagExpr, error) {
	holds := negated // for the name
	for _, m := range members {
		c, ok := metaComparison(expr.MemberComparison(e, m, negated))
		if !ok {
			//lint:ignore ST1005 clients know this text
			return nil, fmt.Errorf("Expression too complex for metaquery: %s", e)
		}
		if c.Key == "_name" && named(c) != negated {
			holds = !negated
		}
	}
	key := e.LHS.(*influxql.VarRef).Val
	switch {
	case key == "_name":
		return constantTag(holds), nil
	case influxql.IsSystemName(key):
		return nil, nil
	}
	return expr.TagSet(key, members, negated), nil
}

// constantTag returns the predicate that is true, or false, for every series.
func constantTag(value bool) *model.TagExpr {
	if value {
		return nil
	}
	return &model.TagExpr{Op: model.TagNone}
}

// metaComparison reads a comparison of a tag key with a text or regular expression.
// The key may be on either side.
func metaComparison(e *influxql.BinaryExpr) (c *model.TagExpr, ok bool) {
	ref, other, ok := expr.Compared(e)
	if ok {
		c = expr.TagLeaf(ref.Val, e.Op, other)
	}
	return c, c != nil
}

// ofName returns what decides comparisons of a measurement's name.
func ofName(name string) func(*model.TagExpr) bool {
	return func(c *model.TagExpr) bool { return admits(c, name) }
}

// ofAnyName is ofName of a name that is not known yet: any comparison may hold.
func ofAnyName(*model.TagExpr) bool { return true }

// admits reports whether a text satisfies a comparison.
func admits(c *model.TagExpr, text string) bool {
	return c.Match(model.Tags{{Key: c.Key, Value: text}})
}

// keyMatcher turns a WITH KEY clause into a test; nil if there is no clause.
func keyMatcher(op influxql.Token, operand influxql.Node) (func(key string) bool, error) {
	switch v := operand.(type) {
	case nil:
		return nil, nil
	case *influxql.ListLiteral:
		if op == influxql.IN {
			return func(key string) bool { return slices.Contains(v.Vals, key) }, nil
		}
	case influxql.Expr:
		if c, ok := metaComparison(&influxql.BinaryExpr{Op: op, LHS: &influxql.VarRef{Val: "key"}, RHS: v}); ok {
			return func(key string) bool { return admits(c, key) }, nil
		}
	}
	return nil, fmt.Errorf("unsupported tag key operator: %s", op)
}
