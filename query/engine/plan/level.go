package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/engine/function"
	"tsdbd/query/engine/read"
	"tsdbd/query/expr"
	"tsdbd/query/result"
)

// source is what one entry of FROM reads: a measurement or a subquery.
type source struct {
	read.Measurement
	Subquery *Level // nil: the measurement
}

// Level is the plan of one SELECT: the statement itself or a subquery.
type Level struct {
	*Compiled
	Statement       *influxql.SelectStatement // typed, wildcards expanded
	Sources         []*source
	Dims            []string // group keys: its own and those the outer levels group by; sorted
	SLimit, SOffset int
	Most            int // rows of a series that the outer statement can want; 0: all

	Refs     []influxql.VarRef      // bare fields and tags, each once
	Calls    []*Call                // aggregates, each once
	CallAt   map[*influxql.Call]int // place in calls
	Selector bool                   // one selector alone: rows keep the chosen point's time

	Fields []influxql.Expr // select list; for top and bottom with their tags
}

// Planner plans statements over the shards of a storage. It holds the views that it
// opens until it is released.
type Planner struct {
	Ctx        context.Context
	Storage    scan.Storage
	Now        time.Time
	MaxBuckets int                     // windows of GROUP BY time; 0 is no limit
	Keep       func(bytes int64) error // accounts for what the shards list
	Warn       func(text string)       // takes texts for the client; may be nil

	Views  map[[2]string]scan.View
	warned int // losses reported so far
}

// Release gives the views back.
func (x *Planner) Release() {
	for _, v := range x.Views {
		v.Release()
	}
}

// Plan compiles the statement, whose names are resolved, opens its sources and lays
// out its levels. stmt is not changed.
func (x *Planner) Plan(stmt *influxql.SelectStatement) (*Level, error) {
	c, err := compileSelect(stmt, x.Now)
	if err != nil {
		return nil, err
	}
	if err := x.limitBuckets(c); err != nil {
		return nil, err
	}
	if err := x.openViews(c.Statement.Sources, c.reads()); err != nil {
		return nil, err
	}
	x.expandSources(c.Statement)
	typed, err := x.typed(c.Statement)
	if err != nil {
		return nil, err
	}
	return x.layout(c, typed, nil)
}

// widen returns r moved out by the window that a call needs before the first one
// shown. It is one window whatever the period of the function, as in InfluxDB.
func widen(c *Compiled, e *influxql.Call, r model.TimeRange) model.TimeRange {
	if !function.Functions[e.Name].LooksBack || c.Windows.None() || r.Empty() {
		return r
	}
	by := c.Windows.Every
	if c.Asc {
		if !c.Open {
			if r.Min < model.MinTime+by {
				r.Min = model.MinTime
			} else {
				r.Min -= by
			}
		}
		return r
	}
	if r.Max > model.MaxTime-by {
		r.Max = model.MaxTime
	} else {
		r.Max += by
	}
	return r
}

// reads returns the times that a statement and its subqueries read.
func (c *Compiled) reads() model.TimeRange {
	r := c.Read
	for _, sub := range c.subs {
		r = r.Union(sub.reads())
	}
	return r
}

// limitBuckets enforces max-select-buckets. A query without a lower bound is
// cut to as many windows before its upper bound.
func (x *Planner) limitBuckets(c *Compiled) error {
	limit := int64(x.MaxBuckets)
	if limit <= 0 || c.Windows.None() || c.Range.Empty() {
		return nil
	}
	last := c.Windows.Start(c.Range.Max)
	if c.Open {
		// InfluxDB does not count the window that holds no more than the bound.
		first := c.Windows.Start(c.Range.Max - 1)
		for range limit - 1 {
			first = c.Windows.Prev(first)
		}
		c.Range.Min = max(c.Range.Min, first)
		return nil
	}
	first := c.Windows.Start(c.Range.Min)
	if n := (last-first)/c.Windows.Every + 1; n > limit || n <= 0 {
		return fmt.Errorf("max-select-buckets limit exceeded: (%d/%d)", n, limit)
	}
	return nil
}

