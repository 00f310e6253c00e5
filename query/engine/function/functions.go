package function

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/admission"
	"tsdbd/query/engine/partial"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
	"tsdbd/query/window"
)

// Function describes one function of InfluxQL: what it takes, what it returns,
// and how it runs. One of Partial, Rows and series is set. A selector may have Partial and
// Rows.
type Function struct {
	// Check checks the arguments of a call, with InfluxDB's error texts.
	Check func(*Checker, *influxql.Call) error
	// takes reports whether the function accepts values of a type. Nil accepts
	// numbers.
	takes func(model.FieldType) bool
	// refused returns the names that InfluxDB's error gives the function and its
	// iterator for a type that it does not accept. Nil: the function's own name.
	refused func(*influxql.Call, model.FieldType) (name, iterator string)
	// Gives is the type of the result. Unknown: the type of the argument.
	Gives model.FieldType

	Selector  bool // returns stored rows, so other columns of them may be selected
	Filled    bool // fill() applies to its empty windows
	counts    bool // fill(null) puts 0 into its empty windows
	LooksBack bool // needs the window before the first one that is shown
	Steps     bool // goes from value to value of a series, and needs the window before the first one
	TagOrder  bool // Rows sees rows of equal time in the order of their tag sets

	// Partial: states that are folded chunk by chunk answer it.
	Partial *folding
	// Rows computes it from all rows of a group. The first column holds the
	// values, none of them null. Then come, for a selector, the bare columns of the
	// level: with Partial too it runs only if there are some.
	Rows func(*Context, *rowset.Set) (*Cells, error)
	// series transforms a series of values: rows, or windows of an aggregate. The
	// values are not null, and there is at least one.
	series func(*Context, *Cells) (*Cells, error)
}

// folding says how partial states answer a function.
type folding struct {
	Slots []partial.Kind
	As    model.FieldType // the type in which the values are folded; Unknown: their own
	Timed bool            // needs the times of values
	// Counted says that Value needs to know how many values there are.
	Counted bool
	// Value appends the results of windows, those that have values of the first slot. The
	// second one is with it. Nil: the values that the first slot has chosen.
	Value func(out *column.Vector, typ model.FieldType, w partial.Windows)
	// List appends the results of the window that starts at a time, newest first if
	// the level is descending. sl is the first slot. List replaces Value.
	List func(x *Context, t *partial.Table, sl *partial.Slot, st *partial.State, at int64, out *Cells)
}

// Functions holds all functions but those of single numbers (MathFunctions).
var Functions = functionTable(aggregates, selectors, transformations, indicators, forecasts)

func functionTable(parts ...map[string]Function) map[string]Function {
	all := map[string]Function{}
	for _, p := range parts {
		maps.Copy(all, p)
	}
	return all
}

func anyType(model.FieldType) bool           { return true }
func numberOrBoolean(t model.FieldType) bool { return t.Numeric() || t == model.Boolean }
func onlyText(t model.FieldType) bool        { return t == model.String }

// Names returns the names of all functions, those of single numbers as well, sorted.
func Names() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(Functions)), maps.Keys(expr.MathFunctions))
	slices.Sort(names)
	return names
}

// Kind returns the kind of a function: "aggregate", "selector", "transformation", "indicator",
// "forecast", or "math" for one of single numbers.
func Kind(name string) string {
	tables := []struct {
		kind  string
		table map[string]Function
	}{{"aggregate", aggregates}, {"selector", selectors}, {"transformation", transformations}, {"indicator", indicators}, {"forecast", forecasts}}
	for _, t := range tables {
		if _, ok := t.table[name]; ok {
			return t.kind
		}
	}
	return "math"
}

// IsSelector reports whether a function returns stored rows.
func IsSelector(name string) bool { return Functions[name].Selector }

// Filled reports whether fill() applies to the empty windows of a function.
func Filled(name string) bool { return Functions[name].Filled }

