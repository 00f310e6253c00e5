package hint

import (
	"fmt"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/query/expr"
)

// condition says why a condition without times is true of no row, or "".
func (k *known) condition(e influxql.Expr) string {
	switch e := e.(type) {
	case *influxql.ParenExpr:
		return k.condition(e.Expr)
	case *influxql.BinaryExpr:
		switch e.Op {
		case influxql.AND:
			if text := k.condition(e.LHS); text != "" || k.ended {
				return text
			}
			return k.condition(e.RHS)
		case influxql.OR: // both sides are true of no row
			text := k.condition(e.LHS)
			if text == "" || k.ended || k.condition(e.RHS) == "" {
				return ""
			}
			return text
		}
		left, isLeft := e.LHS.(*influxql.VarRef)
		right, isRight := e.RHS.(*influxql.VarRef)
		if members, negated, ok := expr.SetMembers(e); ok {
			if !isLeft || negated || len(members) == 0 || len(members) > 1 && k.exists(left.Val) {
				return ""
			}
			e = expr.MemberComparison(e, members[0], false)
		}
		switch {
		case isLeft && isRight:
			return k.columns(left, e.Op, right)
		case isLeft:
			return k.compared(left, e.Op, e.RHS)
		case isRight && (e.Op == influxql.EQ || e.Op == influxql.NEQ):
			return k.compared(right, e.Op, e.LHS)
		}
	}
	return ""
}

// columns says that one of two compared names is no column, but a text perhaps.
func (k *known) columns(left *influxql.VarRef, op influxql.Token, right *influxql.VarRef) string {
	if op != influxql.EQ || influxql.IsSystemName(left.Val) || influxql.IsSystemName(right.Val) {
		return ""
	}
	switch isLeft, isRight := k.exists(left.Val), k.exists(right.Val); {
	case isLeft && isRight:
		return ""
	case isRight:
		left, right = right, left
	case !isLeft:
		return k.noColumn(left.Val)
	}
	return fmt.Sprintf("%s without single quotes is the name of a column, which %s does not have: a text is %s = %s",
		quoted(right.Val), quoted(k.name), quoted(left.Val), text(right.Val))
}

// compared says why the comparison of a column with a value is never true.
func (k *known) compared(ref *influxql.VarRef, op influxql.Token, value influxql.Expr) string {
	if influxql.IsSystemName(ref.Val) || ref.Val == "time" || trueOfNone(op, value) {
		return ""
	}
	types, tag := k.typesOf(ref.Val), k.isTag(ref.Val)
	switch {
	case len(types) == 0 && !tag:
		return k.noColumn(ref.Val)
	case ref.Type == influxql.Tag && !tag:
		return k.notTag(ref.Val)
	case k.isField(ref):
		return k.field(ref.Val, types, tag, op, value)
	}
	return k.tag(ref.Val, op, value)
}

// trueOfNone reports whether a comparison may be true of a series without the tag, so
// that no value is no reason.
func trueOfNone(op influxql.Token, value influxql.Expr) bool {
	switch v := value.(type) {
	case *influxql.StringLiteral:
		return (op == influxql.EQ) == (v.Val == "")
	case *influxql.RegexLiteral:
		return v.Val.MatchString("") == (op == influxql.EQREGEX)
	case *influxql.IntegerLiteral, *influxql.UnsignedLiteral, *influxql.NumberLiteral, *influxql.BooleanLiteral:
		return op == influxql.NEQ
	}
	return true
}

// field says that a field has another type than the value, or that a tag is meant.
func (k *known) field(name string, types []model.FieldType, tag bool, op influxql.Token, value influxql.Expr) string {
	accepted := []model.FieldType{model.Float, model.Integer, model.Unsigned}
	switch v := value.(type) {
	case *influxql.StringLiteral:
		if tag && k.has(name, v.Val) {
			return fmt.Sprintf("%s is a field and a tag of %s: the condition means the field, %s::tag is the tag", quoted(name), quoted(k.name), quoted(name))
		}
		if op != influxql.EQ || k.ended {
			return ""
		}
		accepted = []model.FieldType{model.String}
	case *influxql.RegexLiteral:
		accepted = []model.FieldType{model.String}
	case *influxql.BooleanLiteral:
		accepted = []model.FieldType{model.Boolean}
	}
	if slices.ContainsFunc(types, func(t model.FieldType) bool { return slices.Contains(accepted, t) }) {
		return ""
	}
	return fmt.Sprintf("field %s of %s holds values of type %s, and is compared with %s", quoted(name), quoted(k.name), types[0], clip(value.String()))
}

// tag says that no series has a value of a tag.
func (k *known) tag(name string, op influxql.Token, value influxql.Expr) string {
	switch v := value.(type) {
	case *influxql.StringLiteral:
		if op != influxql.EQ || k.has(name, v.Val) || k.ended {
			return ""
		}
		said := fmt.Sprintf("tag %s of %s has no value %s", quoted(name), quoted(k.name), text(v.Val))
		if near := k.nearest(v.Val, k.values(name)); near != "" {
			said += "; did you mean " + text(near) + "?"
		}
		return said
	case *influxql.RegexLiteral:
		if op != influxql.EQREGEX {
			return ""
		}
		if all := k.values(name); k.ended || len(all) >= maxNames || slices.ContainsFunc(all, v.Val.MatchString) {
			return ""
		}
		return fmt.Sprintf("no value of tag %s of %s matches %s", quoted(name), quoted(k.name), clip(v.String()))
	}
	return fmt.Sprintf("tag %s of %s is compared with %s: the values of tags are texts, such as %s", quoted(name), quoted(k.name), value, text(value.String()))
}

// has reports whether a series has a value of a tag. If the search ended, it is not known.
func (k *known) has(name, value string) bool {
	for _, s := range k.shards {
		if !k.look() {
			return false
		}
		set, err := s.Select(k.ctx, k.name, &model.TagExpr{Op: model.TagEqual, Key: name, Value: value})
		if k.failed(err) || !set.IsEmpty() {
			return !k.ended
		}
	}
	return false
}

// values lists the first maxNames values of a tag, or fewer if the search ended.
func (k *known) values(name string) (list []string) {
	for i := 0; i < len(k.shards) && len(list) < maxNames && k.look(); i++ {
		more, err := k.shards[i].FirstTagValues(k.name, name, nil, maxNames)
		if !k.failed(err) {
			list = union(list, more)
		}
	}
	return list
}
