package show

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/query/expr"
)

// comparesTags reports whether a condition compares two tags with each other.
func comparesTags(e influxql.Expr, isField func(*influxql.VarRef) bool) bool {
	found := false
	influxql.WalkFunc(e, func(n influxql.Node) {
		if b, ok := n.(*influxql.BinaryExpr); ok {
			_, _, two := twoTags(b, isField)
			found = found || two
		}
	})
	return found
}

// twoTags returns the tags that e compares with each other.
func twoTags(e *influxql.BinaryExpr, isField func(*influxql.VarRef) bool) (a, b string, ok bool) {
	l, lok := e.LHS.(*influxql.VarRef)
	r, rok := e.RHS.(*influxql.VarRef)
	if !lok || !rok || e.Op != influxql.EQ && e.Op != influxql.NEQ || isField(l) || isField(r) {
		return "", "", false
	}
	return l.Val, r.Val, true
}

// tagsHold reports whether the tags of a series satisfy a condition, whose
// comparisons of fields are passed over. A tag that is missing equals none.
func tagsHold(e influxql.Expr, tags model.Tags, isField func(*influxql.VarRef) bool) bool {
	switch e := e.(type) {
	case *influxql.ParenExpr:
		return tagsHold(e.Expr, tags, isField)
	case *influxql.BinaryExpr:
		switch e.Op {
		case influxql.AND:
			return tagsHold(e.LHS, tags, isField) && tagsHold(e.RHS, tags, isField)
		case influxql.OR:
			return tagsHold(e.LHS, tags, isField) || tagsHold(e.RHS, tags, isField)
		}
		if a, b, ok := twoTags(e, isField); ok {
			same := tags.Get(a) == tags.Get(b) && tags.Get(a) != ""
			return same == (e.Op == influxql.EQ)
		}
		if t := expr.TagComparison(e, isField); t != nil {
			return t.Match(tags)
		}
	}
	return true
}

// withTags returns the series of a set whose tags satisfy holds.
func (v *indexView) withTags(ctx context.Context, set *roaring.Bitmap, holds func(model.Tags) bool) (*roaring.Bitmap, error) {
	keys, err := v.appendSeriesKeys(ctx, nil, set)
	if err != nil {
		return nil, err
	}
	out := roaring.New()
	var tags model.Tags
	for i, it := 0, set.Iterator(); it.HasNext(); i++ {
		id := it.Next()
		if _, tags = model.ParseSeriesKey(keys[i], tags[:0]); holds(tags) {
			out.Add(id)
		}
	}
	return out, nil
}
