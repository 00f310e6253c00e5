package syntax

import (
	"errors"
	"fmt"
	"strings"

	"tsdbd/query/expr"

	"github.com/influxdata/influxql"
)

// apply puts the clauses that were cut out of a text, and its sets, into what it
// was parsed to.
func (r *rewriting) apply(stmts influxql.Statements, params map[string]any) error {
	for _, stmt := range stmts {
		if err := expr.MakeSets(stmt, r.list); err != nil {
			return err
		}
	}
	if len(r.cut) == 0 {
		return nil
	}
	var selects []*influxql.SelectStatement
	stored := false
	for _, stmt := range stmts {
		influxql.WalkFunc(stmt, func(n influxql.Node) {
			switch n := n.(type) {
			case *influxql.SelectStatement:
				selects = append(selects, n)
			case *influxql.CreateContinuousQueryStatement:
				stored = true
			}
		})
	}
	if stored {
		return errors.New("HAVING and fill(previous, duration) are not supported in continuous queries")
	}
	for _, c := range r.cut {
		if c.query >= len(selects) {
			return errors.New("HAVING and fill(previous, duration) belong to a SELECT")
		}
		if c.back == "" {
			continue
		}
		back, err := influxql.ParseDuration(c.back)
		if err != nil {
			return err
		}
		selects[c.query].FillValue = back
	}
	// The inner SELECT of HAVING is a copy: what belongs to it is in it by now.
	for i := len(r.cut) - 1; i >= 0; i-- {
		c := &r.cut[i]
		if c.having == "" {
			continue
		}
		cond, err := parseCondition(c.having, params)
		if err != nil {
			_, err = parseCondition(blank(r.source[:c.at])+c.having, params) // with its place in the text
			return fmt.Errorf("HAVING %s: %w", c.having, err)
		}
		if err := expr.MakeSets(cond, r.list); err != nil {
			return err
		}
		if err := having(selects[c.query], cond); err != nil {
			return err
		}
	}
	return nil
}

func parseCondition(text string, params map[string]any) (influxql.Expr, error) {
	p := influxql.NewParser(strings.NewReader(text))
	p.SetParams(params)
	return p.ParseExpr()
}

// having turns
//
//	SELECT mean(v) FROM m GROUP BY time(1h), h HAVING mean(v) > 1 LIMIT 3
//
// into
//
//	SELECT mean FROM (SELECT mean(v) FROM m GROUP BY time(1h), h) WHERE mean > 1 GROUP BY h LIMIT 3
//
// in place. A call of cond that is not selected is added to the inner SELECT.
func having(s *influxql.SelectStatement, cond influxql.Expr) error {
	inner := *s
	inner.Target, inner.SortFields = nil, nil
	inner.Limit, inner.Offset, inner.SLimit, inner.SOffset = 0, 0, 0, 0
	outer := influxql.SelectStatement{
		Target: s.Target, SortFields: s.SortFields, Location: s.Location, IsRawQuery: true,
		Limit: s.Limit, Offset: s.Offset, SLimit: s.SLimit, SOffset: s.SOffset,
		Sources: influxql.Sources{&influxql.SubQuery{Statement: &inner}},
	}
	h := havingColumns{inner: &inner, names: map[string]string{}}
	if s.HasFieldWildcard() {
		outer.Fields = influxql.Fields{{Expr: &influxql.Wildcard{}}}
		h.names = nil
	} else {
		h.name(&outer)
	}
	for _, d := range s.Dimensions {
		if call, ok := d.Expr.(*influxql.Call); !ok || call.Name != "time" {
			outer.Dimensions = append(outer.Dimensions, d)
		}
	}
	var err error
	if outer.Condition, err = h.rewrite(cond); err != nil {
		return err
	}
	*s = outer
	return nil
}

// havingColumns finds the columns of the inner SELECT that HAVING speaks of.
type havingColumns struct {
	inner *influxql.SelectStatement
	names map[string]string // of the columns, by expression; nil: not known yet
}

// name selects the columns of the inner SELECT in the outer one.
func (h *havingColumns) name(outer *influxql.SelectStatement) {
	var fields influxql.Fields
	for _, f := range h.inner.Fields {
		if ref, ok := f.Expr.(*influxql.VarRef); ok && ref.Val == "time" {
			outer.TimeAlias = f.Alias
			continue
		}
		fields = append(fields, f)
	}
	h.inner.Fields = fields
	columns := h.inner.ColumnNames()[1:]
	for _, f := range fields {
		h.names[f.Expr.String()] = columns[0]
		alone := influxql.SelectStatement{Fields: influxql.Fields{f}} // top and bottom have a column for each tag
		for range alone.ColumnNames()[1:] {
			outer.Fields = append(outer.Fields, &influxql.Field{Expr: &influxql.VarRef{Val: columns[0]}})
			columns = columns[1:]
		}
	}
}

// rewrite replaces the aggregates of a condition by columns. It adds an aggregate
// that is not selected to the inner SELECT.
func (h *havingColumns) rewrite(e influxql.Expr) (influxql.Expr, error) {
	var err error
	switch e := e.(type) {
	case *influxql.ParenExpr:
		e.Expr, err = h.rewrite(e.Expr)
	case *influxql.BinaryExpr:
		if _, _, ok := expr.SetMembers(e); ok {
			e.LHS, err = h.rewrite(e.LHS)
		} else if e.LHS, err = h.rewrite(e.LHS); err == nil {
			e.RHS, err = h.rewrite(e.RHS)
		}
	case *influxql.Call:
		if e.Name == "now" {
			return e, nil
		}
		if expr.IsMathFunction(e.Name) {
			for i := range e.Args {
				if e.Args[i], err = h.rewrite(e.Args[i]); err != nil {
					return nil, err
				}
			}
			return e, nil
		}
		if h.names == nil {
			return nil, fmt.Errorf("HAVING %s: select it by name", e)
		}
		name, ok := h.names[e.String()]
		if !ok {
			name = fmt.Sprintf("having_%d", len(h.inner.Fields))
			h.names[e.String()] = name
			h.inner.Fields = append(h.inner.Fields, &influxql.Field{Expr: e, Alias: name})
		}
		return &influxql.VarRef{Val: name}, nil
	}
	return e, err
}
