package expr

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/window"
)

// Condition is a WHERE clause without its time comparisons.
type Condition struct {
	// Range holds the times that the clause admits: the intersection of all its time
	// comparisons, also of those under OR, because InfluxQL has no union of time
	// ranges. It may be empty.
	Range model.TimeRange
	// HasMin and HasMax tell whether the clause names a bound on that side.
	HasMin, HasMax bool
	// Expr is what remains, reduced, or nil when nothing does.
	Expr influxql.Expr
}

// SplitTime takes the time comparisons out of a WHERE clause (nil: no
// clause). now() is now, and now('-2mo') two months of the calendar in loc before it;
// literal times without a zone are read in loc (nil: UTC). The errors are InfluxDB's texts. The clause is not changed.
func SplitTime(where influxql.Expr, now time.Time, loc *time.Location) (Condition, error) {
	c := Condition{Range: model.AllTime}
	if where == nil {
		return c, nil
	}
	expr, tr, joined, err := splitTime(where, &nowValuer{influxql.NowValuer{Now: now, Location: loc}})
	if err != nil {
		return c, err
	}
	if joined {
		expr = influxql.Reduce(expr, nil)
	}
	if e, ok := expr.(*influxql.ParenExpr); ok {
		expr = e.Expr
	}
	if e, ok := expr.(*influxql.BooleanLiteral); !ok || !e.Val {
		c.Expr = expr
	}
	if !tr.Min.IsZero() {
		c.HasMin = true
		switch {
		case tr.Min.After(time.Unix(0, model.MaxTime)):
			c.Range = model.TimeRange{Min: model.MaxTime, Max: model.MinTime}
			c.HasMax = true
			return c, nil
		case tr.Min.After(time.Unix(0, model.MinTime)):
			c.Range.Min = tr.Min.UnixNano()
		}
	}
	if !tr.Max.IsZero() {
		c.HasMax = true
		switch {
		case tr.Max.Before(time.Unix(0, model.MinTime)):
			c.Range = model.TimeRange{Min: model.MaxTime, Max: model.MinTime}
			c.HasMin = true
		case tr.Max.Before(time.Unix(0, model.MaxTime)):
			c.Range.Max = tr.Max.UnixNano()
		}
	}
	return c, nil
}

// nowValuer also knows now() with months, the form that package syntax gives to now() - 2mo.
type nowValuer struct{ influxql.NowValuer }

func (v *nowValuer) Call(name string, args []any) (any, bool) {
	if name != "now" || len(args) != 1 {
		return v.NowValuer.Call(name, args)
	}
	text, _ := args[0].(string)
	months := window.CalendarMonths(strings.TrimLeft(text, "+-"))
	if strings.HasPrefix(text, "-") {
		months = -months
	}
	if months == 0 {
		return nil, false
	}
	loc := v.Location
	if loc == nil {
		loc = time.UTC
	}
	return window.AddMonths(v.Now.In(loc), months), true
}

// splitTime does the work of influxql.ConditionExpr, which at every AND and OR reduces
// again all that is below: a chain of a thousand took a second. splitTime reduces only
// leaves. joined reports that there is an expression above them, which the caller
// reduces once.
func splitTime(cond influxql.Expr, valuer influxql.Valuer) (expr influxql.Expr, tr influxql.TimeRange, joined bool, err error) {
	switch cond := cond.(type) {
	case *influxql.BinaryExpr:
		if cond.Op != influxql.AND && cond.Op != influxql.OR {
			if isTimeRef(cond.LHS) || isTimeRef(cond.RHS) {
				expr, tr, err = influxql.ConditionExpr(cond, valuer)
				return expr, tr, false, err
			}
			return influxql.Reduce(cond, valuer), tr, false, nil
		}
		l, lt, lj, err := splitTime(cond.LHS, valuer)
		if err != nil {
			return nil, tr, false, err
		}
		r, rt, rj, err := splitTime(cond.RHS, valuer)
		if err != nil {
			return nil, tr, false, err
		}
		// Under OR as well: InfluxQL has no union of time ranges.
		tr = lt.Intersect(rt)
		switch {
		case r == nil:
			return l, tr, lj, nil
		case l == nil:
			return r, tr, rj, nil
		}
		return &influxql.BinaryExpr{Op: cond.Op, LHS: l, RHS: r}, tr, true, nil
	case *influxql.ParenExpr:
		expr, tr, _, err = splitTime(cond.Expr, valuer)
		if err != nil || expr == nil {
			return nil, tr, false, err
		}
		return &influxql.ParenExpr{Expr: expr}, tr, true, nil
	case *influxql.BooleanLiteral:
		return cond, tr, false, nil
	}
	return nil, tr, false, fmt.Errorf("invalid condition expression: %s", cond)
}

func isTimeRef(e influxql.Expr) bool {
	ref, ok := e.(*influxql.VarRef)
	return ok && strings.ToLower(ref.Val) == "time"
}