// Accepts reports whether the function accepts values of a type.
func (f *Function) Accepts(t model.FieldType) bool {
	if f.takes == nil {
		return t.Numeric()
	}
	return f.takes(t)
}

// Result returns the type of the function's values over those of type t.
func (f *Function) Result(t model.FieldType) model.FieldType {
	if f.Gives != model.Unknown {
		return f.Gives
	}
	return t
}

// Refuse is the error for a call over values of a type that it does not accept.
func (f *Function) Refuse(e *influxql.Call, t model.FieldType) error {
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

// TopArgs returns the tags and fields that top or bottom carry along as columns.
// They are references.
func TopArgs(e influxql.Expr) []influxql.Expr {
	c, ok := e.(*influxql.Call)
	if !ok || c.Name != "top" && c.Name != "bottom" {
		return nil
	}
	return c.Args[1 : len(c.Args)-1]
}

// Cells is the result of one call for one group: values at times, in the
// direction of the level. A selector adds the other columns of the chosen rows.
type Cells struct {
	Times  []int64
	Values column.Vector
	Aux    []column.Vector // of the bare columns of the level; nil if there are none
}

// Take appends cell i of src.
func (c *Cells) Take(src *Cells, i int) {
	c.Times = append(c.Times, src.Times[i])
	c.Values.AppendFrom(&src.Values, i)
	for j := range c.Aux {
		if c.Aux[j].Type != model.Unknown {
			c.Aux[j].AppendFrom(&src.Aux[j], i)
		}
	}
}

// Slice returns the cells [lo, hi).
func (c *Cells) Slice(lo, hi int) Cells {
	out := Cells{Times: c.Times[lo:hi], Values: c.Values.Slice(lo, hi)}
	for i := range c.Aux {
		out.Aux = append(out.Aux, c.Aux[i])
		if c.Aux[i].Type != model.Unknown {
			out.Aux[i] = c.Aux[i].Slice(lo, hi)
		}
	}
	return out
}

// Call is one aggregate, selector or transformation of a select list. It does not change
// once it is planned.
type Call struct {
	*Function
	Key   string
	Expr  *influxql.Call
	Ref   influxql.VarRef // the field it works on
	Type  model.FieldType // of the values of Ref; Unknown: nobody has such a field
	Inner *Call           // aggregate under a transformation
	Range model.TimeRange // of the values
	Shown model.TimeRange // whose windows are shown; Range may look back before it
	Alone bool            // it is the only call, and a selector: its rows' other columns are shown
}

// CheckTypes refuses values of a type that the call does not accept, first those of the call
// inside. A tag is a string to the reader of a subquery, and nothing to one of a measurement.
func (c *Call) CheckTypes(ofSub bool) error {
	typ := c.Type
	if c.Inner != nil {
		if err := c.Inner.CheckTypes(ofSub); err != nil {
			return err
		}
		typ = c.Inner.ResultType()
	}
	if typ == model.Unknown || c.Ref.Type == influxql.Tag && !ofSub || c.Accepts(typ) {
		return nil
	}
	return c.Refuse(c.Expr, typ)
}

// ResultType returns the type of a call's column. It is Unknown if nobody has the
// field and the type follows from that of the field.
func (c *Call) ResultType() model.FieldType {
	if c.Inner != nil {
		return c.Result(c.Inner.ResultType())
	}
	return c.Result(c.Type)
}

// Context is what the code of a function sees of its call and its level.
type Context struct {
	*Call
	Windows *window.Windows
	Asc     bool
	Open    bool            // no lower bound of time was given
	Span    model.TimeRange // of the level
	Aux     int             // bare columns of the level
	Stop    *admission.Stopper
	Grow    func(bytes int64) error
}

// IntArg returns an argument that is an integer, 0 if it is none.
func IntArg(e *influxql.Call, i int) int {
	if n, ok := e.Args[i].(*influxql.IntegerLiteral); ok {
		return int(min(n.Val, math.MaxInt32))
	}
	return 0
}
