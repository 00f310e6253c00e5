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
	"tsdbd/query/window"
)

// Source is what one entry of FROM reads: measurements or a subquery.
type Source struct {
	Subquery *Level   // nil: measurements
	Names    []string // of the measurements, sorted: one, or all that a regular expression matches

	Database, Policy string // of the measurements

	view    *openView
	targets []storedView // of the rows of view
}

// Measurement returns what there is to read of one of the measurements.
func (s *Source) Measurement(name string) *read.Measurement { return s.view.measurement(name) }

func (v *openView) measurement(name string) *read.Measurement {
	m := &read.Measurement{Name: name, View: v.View}
	for _, sh := range v.shards {
		if len(sh.Fields(name)) > 0 {
			m.Shards = append(m.Shards, sh)
		}
	}
	return m
}

// shards returns those of the measurements' policy and of its targets.
func (s *Source) shards() []scan.Shard {
	out := s.view.shards
	for _, t := range s.targets {
		out = append(slices.Clip(out), t.shards...)
	}
	return out
}

// Having returns measurements among which are all that have series in a range of times which
// satisfy a predicate.
func (s *Source) Having(b *read.Budget, where *model.TagExpr, times model.TimeRange) (names []string, err error) {
	for _, sh := range s.shards() {
		if !sh.TimeRange().Overlaps(times) {
			continue
		}
		if err := b.Check(); err != nil {
			return nil, err
		}
		mark := b.OpenUnits()
		found, _, err := sh.MeasurementsWhere(b.Ctx, where)
		if err != nil {
			return nil, err
		}
		b.CloseUnits(mark)
		before := len(names)
		names = append(names, found...)
		slices.Sort(names)
		if names = slices.Compact(names); len(names) > before {
			if err := b.KeepUnits(2 * nameBytes * int64(len(names)-before)); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

// Level is the plan of one SELECT: the statement itself or a subquery.
type Level struct {
	*Compiled
	Statement       *influxql.SelectStatement // typed, wildcards expanded
	Sources         []*Source
	Names           []string // of the measurements of all sources, sorted
	Dims            []string // group keys: its own and those the outer levels group by; sorted
	SLimit, SOffset int
	Most            int // rows of a series that the outer statement can want; 0: all

	Refs     []influxql.VarRef       // bare fields and tags, each once
	RefAt    map[influxql.VarRef]int // place in refs
	Calls    []*function.Call        // aggregates, each once
	CallAt   map[*influxql.Call]int  // place in calls
	Selector bool                    // one selector alone: rows keep the chosen point's time
	Typed    bool                    // a field has a type that the statement gives it

	Fields []influxql.Expr // select list; for top and bottom with their tags
}

// Planner plans statements over the shards of a storage. It holds the views that it
// opens until it is released.
type Planner struct {
	*read.Budget // the plan is kept, and what the shards of Source.Measurement list is that of units
	Storage      scan.Storage
	Now          time.Time
	MaxBuckets   int               // windows of GROUP BY time; 0 is no limit
	Warn         func(text string) // takes texts for the client; may be nil
	Downsamples  Downsamples       // may be nil

	views   map[viewKey]*openView
	targets map[viewKey][]storedView
	matches map[matchKey][]string // what regular expressions match
}

// viewKey names a retention policy, whose rows are aggregates of windows of every, or rows
// if that is 0.
type viewKey struct {
	database, policy string
	every            int64
}

// openView is a view that is open, and its shards, which charge what they list.
type openView struct {
	scan.View
	shards []scan.Shard
}

// Release gives the views back.
func (x *Planner) Release() {
	for _, v := range x.views {
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
	x.views, x.targets = map[viewKey]*openView{}, map[viewKey][]storedView{}
	if !aggregates(c.Statement) {
		x.Downsamples = nil
	}
	if err := x.openViews(c.Statement.Sources, c.reads()); err != nil {
		return nil, err
	}
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

// Lead returns r moved out by the window before it, which has the predecessors of values.
func Lead(w *window.Windows, r model.TimeRange) model.TimeRange {
	if !w.None() && !r.Empty() {
		r.Min = w.Prev(w.Start(r.Min))
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
	l := &Level{Compiled: c, Statement: stmt, Typed: typesFields(c.Statement.Fields), SLimit: stmt.SLimit, SOffset: stmt.SOffset}
	for _, d := range stmt.Dimensions {
		if ref, ok := d.Expr.(*influxql.VarRef); ok {
			l.Dims = append(l.Dims, ref.Val)
		}
	}
	if outer != nil {
		l.Dims = append(l.Dims, outer.Dims...)
	}
	slices.Sort(l.Dims)
	l.Dims = slices.Compact(l.Dims)
	if err := l.layoutFields(x.Ctx); err != nil {
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
			l.Sources = append(l.Sources, &Source{Subquery: sub})
		case *influxql.Measurement:
			names, err := x.names(s)
			if err != nil {
				return nil, err
			}
			l.Sources = append(l.Sources, &Source{
				Names: names, Database: s.Database, Policy: s.RetentionPolicy,
				view: x.view(s), targets: x.targets[viewKey{s.Database, s.RetentionPolicy, 0}],
			})
			if l.Names, err = x.union(l.Names, names); err != nil {
				return nil, err
			}
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
func (l *Level) layoutFields(ctx context.Context) error {
	for _, f := range l.Statement.Fields {
		l.Fields = append(l.Fields, f.Expr)
		l.Fields = append(l.Fields, function.TopArgs(f.Expr)...)
	}
	n := len(l.Fields)
	l.RefAt, l.CallAt = map[influxql.VarRef]int{}, make(map[*influxql.Call]int, n)
	keys := make(map[string]int, n) // places of calls
	for _, f := range l.Fields {
		if err := cmp.Or(ctx.Err(), l.addSymbols(f, keys)); err != nil {
			return err
		}
	}
	l.Selector = len(l.Calls) == 1 && l.Calls[0].Selector
	for _, c := range l.Calls {
		c.Alone = l.Selector
	}
	return nil
}

func (l *Level) addSymbols(e influxql.Expr, keys map[string]int) error {
	switch e := e.(type) {
	case *influxql.VarRef:
		l.Refs, _ = expr.Place(l.Refs, l.RefAt, *e)
	case *influxql.ParenExpr:
		return l.addSymbols(e.Expr, keys)
	case *influxql.BinaryExpr:
		if err := l.addSymbols(e.LHS, keys); err != nil {
			return err
		}
		return l.addSymbols(e.RHS, keys)
	case *influxql.Call:
		if expr.IsMathFunction(e.Name) {
			for _, a := range e.Args {
				if err := l.addSymbols(a, keys); err != nil {
					return err
				}
			}
			return nil
		}
		key := e.String()
		at, ok := keys[key]
		if !ok {
			c, err := l.newCall(e, key, l.Range)
			if err != nil {
				return err
			}
			at, keys[key] = len(l.Calls), len(l.Calls)
			l.Calls = append(l.Calls, c)
		}
		l.CallAt[e] = at
	}
	return nil
}

// newCall returns a call and those inside it. key is its text.
func (l *Level) newCall(e *influxql.Call, key string, rng model.TimeRange) (*function.Call, error) {
	f := function.Functions[e.Name]
	c := &function.Call{Function: &f, Key: key, Expr: e, Range: rng, Shown: rng}
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
		inner, err := l.newCall(a, a.String(), widen(l.Compiled, e, rng))
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
		for _, c := range l.Calls {
			err := c.CheckTypes(s.Subquery != nil)
			if err == nil {
				continue
			}
			if found, selectErr := l.selects(ctx, s); found || selectErr != nil {
				return cmp.Or(selectErr, err)
			}
			break // there is nothing to read
		}
	}
	return nil
}

// selects reports whether the tags in the condition leave a series of a source.
func (l *Level) selects(ctx context.Context, s *Source) (bool, error) {
	tags, _ := expr.SplitTags(l.Where, expr.IsFieldRef)
	for _, name := range s.Names {
		for _, shard := range s.Measurement(name).Shards {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			set, err := shard.Select(ctx, name, tags)
			if err != nil {
				return false, fmt.Errorf("select series of %s: %w", name, err)
			}
			if set != nil && !set.IsEmpty() {
				return true, nil
			}
		}
	}
	return s.Subquery != nil, nil
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

// Bounds returns times that hold about all rows of the level: the start of a window may lie
// before them, and what fill() or a forecast adds may lie around them.
func (l *Level) Bounds() model.TimeRange {
	bounds := model.TimeRange{Min: model.MaxTime, Max: model.MinTime}
	for _, s := range l.Sources {
		if s.Subquery != nil {
			bounds = bounds.Union(s.Subquery.Bounds())
			continue
		}
		for _, sh := range s.shards() {
			bounds = bounds.Union(read.Bounds(sh))
		}
	}
	return bounds.Intersect(l.Range)
}

// HasSubs reports whether a source of the level is a subquery.
func (l *Level) HasSubs() bool {
	return slices.ContainsFunc(l.Sources, func(s *Source) bool { return s.Subquery != nil })
}
