package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/query/engine/function"
	"tsdbd/query/expr"
	"tsdbd/query/window"
)

// Compiled is a SELECT statement, or a subquery of one, that has been checked:
// every text that InfluxDB refuses has been refused with its words.
type Compiled struct {
	Statement *influxql.SelectStatement // condition without time, no time column

	Where     influxql.Expr
	Range     model.TimeRange // closed
	Read      model.TimeRange // rng and what transformations look back to
	Open      bool            // no lower bound was given
	Windows   window.Windows  // GROUP BY time
	Asc       bool
	Fill      function.Filler
	inherited bool // the interval is the outer statement's

	subs []*Compiled // of the subquery sources, in order of Sources
}

// compiler checks the select list of one statement.
type compiler struct {
	function.Checker
	aux bool // bare fields or tags are selected
}

// compileSelect checks stmt, which is cloned, and resolves its times.
func compileSelect(stmt *influxql.SelectStatement, now time.Time) (*Compiled, error) {
	return compileLevel(stmt.Clone(), now, nil)
}

func compileLevel(stmt *influxql.SelectStatement, now time.Time, parent *Compiled) (*Compiled, error) {
	out := &Compiled{Statement: stmt, Asc: stmt.TimeAscending()}
	cond, err := expr.SplitTime(stmt.Condition, now, stmt.Location)
	if err != nil {
		return nil, err
	}
	if err := checkCondition(cond.Expr); err != nil {
		return nil, err
	}
	out.Where, out.Range, out.Open = cond.Expr, cond.Range, !cond.HasMin
	if out.Windows, err = Windows(stmt, now); err != nil {
		return nil, err
	}
	hasMax := cond.HasMax
	if !hasMax && out.Windows.Asked() {
		out.Range.Max = now.UnixNano()
		hasMax = true
	}
	if out.Fill, err = function.NewFiller(stmt, !out.Windows.None(), out.Asc && (parent == nil || parent.Asc)); err != nil {
		return nil, err
	}
	if parent != nil {
		if len(stmt.SortFields) != 0 && out.Asc != parent.Asc {
			return nil, errors.New("subqueries must be ordered in the same direction as the query itself")
		}
		out.Asc = parent.Asc
		out.Range = out.Range.Intersect(parent.Read)
		out.Open = out.Open && parent.Open
		if !out.Windows.None() {
			out.Fill.DropNulls() // empty windows are nothing to the outer statement
		}
		if !parent.Windows.None() && out.Windows.None() {
			out.Windows, out.inherited = parent.Windows, true
			if stmt.Location != nil {
				out.Windows.Loc = stmt.Location
			}
		}
	}
	c := &compiler{Checker: function.Checker{OnlySelectors: true, Every: out.Windows.Asked(), Calendar: out.Windows.Months > 0, Limit: stmt.Limit, Wildcard: true}}
	c.Inherited = parent != nil && !parent.Windows.None()
	c.Call = c.checkCall
	if err := c.fields(stmt, out); err != nil {
		return nil, err
	}
	if out.inherited && len(c.Calls) > 0 || stmt.Target != nil {
		out.Fill.DropNulls()
	}
	out.Read = out.Range
	for _, f := range stmt.Fields {
		influxql.WalkFunc(f.Expr, func(n influxql.Node) {
			if e, ok := n.(*influxql.Call); ok {
				out.Read = out.Read.Union(widen(out, e, out.Range))
			}
		})
	}
	if !out.Open {
		out.Read = out.Fill.Reach(out.Read)
	}
	if slices.ContainsFunc(c.Calls, func(e *influxql.Call) bool { return function.Functions[e.Name].Steps }) {
		out.Read = Lead(&out.Windows, out.Read)
	}
	for _, src := range stmt.Sources {
		if sub, ok := src.(*influxql.SubQuery); ok {
			for _, e := range c.Calls {
				if function.Functions[e.Name].Steps {
					return nil, fmt.Errorf("%s() needs the series of a measurement: ask for it in the subquery", e.Name)
				}
			}
			inner, err := compileLevel(sub.Statement, now, out)
			if err != nil {
				return nil, err
			}
			out.subs = append(out.subs, inner)
		}
	}
	stmt.RewriteDistinct()
	stmt.Condition = out.Where
	if len(c.Calls) > 0 {
		stmt.IsRawQuery = false
	}
	return out, out.Windows.Refused
}