// layout builds the level of a compiled statement whose typed form is stmt.
func (x *Planner) layout(c *Compiled, stmt *influxql.SelectStatement, outer *Level) (*Level, error) {
	c.Where = stmt.Condition // now with types
	l := &Level{Compiled: c, Statement: stmt, SLimit: stmt.SLimit, SOffset: stmt.SOffset}
	for _, d := range stmt.Dimensions {
		if ref, ok := d.Expr.(*influxql.VarRef); ok {
			l.Dims = append(l.Dims, ref.Val)
		}
	}
	if outer != nil {
		l.Dims = append(l.Dims, outer.Dims...)
		l.SLimit = result.AddLimits(l.SLimit, outer.SLimit)
		l.SOffset = result.AddLimits(l.SOffset, outer.SOffset)
	}
	slices.Sort(l.Dims)
	l.Dims = slices.Compact(l.Dims)
	if err := l.layoutFields(); err != nil {
		return nil, err
	}
	if outer != nil && len(outer.Calls) == 0 && outer.Where == nil && l.fullRows() {
		l.Most = outer.Wanted() // each row of l is a row of outer
	}
	subs := c.subs
	for _, src := range stmt.Sources {
		switch s := src.(type) {
		case *influxql.SubQuery:
			sub, err := x.layout(subs[0], s.Statement, l)
			if err != nil {
				return nil, err
			}
			subs = subs[1:]
			l.Sources = append(l.Sources, &source{Subquery: sub})
		case *influxql.Measurement:
			in := &source{Measurement: read.Measurement{Name: s.Name, View: x.view(s)}}
			for _, sh := range in.View.Shards() {
				if len(sh.Fields(s.Name)) > 0 {
					in.Shards = append(in.Shards, sh.Charged(x.Keep))
				}
			}
			l.Sources = append(l.Sources, in)
		}
	}
	return l, l.checkCalls(x.Ctx)
}

// fullRows reports whether no row has a null: an outer statement drops rows of
// nothing but nulls, and may select any of the columns.
func (l *Level) fullRows() bool {
	if len(l.Calls) > 0 {
		return l.Fill.Always()
	}
	if len(l.Fields) != 1 {
		return false
	}
	ref, ok := l.Fields[0].(*influxql.VarRef)
	return ok && expr.IsFieldRef(ref)
}

// layoutFields finds the aggregates and the bare columns of the select list.
func (l *Level) layoutFields() error {
	seen := map[string]bool{}
	for _, f := range l.Statement.Fields {
		l.Fields = append(l.Fields, f.Expr)
		l.Fields = append(l.Fields, function.TopArgs(f.Expr)...)
	}
	for _, f := range l.Fields {
		if err := l.addSymbols(f, seen); err != nil {
			return err
		}
	}
	l.Selector = len(l.Calls) == 1 && l.Calls[0].Selector
	for _, c := range l.Calls {
		c.Alone = l.Selector
	}
	return nil
}

func (l *Level) addSymbols(e influxql.Expr, seen map[string]bool) error {
	switch e := e.(type) {
	case *influxql.VarRef:
		if key := e.String(); !seen[key] {
			seen[key] = true
			l.Refs = append(l.Refs, *e)
		}
	case *influxql.ParenExpr:
		return l.addSymbols(e.Expr, seen)
	case *influxql.BinaryExpr:
		if err := l.addSymbols(e.LHS, seen); err != nil {
			return err
		}
		return l.addSymbols(e.RHS, seen)
	case *influxql.Call:
		if expr.IsMathFunction(e.Name) {
			for _, a := range e.Args {
				if err := l.addSymbols(a, seen); err != nil {
					return err
				}
			}
			return nil
		}
		key := e.String()
		if !seen[key] {
			seen[key] = true
			c, err := l.newCall(e, l.Range)
			if err != nil {
				return err
			}
			l.Calls = append(l.Calls, c)
		}
		if l.CallAt == nil {
			l.CallAt = map[*influxql.Call]int{}
		}
		l.CallAt[e] = slices.IndexFunc(l.Calls, func(c *Call) bool { return c.Key == key })
	}
	return nil
}

