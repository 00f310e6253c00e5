package query

import (
	"errors"
	"fmt"
	"strings"

	"github.com/influxdata/influxql"
)

// call checks a function call and what stands inside.
func (c *compiler) call(e *influxql.Call) error {
	if isMathFunction(e.Name) {
		if got, want := len(e.Args), mathArgs(e.Name); got != want {
			return fmt.Errorf("invalid number of arguments for %s, expected %d, got %d", e.Name, want, got)
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
	c.calls = append(c.calls, e)
	switch e.Name {
	case "percentile":
		return c.percentile(e)
	case "sample":
		return c.sample(e)
	case "distinct":
		return c.distinctArgs(e.Args, false)
	case "top", "bottom":
		return c.top(e)
	case "derivative", "non_negative_derivative":
		return c.transform(e, 1, 2, func() error {
			return c.unit(e, fmt.Sprintf("second argument to %s must be a duration, got %%T", e.Name))
		})
	case "elapsed":
		return c.transform(e, 1, 2, func() error { return c.unit(e, "second argument to elapsed must be a duration, got %T") })
	case "difference", "non_negative_difference", "cumulative_sum":
		return c.transform(e, 1, 1, nil)
	case "moving_average":
		return c.transform(e, 2, 2, func() error {
			n, ok := e.Args[1].(*influxql.IntegerLiteral)
			if !ok {
				return fmt.Errorf("second argument for moving_average must be an integer, got %T", e.Args[1])
			}
			if n.Val <= 1 {
				return fmt.Errorf("moving_average window must be greater than 1, got %d", n.Val)
			}
			return nil
		})
	case "integral":
		return c.integral(e)
	case "count_hll":
		return c.countHLL(e)
	case "holt_winters", "holt_winters_with_fit":
		return c.holtWinters(e)
	case "exponential_moving_average", "double_exponential_moving_average", "triple_exponential_moving_average",
		"triple_exponential_derivative", "relative_strength_index", "kaufmans_efficiency_ratio",
		"kaufmans_adaptive_moving_average", "chande_momentum_oscillator":
		return c.technical(e)
	case "min", "max", "first", "last":
	case "count", "sum", "mean", "median", "mode", "stddev", "spread", "sum_hll":
		c.onlySelectors = false
	default:
		return fmt.Errorf("undefined function %s()", e.Name)
	}
	if len(e.Args) != 1 {
		return fmt.Errorf("invalid number of arguments for %s, expected 1, got %d", e.Name, len(e.Args))
	}
	if e.Name == "count" {
		switch a := e.Args[0].(type) {
		case *influxql.Call:
			if a.Name == "distinct" {
				return c.distinctArgs(a.Args, true)
			}
		case *influxql.Distinct:
			return c.distinctArgs(a.NewCall().Args, true)
		}
	}
	return c.fieldArg(e)
}

// fieldArg checks that the first argument is a field, and takes parentheses off.
func (c *compiler) fieldArg(e *influxql.Call) error {
	for {
		p, ok := e.Args[0].(*influxql.ParenExpr)
		if !ok {
			break
		}
		e.Args[0] = p.Expr
	}
	return c.symbol(e.Name, e.Args[0])
}

func (c *compiler) percentile(e *influxql.Call) error {
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

func (c *compiler) sample(e *influxql.Call) error {
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

func (c *compiler) distinctArgs(args []influxql.Expr, nested bool) error {
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
		c.distinct = true
	}
	c.onlySelectors = false
	return nil
}

func (c *compiler) top(e *influxql.Call) error {
	if c.topBottom != "" {
		return fmt.Errorf("selector function %s() cannot be combined with other functions", c.topBottom)
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
	if c.limit > 0 && n.Val > int64(c.limit) {
		return fmt.Errorf("limit (%d) in %s function can not be larger than the LIMIT (%d) in the select statement", n.Val, e.Name, c.limit)
	}
	if _, ok := e.Args[0].(*influxql.VarRef); !ok {
		return fmt.Errorf("expected first argument to be a field in %s(), found %s", e.Name, e.Args[0])
	}
	for _, a := range e.Args[1 : len(e.Args)-1] {
		if _, ok := a.(*influxql.VarRef); !ok {
			return fmt.Errorf("only fields or tags are allowed in %s(), found %s", e.Name, a)
		}
	}
	c.topBottom = e.Name
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

// unit checks an optional duration as second argument.
func (c *compiler) unit(e *influxql.Call, format string) error {
	if len(e.Args) != 2 {
		return nil
	}
	d, ok := e.Args[1].(*influxql.DurationLiteral)
	if !ok {
		return fmt.Errorf(format, e.Args[1])
	}
	if d.Val <= 0 {
		return fmt.Errorf("duration argument must be positive, got %s", influxql.FormatDuration(d.Val))
	}
	return nil
}

// transform checks a function over a raw field or over an aggregate by window.
func (c *compiler) transform(e *influxql.Call, low, high int, args func() error) error {
	if err := argCount(e, low, high); err != nil {
		return err
	}
	if args != nil {
		if err := args(); err != nil {
			return err
		}
	}
	c.onlySelectors = false
	return c.nested(e)
}

func (c *compiler) nested(e *influxql.Call) error {
	if inner, ok := e.Args[0].(*influxql.Call); ok {
		if !c.every {
			return fmt.Errorf("%s aggregate requires a GROUP BY interval", e.Name)
		}
		return c.nestedCall(inner)
	}
	if c.every && !c.inheritedInterval() {
		return fmt.Errorf("aggregate function required inside the call to %s", e.Name)
	}
	return c.fieldArg(e)
}

func (c *compiler) inheritedInterval() bool { return c.parent != nil && !c.parent.win.None() }

// nestedCall checks the aggregate inside a transformation.
func (c *compiler) nestedCall(inner *influxql.Call) error {
	if inner.Name == "distinct" {
		return c.distinctArgs(inner.Args, true)
	}
	return c.call(inner)
}

func (c *compiler) integral(e *influxql.Call) error {
	if err := argCount(e, 1, 2); err != nil {
		return err
	}
	if len(e.Args) == 2 {
		d, ok := e.Args[1].(*influxql.DurationLiteral)
		if !ok {
			return errors.New("second argument must be a duration")
		}
		if d.Val <= 0 {
			return fmt.Errorf("duration argument must be positive, got %s", influxql.FormatDuration(d.Val))
		}
	}
	c.onlySelectors = false
	return c.fieldArg(e)
}

// countHLL takes the texts that sum_hll makes, from a column or from the call
// inside, also without windows.
func (c *compiler) countHLL(e *influxql.Call) error {
	if len(e.Args) != 1 {
		return fmt.Errorf("invalid number of arguments for count_hll, expected 1, got %d", len(e.Args))
	}
	c.onlySelectors = false
	if inner, ok := e.Args[0].(*influxql.Call); ok {
		return c.call(inner)
	}
	return c.fieldArg(e)
}

func (c *compiler) holtWinters(e *influxql.Call) error {
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
	c.onlySelectors = false
	if c.calendar {
		return fmt.Errorf("%s needs windows of equal length", e.Name)
	}
	inner, ok := e.Args[0].(*influxql.Call)
	if !ok {
		return fmt.Errorf("must use aggregate function with %s", e.Name)
	}
	if !c.every {
		return fmt.Errorf("%s aggregate requires a GROUP BY interval", e.Name)
	}
	return c.nestedCall(inner)
}

func (c *compiler) technical(e *influxql.Call) error {
	high := 4
	if strings.HasPrefix(e.Name, "kaufmans") {
		high = 3
	}
	if got := len(e.Args); got < 2 || got > high {
		return fmt.Errorf("invalid number of arguments for %s, expected at least 2 but no more than %d, got %d", e.Name, high, got)
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
		low := int64(0)
		if e.Name == "triple_exponential_derivative" {
			low = 1
		}
		if hold.Val < low && hold.Val != -1 {
			return fmt.Errorf("%s hold period must be greater than or equal to %d", e.Name, low)
		}
	}
	if len(e.Args) > 3 {
		kind, ok := e.Args[3].(*influxql.StringLiteral)
		if !ok {
			return fmt.Errorf("%s warmup type must be a string", e.Name)
		}
		kinds := "'exponential' 'simple'"
		if e.Name == "chande_momentum_oscillator" {
			kinds = "'none' " + kinds
		}
		if !strings.Contains(kinds, "'"+kind.Val+"'") {
			return fmt.Errorf("%s warmup type must be one of: %s", e.Name, kinds)
		}
	}
	c.onlySelectors = false
	if inner, ok := e.Args[0].(*influxql.Call); ok && inner.Name == "distinct" && c.every {
		return c.call(inner) // as if it stood alone, so that it is refused beside e
	}
	return c.nested(e)
}
