package hint

import (
	"fmt"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/query/expr"
)

// condition says why a condition without times is true of no row, or "".
func (k *known) condition(e influxql.Expr) (string, error) {
	switch e := e.(type) {
	case *influxql.ParenExpr:
		return k.condition(e.Expr)
	case *influxql.BinaryExpr:
		switch e.Op {
		case influxql.AND:
			if text, err := k.condition(e.LHS); err != nil || text != "" {
				return text, err
			}
			return k.condition(e.RHS)
		case influxql.OR: // both sides are true of no row
			text, err := k.condition(e.LHS)
			if err != nil || text == "" {
				return "", err
			}
			if other, err := k.condition(e.RHS); err != nil || other == "" {
				return "", err
			}
			return text, nil
		}
		if members, negated, ok := expr.SetMembers(e); ok {
			ref, ok := e.LHS.(*influxql.VarRef)
			if !ok || negated || len(members) == 0 || len(members) > 1 && k.exists(ref.Val) {
				return "", nil
			}
			one := expr.MemberComparison(&influxql.BinaryExpr{LHS: ref}, members[0], false)
			return k.compared(ref, one.Op, one.RHS)
		}
		left, isLeft := e.LHS.(*influxql.VarRef)
		right, isRight := e.RHS.(*influxql.VarRef)
		switch {
		case isLeft && isRight:
			return k.columns(left, e.Op, right), nil
		case isLeft:
			return k.compared(left, e.Op, e.RHS)
		case isRight && (e.Op == influxql.EQ || e.Op == influxql.NEQ):
			return k.compared(right, e.Op, e.LHS)
		}
	}
	return "", nil
}

// exists reports whether a name is a column.
func (k *known) exists(name string) bool { return k.isTag(name) || len(k.typesOf(name)) > 0 }

// columns says that one of two compared names is no column, but a text perhaps.
func (k *known) columns(left *influxql.VarRef, op influxql.Token, right *influxql.VarRef) string {
	if op != influxql.EQ || influxql.IsSystemName(left.Val) || influxql.IsSystemName(right.Val) {
		return ""
	}
	if !k.exists(left.Val) {
		if k.exists(right.Val) {
			left, right = right, left
		} else {
			return k.noColumn(left.Val)
		}
	} else if k.exists(right.Val) {
		return ""
	}
	return fmt.Sprintf("%s without single quotes is the name of a column, which %s does not have: a text is %s = %s",
		quoted(right.Val), k.where, quoted(left.Val), text(right.Val))
}

// compared says why the comparison of a column with a value is never true.
func (k *known) compared(ref *influxql.VarRef, op influxql.Token, value influxql.Expr) (string, error) {
	if influxql.IsSystemName(ref.Val) || ref.Val == "time" || trueOfNone(op, value) {
		return "", nil
	}
	types, tag := k.typesOf(ref.Val), k.isTag(ref.Val)
	switch {
	case len(types) == 0 && !tag:
		return k.noColumn(ref.Val), nil
	case ref.Type == influxql.Tag && !tag:
		return fmt.Sprintf("%s is a field of %s, not a tag", quoted(ref.Val), k.where), nil
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
func (k *known) field(name string, types []model.FieldType, tag bool, op influxql.Token, value influxql.Expr) (string, error) {
	accepted := []model.FieldType{model.Float, model.Integer, model.Unsigned}
	switch v := value.(type) {
	case *influxql.StringLiteral:
		if tag {
			found, err := k.any(&model.TagExpr{Op: model.TagEqual, Key: name, Value: v.Val})
			if err != nil || found {
				return fmt.Sprintf("%s is a field and a tag of %s: the condition means the field, %s::tag is the tag", quoted(name), k.where, quoted(name)), err
			}
		}
		if op != influxql.EQ {
			return "", nil
		}
		accepted = []model.FieldType{model.String}
	case *influxql.RegexLiteral:
		accepted = []model.FieldType{model.String}
	case *influxql.BooleanLiteral:
		accepted = []model.FieldType{model.Boolean}
	}
	if slices.ContainsFunc(types, func(t model.FieldType) bool { return slices.Contains(accepted, t) }) {
		return "", nil
	}
	return fmt.Sprintf("field %s of %s holds values of type %s, and is compared with %s", quoted(name), k.where, types[0], clip(value.String())), nil
}

// tag says that no series has a value of a tag.
func (k *known) tag(name string, op influxql.Token, value influxql.Expr) (string, error) {
	switch v := value.(type) {
	case *influxql.StringLiteral:
		found, err := k.any(&model.TagExpr{Op: model.TagEqual, Key: name, Value: v.Val})
		if op != influxql.EQ || err != nil || found {
			return "", err
		}
		said := fmt.Sprintf("tag %s of %s has no value %s", quoted(name), k.where, text(v.Val))
		all, err := k.valuesOf(name)
		if near := k.nearest(v.Val, all); near != "" {
			said += "; did you mean " + text(near) + "?"
		}
		return said, err
	case *influxql.RegexLiteral:
		all, err := k.valuesOf(name)
		if op != influxql.EQREGEX || err != nil || len(all) >= maxNames || slices.ContainsFunc(all, v.Val.MatchString) {
			return "", err
		}
		return fmt.Sprintf("no value of tag %s of %s matches %s", quoted(name), k.where, clip(v.String())), nil
	}
	return fmt.Sprintf("tag %s of %s is compared with %s: the values of tags are texts, such as %s", quoted(name), k.where, value, text(value.String())), nil
}

// any reports whether a series satisfies a predicate.
func (k *known) any(is *model.TagExpr) (bool, error) {
	for _, s := range k.shards {
		if err := k.look(); err != nil {
			return false, err
		}
		set, err := s.Select(k.ctx, k.name, is)
		if err != nil || !set.IsEmpty() {
			return err == nil, err
		}
	}
	return false, nil
}

// valuesOf lists the first maxNames values of a tag. With an error, the list is what was
// found before.
func (k *known) valuesOf(name string) (list []string, err error) {
	if list, ok := k.values[name]; ok {
		return list, nil
	}
	for _, s := range k.shards {
		if err := k.look(); err != nil {
			return list, err
		}
		more, err := s.FirstTagValues(k.name, name, nil, maxNames)
		if err != nil {
			return list, err
		}
		if list = union(list, more); len(list) >= maxNames {
			break
		}
	}
	k.values[name] = list
	return list, nil
}