// fields checks the select list, drops the time column and folds constants.
func (c *compiler) fields(stmt *influxql.SelectStatement, out *Compiled) error {
	kept := stmt.Fields[:0]
	for _, f := range stmt.Fields {
		if ref, ok := f.Expr.(*influxql.VarRef); ok && ref.Val == "time" {
			if f.Alias != "" {
				stmt.TimeAlias = f.Alias
			}
			continue
		}
		f.Expr = influxql.Reduce(f.Expr, expr.ConstantMath{})
		kept = append(kept, f)
		c.Wildcard = true
		if err := c.expr(f.Expr); err != nil {
			return err
		}
	}
	stmt.Fields = kept
	switch {
	case len(kept) == 0:
		return errors.New("at least 1 non-time field must be queried")
	case len(c.Calls) > 1 && c.TopBottom != "":
		return fmt.Errorf("selector function %s() cannot be combined with other functions", c.TopBottom)
	}
	if len(c.Calls) == 0 {
		if err := out.Fill.CheckRows(); err != nil {
			return err
		}
		if out.Windows.Asked() && !out.inherited {
			return errors.New("GROUP BY requires at least one aggregate function")
		}
	}
	if c.Distinct && (len(c.Calls) != 1 || c.aux) {
		return errors.New("aggregate function distinct() cannot be combined with other functions or fields")
	}
	if c.aux {
		if !c.OnlySelectors {
			return errors.New("mixing aggregate and non-aggregate queries is not supported")
		}
		if len(c.Calls) > 1 {
			return errors.New("mixing multiple selector functions with tags or fields is not supported")
		}
	}
	return nil
}

func (c *compiler) expr(e influxql.Expr) error {
	switch e := e.(type) {
	case *influxql.VarRef:
		c.aux = true
		return nil
	case *influxql.Wildcard:
		c.aux = true
		if !c.Wildcard {
			return errors.New("unable to use wildcard in a binary expression")
		}
		return nil
	case *influxql.RegexLiteral:
		if !c.Wildcard {
			return errors.New("unable to use regex in a binary expression")
		}
		c.aux = true
		return nil
	case *influxql.Call:
		return c.checkCall(e)
	case *influxql.Distinct:
		call := e.NewCall()
		c.Calls = append(c.Calls, call)
		return c.DistinctArgs(call.Args, false)
	case *influxql.BinaryExpr:
		c.Wildcard = false
		_, left := e.LHS.(influxql.Literal)
		_, right := e.RHS.(influxql.Literal)
		if left && right {
			return errors.New("cannot perform a binary expression on two literals")
		}
		if !left {
			if err := c.expr(e.LHS); err != nil {
				return err
			}
		}
		if !right {
			return c.expr(e.RHS)
		}
		return nil
	case *influxql.ParenExpr:
		return c.expr(e.Expr)
	case influxql.Literal:
		return errors.New("field must contain at least one variable")
	}
	return fmt.Errorf("unsupported expression: %s", e)
}

// checkCondition refuses calls of anything but math functions.
func checkCondition(e influxql.Expr) error {
	switch e := e.(type) {
	case *influxql.Call:
		if !expr.IsMathFunction(e.Name) {
			return fmt.Errorf("invalid function call in condition: %s", e)
		}
		if err := checkMathArgs(e); err != nil {
			return err
		}
		for _, a := range e.Args {
			if err := checkCondition(a); err != nil {
				return err
			}
		}
	case *influxql.BinaryExpr:
		if err := checkCondition(e.LHS); err != nil {
			return err
		}
		if _, _, ok := expr.SetMembers(e); ok {
			return nil
		}
		return checkCondition(e.RHS)
	case *influxql.ParenExpr:
		return checkCondition(e.Expr)
	}
	return nil
}

