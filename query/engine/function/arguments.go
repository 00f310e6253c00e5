package function

import (
	"errors"
	"fmt"
	"strings"

	"github.com/influxdata/influxql"
)

// Checker checks the arguments of the calls of one statement, with InfluxDB's
// error texts, and gathers what the checks over all of them need.
type Checker struct {
	Calls         []*influxql.Call
	OnlySelectors bool
	TopBottom     string
	Distinct      bool
	Every         bool // there is GROUP BY time
	Inherited     bool // the outer statement has GROUP BY time
	Calendar      bool // by windows of months
	Limit         int
	Wildcard      bool // wildcards are allowed here
	// call checks a call inside another one.
	Call func(*influxql.Call) error
}

// oneField checks a call that takes a field alone.
func oneField(c *Checker, e *influxql.Call) error {
	if len(e.Args) != 1 {
		return fmt.Errorf("invalid number of arguments for %s, expected 1, got %d", e.Name, len(e.Args))
	}
	return c.fieldArg(e)
}

// countArgument checks a field, or its distinct values.
func countArgument(c *Checker, e *influxql.Call) error {
	if len(e.Args) == 1 {
		switch a := e.Args[0].(type) {
		case *influxql.Call:
			if a.Name == "distinct" {
				return c.DistinctArgs(a.Args, true)
			}
		case *influxql.Distinct:
			return c.DistinctArgs(a.NewCall().Args, true)
		}
	}
	return oneField(c, e)
}

func distinctArgument(c *Checker, e *influxql.Call) error { return c.DistinctArgs(e.Args, false) }

// fieldArg checks that the first argument is a field, and takes parentheses off.
func (c *Checker) fieldArg(e *influxql.Call) error {
	for {
		p, ok := e.Args[0].(*influxql.ParenExpr)
		if !ok {
			break
		}
		e.Args[0] = p.Expr
	}
	return c.symbol(e.Name, e.Args[0])
}

func percentileArguments(c *Checker, e *influxql.Call) error {
	if len(e.Args) != 2 {
		return fmt.Errorf("invalid number of arguments for percentile, expected 2, got %d", len(e.Args))
	}
	switch e.Args[1].(type) {
	case *influxql.IntegerLiteral, *influxql.NumberLiteral:
	default:
		return errors.New("expected float argument in percentile()")
	}
	return c.fieldArg(e)
}

func sampleArguments(c *Checker, e *influxql.Call) error {
	if len(e.Args) != 2 {
		return fmt.Errorf("invalid number of arguments for sample, expected 2, got %d", len(e.Args))
	}
	n, ok := e.Args[1].(*influxql.IntegerLiteral)
	if !ok {
		return errors.New("expected integer argument in sample()")
	}
	if n.Val <= 0 {
		return fmt.Errorf("sample window must be greater than 1, got %d", n.Val)
	}
	return c.fieldArg(e)
}

func (c *Checker) DistinctArgs(args []influxql.Expr, nested bool) error {
	if len(args) == 0 {
		return errors.New("distinct function requires at least one argument")
	}
	if len(args) != 1 {
		return errors.New("distinct function can only have one argument")
	}
	if _, ok := args[0].(*influxql.VarRef); !ok {
		return errors.New("expected field argument in distinct()")
	}
	if !nested {
		c.Distinct = true
	}
	c.OnlySelectors = false
	return nil
}