// Call is one aggregate, selector or transformation of the select list.
type Call struct {
	*function.Function
	Key   string
	Expr  *influxql.Call
	Ref   influxql.VarRef // the field it works on
	Type  model.FieldType // of ref; Unknown: nobody has such a field
	Inner *Call           // aggregate under a transformation
	Range model.TimeRange
	Shown model.TimeRange // whose windows are shown; rng may look back before it
	Alone bool            // it is the only call, and a selector: its rows' other columns are shown
}

func (l *Level) newCall(e *influxql.Call, rng model.TimeRange) (*Call, error) {
	f := function.Functions[e.Name]
	c := &Call{Function: &f, Key: e.String(), Expr: e, Range: rng, Shown: rng}
	if f.Filled && !l.Open {
		c.Range = l.Fill.Reach(rng)
	}
	if len(e.Args) == 0 {
		return nil, fmt.Errorf("invalid number of arguments for %s", e.Name)
	}
	arg := e.Args[0]
	if inner, ok := arg.(*influxql.Call); ok && e.Name == "count" && inner.Name == "distinct" {
		c.Function, arg = &function.CountDistinct, inner.Args[0]
	}
	switch a := arg.(type) {
	case *influxql.VarRef:
		c.Ref, c.Type = *a, expr.FieldType(a.Type)
	case *influxql.Call:
		inner, err := l.newCall(a, widen(l.Compiled, e, rng))
		if err != nil {
			return nil, err
		}
		c.Inner, c.Ref, c.Type = inner, inner.Ref, inner.Type
	default:
		return nil, fmt.Errorf("expected field argument in %s()", e.Name)
	}
	return c, nil
}

// checkCalls refuses functions of fields whose type they do not take. It
// speaks only where there is something to read.
func (l *Level) checkCalls(ctx context.Context) error {
	for _, s := range l.Sources {
		if s.Subquery == nil && len(s.Shards) == 0 {
			continue
		}
		for _, c := range l.Calls {
			err := c.check(s.Subquery != nil)
			if err == nil {
				continue
			}
			if found, selectErr := l.selects(ctx, s); found || selectErr != nil {
				return cmp.Or(selectErr, err)
			}
		}
	}
	return nil
}

// selects reports whether the tags in the condition leave a series of a source.
func (l *Level) selects(ctx context.Context, s *source) (bool, error) {
	tags, _ := expr.SplitTags(l.Where, expr.IsFieldRef)
	for _, shard := range s.Shards {
		set, err := shard.Select(ctx, s.Name, tags)
		if err != nil {
			return false, fmt.Errorf("select series of %s: %w", s.Name, err)
		}
		if set != nil && !set.IsEmpty() {
			return true, nil
		}
	}
	return s.Subquery != nil, nil
}

// check checks the types of a call, first of the one inside. A tag is a string
// to the reader of a subquery, and nothing to one of a measurement.
func (c *Call) check(ofSub bool) error {
	typ := c.Type
	if c.Inner != nil {
		if err := c.Inner.check(ofSub); err != nil {
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

// Wanted returns how many rows of a series can be needed, 0 for all.
func (l *Level) Wanted() int {
	n := result.AddLimits(l.Statement.Limit, l.Statement.Offset)
	switch {
	case l.Statement.Limit <= 0:
		return l.Most
	case l.Most > 0:
		return min(n, result.AddLimits(l.Most, l.Statement.Offset))
	}
	return n
}

// HasSubs reports whether a source of the level is a subquery.
func (l *Level) HasSubs() bool {
	return slices.ContainsFunc(l.Sources, func(s *source) bool { return s.Subquery != nil })
}
