package expr

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
)

// InfluxQL has no tree for x IN (a, b): it is a BinaryExpr whose right side is
// a Call without a name, which prints as the list. It has no word for NOT IN
// either: that is an operator that prints as nothing, and a Call with a name.
const (
	InOp       = influxql.IN
	NotInOp    = influxql.ADD - 1
	notInWords = "NOT IN "
)

// SetMembers returns the list of x IN (list) or x NOT IN (list), and false for
// any other expression.
func SetMembers(e *influxql.BinaryExpr) (members []influxql.Expr, negated, ok bool) {
	if e.Op != InOp && e.Op != NotInOp {
		return nil, false, false
	}
	list, ok := e.RHS.(*influxql.Call)
	if !ok {
		return nil, false, false
	}
	return list.Args, e.Op == NotInOp, true
}

// MakeSets turns x = name(list) and x != name(list) into sets. name occurs
// nowhere else in the text that e was parsed from.
func MakeSets(node influxql.Node, name string) error {
	var err error
	visit := func(n influxql.Node) {
		e, ok := n.(*influxql.BinaryExpr)
		if !ok {
			return
		}
		list, ok := e.RHS.(*influxql.Call)
		if !ok || list.Name != name {
			return
		}
		for _, m := range list.Args {
			switch m.(type) {
			case *influxql.StringLiteral, *influxql.RegexLiteral, *influxql.IntegerLiteral, *influxql.UnsignedLiteral, *influxql.NumberLiteral, *influxql.BooleanLiteral:
			default:
				err = fmt.Errorf("IN takes strings, numbers, booleans and regular expressions, not %s", m)
			}
		}
		if list.Name = ""; e.Op == influxql.EQ {
			e.Op = InOp
		} else {
			e.Op, list.Name = NotInOp, notInWords
		}
	}
	influxql.WalkFunc(node, visit)
	if s, ok := node.(*influxql.ShowMeasurementsStatement); ok && s.Condition != nil {
		influxql.WalkFunc(s.Condition, visit)
	}
	return err
}

// MemberComparison returns the comparison of the left side of a set with one
// of its members.
func MemberComparison(e *influxql.BinaryExpr, member influxql.Expr, negated bool) *influxql.BinaryExpr {
	op := influxql.EQ
	_, isRegex := member.(*influxql.RegexLiteral)
	switch {
	case isRegex && negated:
		op = influxql.NEQREGEX
	case isRegex:
		op = influxql.EQREGEX
	case negated:
		op = influxql.NEQ
	}
	return &influxql.BinaryExpr{Op: op, LHS: e.LHS, RHS: member}
}

// TagSet returns the predicate of a tag in a list. A tag is compared with
// strings and regular expressions only: it equals nothing else, nor does it
// differ from it.
func TagSet(key string, members []influxql.Expr, negated bool) *model.TagExpr {
	set, match := model.TagIn, model.TagMatch
	if negated {
		set, match = model.TagNotIn, model.TagNotMatch
	}
	var values []string
	var all []*model.TagExpr
	for _, m := range members {
		switch m := m.(type) {
		case *influxql.StringLiteral:
			values = append(values, m.Val)
		case *influxql.RegexLiteral:
			all = append(all, &model.TagExpr{Op: match, Key: key, Regex: m.Val})
		default:
			if negated {
				return &model.TagExpr{Op: model.TagNone}
			}
		}
	}
	if len(values) > 0 {
		slices.Sort(values)
		all = append(all, &model.TagExpr{Op: set, Key: key, Values: slices.Compact(values)})
	}
	return JoinTags(all, negated)
}

// JoinTags returns the predicate that one of all holds, or with negated that all of them
// hold. It changes all. Of none it holds for no series.
func JoinTags(all []*model.TagExpr, negated bool) *model.TagExpr {
	join := OrTags
	if negated {
		join = AndTags
	}
	// A balanced tree: what walks it recurses.
	for len(all) > 1 {
		half := all[:0]
		for pair := range slices.Chunk(all, 2) {
			if e := pair[0]; len(pair) == 1 {
				half = append(half, e)
			} else {
				half = append(half, join(e, pair[1]))
			}
		}
		all = half
	}
	if len(all) == 0 {
		return &model.TagExpr{Op: model.TagNone}
	}
	return all[0]
}

