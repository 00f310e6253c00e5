package engine

import (
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/admission"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/window"
)

// function describes one function of InfluxQL: what it takes, what it returns,
// and how it runs. Exactly one of partial, rows and series is set.
type function struct {
	// check checks the arguments of a call, with InfluxDB's error texts.
	check func(*checker, *influxql.Call) error
	// takes reports whether the function accepts values of a type. Nil accepts
	// numbers.
	takes func(model.FieldType) bool
	// refused returns the names that InfluxDB's error gives the function and its
	// iterator for a type that it does not accept. Nil: the function's own name.
	refused func(*influxql.Call, model.FieldType) (name, iterator string)
	// gives is the type of the result. Unknown: the type of the argument.
	gives model.FieldType

	selector  bool // returns stored rows, so other columns of them may be selected
	filled    bool // fill() applies to its empty windows
	counts    bool // fill(null) puts 0 into its empty windows
	looksBack bool // needs the window before the first one that is shown
	tagOrder  bool // rows sees rows of equal time in the order of their tag sets

	// partial: states that are folded chunk by chunk answer it.
	partial *folding
	// rows computes it from all rows of a group. The first column holds the
	// values, none of them null. Then come, for a selector, the bare columns of the
	// level.
	rows func(*callContext, *rowset.Set) (*cells, error)
	// series transforms a series of values: rows, or windows of an aggregate. The
	// values are not null, and there is at least one.
	series func(*callContext, *cells) (*cells, error)
}

// folding says how partial states answer a function.
type folding struct {
	slots []slotKind
	as    model.FieldType // the type in which the values are folded; Unknown: their own
	timed bool            // needs the times of values
	// value appends the result of one window. b is the state of the second slot.
	// Nil: the value that the first slot has chosen.
	value func(out *column.Vector, typ model.FieldType, a, b *aggState)
	// list appends the results of one window that begins at a time, newest first if
	// the level is descending. sl is the first slot. It takes the place of value.
	list func(x *callContext, t *aggTable, sl *slot, st *aggState, at int64, out *cells)
}

// functions holds all functions but those of single numbers (MathFunctions).
var functions = functionTable(aggregates, selectors, transformations, indicators, forecasts)

func functionTable(parts ...map[string]function) map[string]function {
	all := map[string]function{}
	for _, p := range parts {
		maps.Copy(all, p)
	}
	return all
}

func anyType(model.FieldType) bool           { return true }
func numberOrBoolean(t model.FieldType) bool { return t.Numeric() || t == model.Boolean }
func onlyText(t model.FieldType) bool        { return t == model.String }

func isSelector(name string) bool { return functions[name].selector }
func filled(name string) bool     { return functions[name].filled }
func isTop(name string) bool      { return name == "top" || name == "bottom" }
func (f *function) accepts(t model.FieldType) bool {
	if f.takes == nil {
		return t.Numeric()
	}
	return f.takes(t)
}

// result returns the type of the function's values over those of type t.
func (f *function) result(t model.FieldType) model.FieldType {
	if f.gives != model.Unknown {
		return f.gives
	}
	return t
}

// refuse is the error for a call over values of a type that it does not accept.
func (f *function) refuse(e *influxql.Call, t model.FieldType) error {
	name, iterator := strings.ReplaceAll(e.Name, "_", " "), "Interrupt"
	if f.refused != nil {
		name, iterator = f.refused(e, t)
	}
	return fmt.Errorf("unsupported %s iterator type: *query.%s%sIterator", name, t, iterator)
}

// refusedAs is a refused that gives the function another name.
func refusedAs(name string) func(*influxql.Call, model.FieldType) (string, string) {
	return func(*influxql.Call, model.FieldType) (string, string) { return name, "Interrupt" }
}

// topTags returns the names that top or bottom carry along.
func topTags(e influxql.Expr) []string {
	c, ok := e.(*influxql.Call)
	if !ok || !isTop(c.Name) || len(c.Args) < 3 {
		return nil
	}
	var out []string
	for _, a := range c.Args[1 : len(c.Args)-1] {
		if ref, ok := a.(*influxql.VarRef); ok {
			out = append(out, ref.Val)
		}
	}
	return out
}

// cells is what one call gives for one group: values at times, in the
// direction of the level, with the chosen rows' other columns if it selects.
type cells struct {
	times []int64
	v     column.Vector
	aux   []column.Vector // as level.refs; nil if there is none
}

func (c *cells) Take(src *cells, i int) {
	c.times = append(c.times, src.times[i])
	c.v.AppendFrom(&src.v, i)
	for j := range c.aux {
		if c.aux[j].Type != model.Unknown {
			c.aux[j].AppendFrom(&src.aux[j], i)
		}
	}
}

// slice returns the cells [lo, hi).
func (c *cells) slice(lo, hi int) cells {
	out := cells{times: c.times[lo:hi], v: c.v.Slice(lo, hi)}
	for i := range c.aux {
		out.aux = append(out.aux, c.aux[i])
		if c.aux[i].Type != model.Unknown {
			out.aux[i] = c.aux[i].Slice(lo, hi)
		}
	}
	return out
}

// callContext is what the code of a function sees of its call and its level.
type callContext struct {
	*function
	expr  *influxql.Call
	typ   model.FieldType // of the values
	alone bool            // it is the only call, and a selector
	rng   model.TimeRange // of the values
	shown model.TimeRange // whose windows are shown; rng may look back before it

	win  *window.Windows
	asc  bool
	open bool            // no lower bound of time was given
	span model.TimeRange // of the level
	aux  int             // bare columns of the level
	stop *admission.Stopper
	grow func(bytes int64) error
}

// intArg returns an argument that is an integer, 0 if it is none.
func intArg(e *influxql.Call, i int) int {
	if n, ok := e.Args[i].(*influxql.IntegerLiteral); ok {
		return int(min(n.Val, math.MaxInt32))
	}
	return 0
}