// SplitTags divides a predicate without time comparisons into a predicate over
// tags and a rest that must be evaluated per row. Every row that satisfies
// expr belongs to a series that satisfies tags, and
//
//	expr  <=>  tags AND rest
//
// holds for every row; rest is nil when tags says it all. rest may name tags:
// under OR a comparison of a tag and one of a field cannot be separated, then
// tags is the part of the truth that the index can decide.
//
// isField reports whether a name means a field. All other names are tags, also names
// that nobody has written: every series lacks such a tag.
func SplitTags(expr influxql.Expr, isField func(*influxql.VarRef) bool) (tags *model.TagExpr, rest influxql.Expr) {
	switch e := expr.(type) {
	case nil:
		return nil, nil
	case *influxql.ParenExpr:
		return SplitTags(e.Expr, isField)
	case *influxql.BooleanLiteral:
		if e.Val {
			return nil, nil
		}
		return &model.TagExpr{Op: model.TagNone}, nil
	case *influxql.BinaryExpr:
		switch e.Op {
		case influxql.AND:
			lt, lr := SplitTags(e.LHS, isField)
			rt, rr := SplitTags(e.RHS, isField)
			return AndTags(lt, rt), And(lr, rr)
		case influxql.OR:
			lt, lr := SplitTags(e.LHS, isField)
			rt, rr := SplitTags(e.RHS, isField)
			if lr == nil && rr == nil {
				return OrTags(lt, rt), nil
			}
			return OrTags(lt, rt), e
		}
		if t := TagComparison(e, isField); t != nil {
			return t, nil
		}
		return nil, e
	}
	return nil, expr
}

// TagComparison returns the predicate of a comparison of a tag with a string, a regular
// expression or a list, or nil.
func TagComparison(e *influxql.BinaryExpr, isField func(*influxql.VarRef) bool) *model.TagExpr {
	ref, value, ok := Compared(e)
	members, negated, isSet := SetMembers(e)
	switch {
	case !ok:
		return nil
	case isSystemTag(ref.Val):
		// _name, _tagKey and the like are names of the index, true of every series.
		return &model.TagExpr{Op: model.TagAll}
	case isField(ref):
		return nil
	case isSet:
		return TagSet(ref.Val, members, negated)
	}
	if c := TagLeaf(ref.Val, e.Op, value); c != nil {
		return c
	}
	if v, ok := value.(*influxql.StringLiteral); ok && e.Op != influxql.EQREGEX && e.Op != influxql.NEQREGEX {
		// InfluxDB reads every other comparison of a tag as "differs".
		return &model.TagExpr{Op: model.TagNotEqual, Key: ref.Val, Value: v.Val}
	}
	return nil
}

// Compared returns the reference of a comparison, which may be on either side, and the
// other side.
func Compared(e *influxql.BinaryExpr) (ref *influxql.VarRef, other influxql.Expr, ok bool) {
	if ref, ok = e.LHS.(*influxql.VarRef); ok {
		return ref, e.RHS, true
	}
	ref, ok = e.RHS.(*influxql.VarRef)
	return ref, e.LHS, ok
}

// TagLeaf returns the predicate that a tag equals or matches a value, or does not. It
// returns nil if the operator does not compare with such a value.
func TagLeaf(key string, op influxql.Token, value influxql.Expr) *model.TagExpr {
	switch v := value.(type) {
	case *influxql.StringLiteral:
		switch op {
		case influxql.EQ:
			return &model.TagExpr{Op: model.TagEqual, Key: key, Value: v.Val}
		case influxql.NEQ:
			return &model.TagExpr{Op: model.TagNotEqual, Key: key, Value: v.Val}
		}
	case *influxql.RegexLiteral:
		switch op {
		case influxql.EQREGEX:
			return &model.TagExpr{Op: model.TagMatch, Key: key, Regex: v.Val}
		case influxql.NEQREGEX:
			return &model.TagExpr{Op: model.TagNotMatch, Key: key, Regex: v.Val}
		}
	}
	return nil
}

func isSystemTag(name string) bool { return name == "_name" || name == "_tagKey" }

// AndTags returns the predicate that both hold. Nil holds for every series.
func AndTags(a, b *model.TagExpr) *model.TagExpr {
	switch {
	case a == nil || a.Op == model.TagAll:
		return b
	case b == nil || b.Op == model.TagAll:
		return a
	}
	return &model.TagExpr{Op: model.TagAnd, Left: a, Right: b}
}

// OrTags returns the predicate that one of them holds. Nil holds for every series.
func OrTags(a, b *model.TagExpr) *model.TagExpr {
	switch {
	case a == nil || b == nil || a.Op == model.TagAll || b.Op == model.TagAll:
		return nil
	case a.Op == model.TagNone:
		return b
	case b.Op == model.TagNone:
		return a
	}
	return &model.TagExpr{Op: model.TagOr, Left: a, Right: b}
}

// JoinExpr is a op b, or the one of them that is there.
func JoinExpr(op influxql.Token, a, b influxql.Expr) influxql.Expr {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &influxql.BinaryExpr{Op: op, LHS: a, RHS: b}
}

// IsFieldRef tells fields from tags after types were assigned: what no shard
// knows is a tag that every series lacks.
func IsFieldRef(ref *influxql.VarRef) bool {
	return ref.Type != influxql.Tag && ref.Type != influxql.Unknown
}

// FieldTest tells which names of an expression are fields of a measurement.
func FieldTest(fields []column.Field) func(*influxql.VarRef) bool {
	return func(ref *influxql.VarRef) bool {
		switch ref.Type {
		case influxql.Tag:
			return false
		case influxql.Unknown:
			_, found := slices.BinarySearchFunc(fields, ref.Val, func(f column.Field, key string) int { return strings.Compare(f.Key, key) })
			return found
		}
		return true
	}
}

// MatchesSource reports whether a source means the measurement.
func MatchesSource(m *influxql.Measurement, name string) bool {
	if m.Regex != nil {
		return m.Regex.Val.MatchString(name)
	}
	return m.Name == name
}

// Place returns the place of v in list, where it is added if it is missing. places
// holds the place of each element of list: a statement has as many as there are fields.
func Place[T comparable](list []T, places map[T]int, v T) ([]T, int) {
	if i, ok := places[v]; ok {
		return list, i
	}
	places[v] = len(list)
	return append(list, v), len(list)
}