func checkMathArgs(e *influxql.Call) error {
	if got, want := len(e.Args), expr.MathArgs(e.Name); got != want {
		return fmt.Errorf("invalid number of arguments for %s, expected %d, got %d", e.Name, want, got)
	}
	return nil
}

// Windows checks GROUP BY and returns the windows of its time().
func Windows(stmt *influxql.SelectStatement, now time.Time) (w window.Windows, err error) {
	w.Loc = stmt.Location
	for _, d := range stmt.Dimensions {
		d.Expr = influxql.Reduce(d.Expr, nil) // also takes parentheses off
		switch e := d.Expr.(type) {
		case *influxql.VarRef:
			if strings.EqualFold(e.Val, "time") {
				return w, errors.New("time() is a function and expects at least one argument")
			}
		case *influxql.Wildcard, *influxql.RegexLiteral:
		case *influxql.Call:
			if !strings.EqualFold(e.Name, "time") {
				return w, errors.New("only time() calls allowed in dimensions")
			}
			if len(e.Args) < 1 || len(e.Args) > 2 {
				return w, errors.New("time dimension expected 1 or 2 arguments")
			}
			lit, ok := e.Args[0].(*influxql.DurationLiteral)
			if !ok {
				return w, errors.New("time dimension must have duration argument")
			}
			if w.Every != 0 {
				return w, errors.New("multiple time dimensions not allowed")
			}
			w.Every = int64(lit.Val)
			if len(e.Args) == 2 {
				if s, ok := e.Args[1].(*influxql.StringLiteral); ok && w.SetCalendar(s.Val) {
					continue
				}
				if text, ok := timeText(e.Args[1]); ok {
					w.Refused = fmt.Errorf("invalid time dimension offset: %s", text)
					continue
				}
				shift, err := windowOffset(e.Args[1], lit.Val, now)
				if err != nil {
					return w, err
				}
				w.Shift = int64(shift)
			}
		default:
			return w, errors.New("only time and tag dimensions allowed")
		}
	}
	if w.None() {
		w.Loc = nil // one window is the same in every zone
	}
	return w, nil
}

// timeText returns a time that is given as the offset of windows.
func timeText(arg influxql.Expr) (string, bool) {
	switch a := arg.(type) {
	case *influxql.StringLiteral:
		return a.String(), a.IsTimeLiteral()
	case *influxql.TimeLiteral:
		return a.String(), true
	}
	return "", false
}

func windowOffset(arg influxql.Expr, every time.Duration, now time.Time) (time.Duration, error) {
	switch a := arg.(type) {
	case *influxql.DurationLiteral:
		if every == 0 {
			return 0, nil
		}
		return a.Val % every, nil
	case *influxql.Call:
		if a.Name != "now" {
			return 0, errors.New("time dimension offset function must be now()")
		}
		if len(a.Args) != 0 {
			return 0, errors.New("time dimension offset now() function requires no arguments")
		}
		if every <= 0 {
			return 0, nil
		}
		return time.Duration(window.FloorMod(now.UnixNano(), int64(every))), nil
	}
	return 0, errors.New("time dimension offset must be duration or now()")
}

// checkCall checks a function call and its arguments.
func (c *compiler) checkCall(e *influxql.Call) error {
	if expr.IsMathFunction(e.Name) {
		if err := checkMathArgs(e); err != nil {
			return err
		}
		for _, a := range e.Args {
			if _, ok := a.(influxql.Literal); ok {
				continue
			}
			if err := c.expr(a); err != nil {
				return err
			}
		}
		return nil
	}
	c.Calls = append(c.Calls, e)
	f, ok := function.Functions[e.Name]
	if !ok {
		return fmt.Errorf("undefined function %s()", e.Name)
	}
	if !f.Selector {
		c.OnlySelectors = false
	}
	return f.Check(&c.Checker, e)
}
