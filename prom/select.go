package prom

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/query/syntax"
)

// MatchKind is how a Matcher compares. The numbers are those of the protocol.
type MatchKind uint64

// The kinds of a Matcher. Regular expressions match the whole value.
const (
	Equal MatchKind = iota
	NotEqual
	Match
	NotMatch
)

// Matcher compares a label with a value. A label that a series lacks has the
// value "".
type Matcher struct {
	Kind        MatchKind
	Name, Value string
}

// Selection is what matchers choose.
type Selection struct {
	Measurement string         // "": those whose name Pattern matches
	Pattern     *regexp.Regexp // nil with a Measurement
	Tags        *model.TagExpr // of the series; nil: all
}

// maxMatchers bounds the matchers of a query: its condition is as deep.
const maxMatchers = 5000

var anyName = regexp.MustCompile(`.*`)

// Select returns what matchers choose. The first = or =~ of the name chooses the
// measurements. Others of the name apply to the label as a tag, which series that
// line protocol wrote do not have.
func Select(matchers []Matcher) (Selection, error) {
	var sel Selection
	if len(matchers) > maxMatchers {
		return sel, errors.New("too many matchers")
	}
	var regexes syntax.RegexBudget
	for _, m := range matchers {
		tag := &model.TagExpr{Key: m.Name, Value: m.Value}
		switch m.Kind {
		case Equal:
			tag.Op = model.TagEqual
		case NotEqual:
			tag.Op = model.TagNotEqual
		case Match, NotMatch:
			expr := "^(?:" + m.Value + ")$"
			if err := regexes.Add(expr); err != nil {
				return sel, err
			}
			re, err := regexp.Compile(expr)
			if err != nil {
				return sel, err
			}
			tag.Op, tag.Value, tag.Regex = model.TagMatch, "", re
			if m.Kind == NotMatch {
				tag.Op = model.TagNotMatch
			}
		default:
			return sel, fmt.Errorf("unknown match type: %d", m.Kind)
		}
		if chosen := sel.Measurement != "" || sel.Pattern != nil; m.Name == NameLabel && !chosen {
			switch tag.Op {
			case model.TagEqual:
				if m.Value == "" {
					return sel, errors.New("a metric has a name")
				}
				sel.Measurement = m.Value
				continue
			case model.TagMatch:
				sel.Pattern = tag.Regex
				continue
			}
		}
		if sel.Tags == nil {
			sel.Tags = tag
		} else {
			sel.Tags = &model.TagExpr{Op: model.TagAnd, Left: sel.Tags, Right: tag}
		}
	}
	if sel.Measurement == "" && sel.Pattern == nil {
		sel.Pattern = anyName
	}
	return sel, nil
}

// Statement returns the SELECT that finds what a query asks for.
func (q *Query) Statement(db, rp string) (*influxql.SelectStatement, error) {
	sel, err := Select(q.Matchers)
	if err != nil {
		return nil, err
	}
	source := &influxql.Measurement{Database: db, RetentionPolicy: rp, Name: sel.Measurement}
	if sel.Pattern != nil {
		source.Regex = &influxql.RegexLiteral{Val: sel.Pattern}
	}
	bound := func(op influxql.Token, ms int64) influxql.Expr {
		at := time.Unix(0, nanoseconds(ms)).UTC()
		return &influxql.BinaryExpr{Op: op, LHS: &influxql.VarRef{Val: "time"}, RHS: &influxql.TimeLiteral{Val: at}}
	}
	where := and(bound(influxql.GTE, q.Start), bound(influxql.LTE, q.End))
	if sel.Tags != nil {
		where = and(condition(sel.Tags), where)
	}
	return &influxql.SelectStatement{
		Fields:     influxql.Fields{{Expr: &influxql.VarRef{Val: ValueField, Type: influxql.Float}}},
		Sources:    influxql.Sources{source},
		Condition:  where,
		Dimensions: influxql.Dimensions{{Expr: &influxql.Wildcard{}}},
		IsRawQuery: true,
	}, nil
}

func and(l, r influxql.Expr) influxql.Expr {
	return &influxql.BinaryExpr{Op: influxql.AND, LHS: l, RHS: r}
}

// condition returns the tags of a Selection as InfluxQL.
func condition(e *model.TagExpr) influxql.Expr {
	if e.Op == model.TagAnd {
		return and(condition(e.Left), condition(e.Right))
	}
	var value influxql.Expr = &influxql.StringLiteral{Val: e.Value}
	if e.Regex != nil {
		value = &influxql.RegexLiteral{Val: e.Regex}
	}
	op := map[model.TagOp]influxql.Token{
		model.TagEqual: influxql.EQ, model.TagNotEqual: influxql.NEQ, model.TagMatch: influxql.EQREGEX, model.TagNotMatch: influxql.NEQREGEX,
	}[e.Op]
	return &influxql.BinaryExpr{Op: op, LHS: &influxql.VarRef{Val: e.Key, Type: influxql.Tag}, RHS: value}
}