// ValueSet is the members of a list, for columns of every type.
type ValueSet struct {
	strings map[string]struct{}
	regexes []*regexp.Regexp
	words   map[uint64]struct{}  // integers and unsigned integers, which compare by their bits
	numbers map[float64]struct{} // with a point
	floats  map[float64]struct{} // of all numbers
	bools   []influxql.Expr      // true and false, at most once each
}

func newValueSet(members []influxql.Expr) *ValueSet {
	s := &ValueSet{strings: map[string]struct{}{}, words: map[uint64]struct{}{}, numbers: map[float64]struct{}{}, floats: map[float64]struct{}{}}
	for _, m := range members {
		switch m := m.(type) {
		case *influxql.StringLiteral:
			s.strings[m.Val] = struct{}{}
		case *influxql.RegexLiteral:
			s.regexes = append(s.regexes, m.Val)
		case *influxql.IntegerLiteral:
			s.words[uint64(m.Val)] = struct{}{}
			s.floats[float64(m.Val)] = struct{}{}
		case *influxql.UnsignedLiteral:
			s.words[m.Val] = struct{}{}
			s.floats[float64(m.Val)] = struct{}{}
		case *influxql.NumberLiteral:
			s.numbers[m.Val] = struct{}{}
			s.floats[m.Val] = struct{}{}
		case *influxql.BooleanLiteral:
			if seen := slices.ContainsFunc(s.bools, func(b influxql.Expr) bool { return b.(*influxql.BooleanLiteral).Val == m.Val }); !seen {
				s.bools = append(s.bools, m)
			}
		}
	}
	return s
}

// text reports whether a string is in the set.
func (s *ValueSet) text(x string) bool {
	if _, ok := s.strings[x]; ok {
		return true
	}
	return slices.ContainsFunc(s.regexes, func(re *regexp.Regexp) bool { return re.MatchString(x) })
}

// word reports whether an integer, of these bits and this value, is in the set.
func (s *ValueSet) word(bits uint64, x float64) bool {
	_, ok := s.words[bits]
	if !ok && len(s.numbers) > 0 {
		_, ok = s.numbers[x]
	}
	return ok
}

// in evaluates x IN (list): whether x equals some member, or for NOT IN whether
// it differs from all. As elsewhere, what cannot be compared neither equals nor
// differs.
func (ev *Evaluator) in(e *influxql.BinaryExpr, members []influxql.Expr, negated bool) Operand {
	s := ev.Sets[e]
	if s == nil {
		s = newValueSet(members)
		if ev.Sets == nil {
			ev.Sets = map[*influxql.BinaryExpr]*ValueSet{}
		}
		ev.Sets[e] = s
	}
	x := ev.Eval(e.LHS)
	texts, numbers := len(s.strings)+len(s.regexes), len(s.floats)
	var others int // members that x cannot be compared with
	var has func(i int) bool
	switch t := x.Vector.Type; t {
	case model.String:
		others = numbers + len(s.bools)
		has = func(i int) bool { return s.text(x.Vector.Strings[i]) }
	case model.Integer:
		others = texts + len(s.bools)
		has = func(i int) bool { return s.word(uint64(x.Vector.Ints[i]), float64(x.Vector.Ints[i])) }
	case model.Unsigned:
		others = texts + len(s.bools)
		has = func(i int) bool { return s.word(x.Vector.Uints[i], float64(x.Vector.Uints[i])) }
	case model.Float:
		others = texts + len(s.bools)
		has = func(i int) bool { _, ok := s.floats[x.Vector.Floats[i]]; return ok }
	default: // booleans, or nothing
		others = texts + numbers
	}
	switch {
	case negated && others > 0:
		return never()
	case has == nil:
		out := never()
		join := influxql.OR
		for i, b := range s.bools {
			c := MemberComparison(e, b, negated)
			if negated {
				join = influxql.AND
			}
			o := ev.binary(c.Op, x, ev.Eval(b))
			if i > 0 {
				o = ev.binary(join, out, o)
			}
			out = o
		}
		return out
	}
	n := ev.Rows
	if x.Constant {
		n = 1
	}
	bools := make([]bool, n)
	for i := range bools {
		bools[i] = !x.IsNull(i) && has(i) != negated
	}
	return Operand{Constant: x.Constant, Vector: column.Vector{Type: model.Boolean, Bools: bools}}
}