func topArguments(c *Checker, e *influxql.Call) error {
	if c.TopBottom != "" {
		return fmt.Errorf("selector function %s() cannot be combined with other functions", c.TopBottom)
	}
	if len(e.Args) < 2 {
		return fmt.Errorf("invalid number of arguments for %s, expected at least 2, got %d", e.Name, len(e.Args))
	}
	last := e.Args[len(e.Args)-1]
	n, ok := last.(*influxql.IntegerLiteral)
	if !ok {
		return fmt.Errorf("expected integer as last argument in %s(), found %s", e.Name, last)
	}
	if n.Val <= 0 {
		return fmt.Errorf("limit (%d) in %s function must be at least 1", n.Val, e.Name)
	}
	if c.Limit > 0 && n.Val > int64(c.Limit) {
		return fmt.Errorf("limit (%d) in %s function can not be larger than the LIMIT (%d) in the select statement", n.Val, e.Name, c.Limit)
	}
	if _, ok := e.Args[0].(*influxql.VarRef); !ok {
		return fmt.Errorf("expected first argument to be a field in %s(), found %s", e.Name, e.Args[0])
	}
	for _, a := range e.Args[1 : len(e.Args)-1] {
		if _, ok := a.(*influxql.VarRef); !ok {
			return fmt.Errorf("only fields or tags are allowed in %s(), found %s", e.Name, a)
		}
	}
	c.TopBottom = e.Name
	return nil
}

func argCount(e *influxql.Call, low, high int) error {
	got := len(e.Args)
	switch {
	case got >= low && got <= high:
		return nil
	case low == high:
		return fmt.Errorf("invalid number of arguments for %s, expected %d, got %d", e.Name, low, got)
	}
	return fmt.Errorf("invalid number of arguments for %s, expected at least %d but no more than %d, got %d", e.Name, low, high, got)
}

// transforms returns the check of a function over a field, or over an aggregate
// by window, whose further arguments args checks.
func transforms(low, high int, args func(*influxql.Call) error) func(*Checker, *influxql.Call) error {
	return func(c *Checker, e *influxql.Call) error {
		if err := argCount(e, low, high); err != nil {
			return err
		}
		if args != nil {
			if err := args(e); err != nil {
				return err
			}
		}
		return c.nested(e)
	}
}

// unitArgument checks an optional duration as second argument.
func unitArgument(e *influxql.Call) error {
	if len(e.Args) != 2 {
		return nil
	}
	d, ok := e.Args[1].(*influxql.DurationLiteral)
	if !ok {
		return fmt.Errorf("second argument to %s must be a duration, got %T", e.Name, e.Args[1])
	}
	return positive(d)
}

func positive(d *influxql.DurationLiteral) error {
	if d.Val <= 0 {
		return fmt.Errorf("duration argument must be positive, got %s", influxql.FormatDuration(d.Val))
	}
	return nil
}

// periodArgument checks the number of values of a moving average.
func periodArgument(e *influxql.Call) error {
	n, ok := e.Args[1].(*influxql.IntegerLiteral)
	if !ok {
		return fmt.Errorf("second argument for moving_average must be an integer, got %T", e.Args[1])
	}
	if n.Val <= 1 {
		return fmt.Errorf("moving_average window must be greater than 1, got %d", n.Val)
	}
	return nil
}

func (c *Checker) nested(e *influxql.Call) error {
	if inner, ok := e.Args[0].(*influxql.Call); ok {
		if !c.Every {
			return fmt.Errorf("%s aggregate requires a GROUP BY interval", e.Name)
		}
		return c.nestedCall(inner)
	}
	if c.Every && !c.Inherited {
		return fmt.Errorf("aggregate function required inside the call to %s", e.Name)
	}
	return c.fieldArg(e)
}

// nestedCall checks the aggregate inside a transformation.
func (c *Checker) nestedCall(inner *influxql.Call) error {
	if inner.Name == "distinct" {
		return c.DistinctArgs(inner.Args, true)
	}
	return c.Call(inner)
}

func integralArguments(c *Checker, e *influxql.Call) error {
	if err := argCount(e, 1, 2); err != nil {
		return err
	}
	if len(e.Args) == 2 {
		d, ok := e.Args[1].(*influxql.DurationLiteral)
		if !ok {
			return errors.New("second argument must be a duration")
		}
		if err := positive(d); err != nil {
			return err
		}
	}
	return c.fieldArg(e)
}

