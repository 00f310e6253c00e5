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

// check is one check of the arguments of a call.
type check func(*Checker, *influxql.Call) error

// arguments returns the check of a call with low to high arguments that pass all
// checks.
func arguments(low, high int, checks ...check) check {
	return func(c *Checker, e *influxql.Call) error {
		switch got := len(e.Args); {
		case low == high && got != low:
			return fmt.Errorf("invalid number of arguments for %s, expected %d, got %d", e.Name, low, got)
		case got < low || got > high:
			return fmt.Errorf("invalid number of arguments for %s, expected at least %d but no more than %d, got %d", e.Name, low, high, got)
		}
		for _, f := range checks {
			if err := f(c, e); err != nil {
				return err
			}
		}
		return nil
	}
}

// oneField checks a call that takes a field alone.
var oneField = arguments(1, 1, field)

// refuse returns the error text about argument i. It may name the function, the
// argument, and the argument's type in the grammar.
func refuse(text string, e *influxql.Call, i int) error {
	return errors.New(strings.NewReplacer("{name}", e.Name, "{got}", e.Args[i].String(), "{type}", fmt.Sprintf("%T", e.Args[i])).Replace(text))
}

// integer checks that argument i, if it is there, is an integer of at least low.
func integer(i int, low int64, otherType, tooSmall string) check {
	return func(_ *Checker, e *influxql.Call) error {
		if i >= len(e.Args) {
			return nil
		}
		switch n, ok := e.Args[i].(*influxql.IntegerLiteral); {
		case !ok:
			return refuse(otherType, e, i)
		case n.Val < low:
			return refuse(tooSmall, e, i)
		}
		return nil
	}
}

// duration checks that the second argument, if it is there, is a positive
// duration.
func duration(otherType string) check {
	return func(_ *Checker, e *influxql.Call) error {
		if len(e.Args) < 2 {
			return nil
		}
		switch d, ok := e.Args[1].(*influxql.DurationLiteral); {
		case !ok:
			return refuse(otherType, e, 1)
		case d.Val <= 0:
			return fmt.Errorf("duration argument must be positive, got %s", influxql.FormatDuration(d.Val))
		}
		return nil
	}
}

// unit checks the duration in which a transformation counts.
var unit = duration("second argument to {name} must be a duration, got {type}")

// field checks that the first argument is a field, and takes parentheses off.
func field(c *Checker, e *influxql.Call) error {
	for {
		p, ok := e.Args[0].(*influxql.ParenExpr)
		if !ok {
			return c.symbol(e.Name, e.Args[0])
		}
		e.Args[0] = p.Expr
	}
}

// series checks that the first argument is a field, or an aggregate by windows.
func series(c *Checker, e *influxql.Call) error {
	if _, ok := e.Args[0].(*influxql.Call); ok {
		return windowed(c, e)
	}
	if c.Every && !c.Inherited {
		return fmt.Errorf("aggregate function required inside the call to %s", e.Name)
	}
	return field(c, e)
}

// windowed checks that the first argument is an aggregate by windows.
func windowed(c *Checker, e *influxql.Call) error {
	inner, ok := e.Args[0].(*influxql.Call)
	switch {
	case !ok:
		return fmt.Errorf("must use aggregate function with %s", e.Name)
	case !c.Every:
		return fmt.Errorf("%s aggregate requires a GROUP BY interval", e.Name)
	case inner.Name == "distinct":
		return c.DistinctArgs(inner.Args, true)
	}
	return c.Call(inner)
}

// fieldOrCall checks a field or any call, also without windows.
func fieldOrCall(c *Checker, e *influxql.Call) error {
	if inner, ok := e.Args[0].(*influxql.Call); ok {
		return c.Call(inner)
	}
	return field(c, e)
}

// fieldOrDistinct checks a field, or its distinct values.
func fieldOrDistinct(c *Checker, e *influxql.Call) error {
	switch a := e.Args[0].(type) {
	case *influxql.Call:
		if a.Name == "distinct" {
			return c.DistinctArgs(a.Args, true)
		}
	case *influxql.Distinct:
		return c.DistinctArgs(a.NewCall().Args, true)
	}
	return field(c, e)
}

func distinctArgument(c *Checker, e *influxql.Call) error { return c.DistinctArgs(e.Args, false) }

// DistinctArgs checks the arguments of distinct. It must be the only call unless it is
// nested in another one.
func (c *Checker) DistinctArgs(args []influxql.Expr, nested bool) error {
	switch len(args) {
	case 0:
		return errors.New("distinct function requires at least one argument")
	case 1:
	default:
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

// percent checks the rank of a percentile.
func percent(_ *Checker, e *influxql.Call) error {
	switch e.Args[1].(type) {
	case *influxql.IntegerLiteral, *influxql.NumberLiteral:
		return nil
	}
	return errors.New("expected float argument in percentile()")
}

// topArguments checks the field, the tags and the number of rows of top and bottom.
func topArguments(c *Checker, e *influxql.Call) error {
	if c.TopBottom != "" {
		return fmt.Errorf("selector function %s() cannot be combined with other functions", c.TopBottom)
	}
	last := len(e.Args) - 1
	if last < 1 {
		return fmt.Errorf("invalid number of arguments for %s, expected at least 2, got %d", e.Name, len(e.Args))
	}
	if err := integer(last, 1, "expected integer as last argument in {name}(), found {got}", "limit ({got}) in {name} function must be at least 1")(c, e); err != nil {
		return err
	}
	if n := e.Args[last].(*influxql.IntegerLiteral).Val; c.Limit > 0 && n > int64(c.Limit) {
		return fmt.Errorf("limit (%d) in %s function can not be larger than the LIMIT (%d) in the select statement", n, e.Name, c.Limit)
	}
	for i := range last {
		if _, ok := e.Args[i].(*influxql.VarRef); !ok && i == 0 {
			return refuse("expected first argument to be a field in {name}(), found {got}", e, i)
		} else if !ok {
			return refuse("only fields or tags are allowed in {name}(), found {got}", e, i)
		}
	}
	c.TopBottom = e.Name
	return nil
}

// evenWindows checks that windows are of equal length.
func evenWindows(c *Checker, e *influxql.Call) error {
	if c.Calendar {
		return fmt.Errorf("%s needs windows of equal length", e.Name)
	}
	return nil
}

// hold checks how many of the first values an indicator holds back; -1 leaves it
// to the indicator.
func hold(low int64) check {
	at := integer(2, low, "{name} hold period must be an integer", fmt.Sprintf("{name} hold period must be greater than or equal to %d", low))
	return func(c *Checker, e *influxql.Call) error {
		if len(e.Args) > 2 && e.Args[2].String() == "-1" {
			return nil
		}
		return at(c, e)
	}
}

// warmup checks how an indicator begins, by one of the quoted kinds.
func warmup(kinds string) check {
	return func(_ *Checker, e *influxql.Call) error {
		if len(e.Args) < 4 {
			return nil
		}
		switch kind, ok := e.Args[3].(*influxql.StringLiteral); {
		case !ok:
			return fmt.Errorf("%s warmup type must be a string", e.Name)
		case !strings.Contains(kinds, "'"+kind.Val+"'"):
			return fmt.Errorf("%s warmup type must be one of: %s", e.Name, kinds)
		}
		return nil
	}
}

// indicatorSeries is series, except that an indicator of distinct values is refused
// as if distinct stood alone.
func indicatorSeries(c *Checker, e *influxql.Call) error {
	if inner, ok := e.Args[0].(*influxql.Call); ok && inner.Name == "distinct" && c.Every {
		return c.Call(inner)
	}
	return series(c, e)
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
