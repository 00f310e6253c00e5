package remote

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/query/expr"
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
			pattern := "^(?:" + m.Value + ")$"
			if err := regexes.Add(pattern); err != nil {
				return sel, err
			}
			re, err := regexp.Compile(pattern)
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
		if chosen := sel.Measurement != "" || sel.Pattern != nil; m.Name == prom.NameLabel && !chosen {
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
	start, end := time.Unix(0, prom.Nanoseconds(q.Start)), time.Unix(0, prom.Nanoseconds(q.End))
	where := expr.And(expr.TimeBound(influxql.GTE, start), expr.TimeBound(influxql.LTE, end))
	return &influxql.SelectStatement{
		Fields:     influxql.Fields{{Expr: &influxql.VarRef{Val: prom.ValueField, Type: influxql.Float}}},
		Sources:    influxql.Sources{source},
		Condition:  expr.And(condition(sel.Tags), where),
		Dimensions: influxql.Dimensions{{Expr: &influxql.Wildcard{}}},
		IsRawQuery: true,
	}, nil
}

// condition returns the tags of a Selection as InfluxQL.
func condition(e *model.TagExpr) influxql.Expr {
	switch {
	case e == nil:
		return nil
	case e.Op == model.TagAnd:
		return expr.And(condition(e.Left), condition(e.Right))
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