// countHLL takes the texts that sum_hll makes, from a column or from the call
// inside, also without windows.
func countHLLArgument(c *Checker, e *influxql.Call) error {
	if len(e.Args) != 1 {
		return fmt.Errorf("invalid number of arguments for count_hll, expected 1, got %d", len(e.Args))
	}
	if inner, ok := e.Args[0].(*influxql.Call); ok {
		return c.Call(inner)
	}
	return c.fieldArg(e)
}

func forecastArguments(c *Checker, e *influxql.Call) error {
	if len(e.Args) != 3 {
		return fmt.Errorf("invalid number of arguments for %s, expected 3, got %d", e.Name, len(e.Args))
	}
	n, ok := e.Args[1].(*influxql.IntegerLiteral)
	if !ok {
		return fmt.Errorf("expected integer argument as second arg in %s", e.Name)
	}
	if n.Val <= 0 {
		return fmt.Errorf("second arg to %s must be greater than 0, got %d", e.Name, n.Val)
	}
	s, ok := e.Args[2].(*influxql.IntegerLiteral)
	if !ok {
		return fmt.Errorf("expected integer argument as third arg in %s", e.Name)
	}
	if s.Val < 0 {
		return fmt.Errorf("third arg to %s cannot be negative, got %d", e.Name, s.Val)
	}
	if c.Calendar {
		return fmt.Errorf("%s needs windows of equal length", e.Name)
	}
	inner, ok := e.Args[0].(*influxql.Call)
	if !ok {
		return fmt.Errorf("must use aggregate function with %s", e.Name)
	}
	if !c.Every {
		return fmt.Errorf("%s aggregate requires a GROUP BY interval", e.Name)
	}
	return c.nestedCall(inner)
}

// indicatorLimits are what the arguments of indicators differ in.
type indicatorLimits struct {
	most    int    // arguments
	hold    int64  // least hold period
	warmups string // types of warm-up
}

var commonLimits = indicatorLimits{most: 4, warmups: "'exponential' 'simple'"}

func (l indicatorLimits) check(c *Checker, e *influxql.Call) error {
	if err := argCount(e, 2, l.most); err != nil {
		return err
	}
	period, ok := e.Args[1].(*influxql.IntegerLiteral)
	if !ok {
		return fmt.Errorf("%s period must be an integer", e.Name)
	}
	if period.Val < 1 {
		return fmt.Errorf("%s period must be greater than or equal to 1", e.Name)
	}
	if len(e.Args) > 2 {
		hold, ok := e.Args[2].(*influxql.IntegerLiteral)
		if !ok {
			return fmt.Errorf("%s hold period must be an integer", e.Name)
		}
		if hold.Val < l.hold && hold.Val != -1 {
			return fmt.Errorf("%s hold period must be greater than or equal to %d", e.Name, l.hold)
		}
	}
	if len(e.Args) > 3 {
		kind, ok := e.Args[3].(*influxql.StringLiteral)
		if !ok {
			return fmt.Errorf("%s warmup type must be a string", e.Name)
		}
		if !strings.Contains(l.warmups, "'"+kind.Val+"'") {
			return fmt.Errorf("%s warmup type must be one of: %s", e.Name, l.warmups)
		}
	}
	if inner, ok := e.Args[0].(*influxql.Call); ok && inner.Name == "distinct" && c.Every {
		return c.Call(inner) // as if it stood alone, so that it is refused beside e
	}
	return c.nested(e)
}

// symbol checks the field argument of a function.
func (c *Checker) symbol(name string, arg influxql.Expr) error {
	switch arg := arg.(type) {
	case *influxql.VarRef:
		return nil
	case *influxql.Wildcard:
		if !c.Wildcard {
			return fmt.Errorf("unsupported expression with wildcard: %s()", name)
		}
		c.OnlySelectors = false // it may stand for several
		return nil
	case *influxql.RegexLiteral:
		if !c.Wildcard {
			return fmt.Errorf("unsupported expression with regex field: %s()", name)
		}
		c.OnlySelectors = false
		return nil
	case *influxql.ParenExpr:
		return c.symbol(name, arg.Expr)
	}
	return fmt.Errorf("expected field argument in %s()", name)
}
