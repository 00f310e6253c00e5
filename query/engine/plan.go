package engine

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
	sub *level // nil: the measurement
}

// level is the plan of one SELECT: the statement itself or a subquery.
type level struct {
	*compiled
	stmt            *influxql.SelectStatement // typed, wildcards expanded
	sources         []*source
	dims            []string // group keys: its own and those the outer levels group by; sorted
	slimit, soffset int
	most            int // rows of a series that the outer statement can want; 0: all

	refs     []influxql.VarRef      // bare fields and tags, each once
	calls    []*levelCall           // aggregates, each once
	callAt   map[*influxql.Call]int // place in calls
	selector bool                   // one selector alone: rows keep the chosen point's time

	fields []influxql.Expr // select list; for top and bottom with their tags
}

// planner plans statements over the shards of a storage. It holds the views that it
// opens until it is released.
type planner struct {
	ctx        context.Context
	storage    scan.Storage
	now        time.Time
	maxBuckets int                     // windows of GROUP BY time; 0 is no limit
	keep       func(bytes int64) error // accounts for what the shards list
	warn       func(text string)       // takes texts for the client; may be nil

	views  map[[2]string]scan.View
	warned int // losses that the client was told of
}

// release gives the views back.
func (x *planner) release() {
	for _, v := range x.views {
		v.Release()
	}
}

// plan compiles the statement, whose names are resolved, opens its sources and lays
// out its levels. stmt is not changed.
func (x *planner) plan(stmt *influxql.SelectStatement) (*level, error) {
	c, err := compileSelect(stmt, x.now)
	if err != nil {
		return nil, err
	}
	if err := x.limitBuckets(c); err != nil {
		return nil, err
	}
	if err := x.openViews(c.stmt.Sources, c.reads()); err != nil {
		return nil, err
	}
	x.expandSources(c.stmt)
	typed, err := x.typed(c.stmt)
	if err != nil {
		return nil, err
	}
	return x.layout(c, typed, nil)
}

// widen returns r moved out by the window that a call needs before the first one
// shown. It is one window whatever the period of the function, as in InfluxDB.
func widen(c *compiled, e *influxql.Call, r model.TimeRange) model.TimeRange {
	if !function.Functions[e.Name].LooksBack || c.win.None() || r.Empty() {
		return r
	}
	by := c.win.Every
	if c.asc {
		if !c.open {
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
func (c *compiled) reads() model.TimeRange {
	r := c.read
	for _, sub := range c.subs {
		r = r.Union(sub.reads())
	}
	return r
}

// limitBuckets enforces max-select-buckets. A query without a lower bound is
// cut to as many windows before its upper bound.
func (x *planner) limitBuckets(c *compiled) error {
	limit := int64(x.maxBuckets)
	if limit <= 0 || c.win.None() || c.rng.Empty() {
		return nil
	}
	last := c.win.Start(c.rng.Max)
	if c.open {
		// InfluxDB does not count the window that holds no more than the bound.
		first := c.win.Start(c.rng.Max - 1)
		for range limit - 1 {
			first = c.win.Prev(first)
		}
		c.rng.Min = max(c.rng.Min, first)
		return nil
	}
	first := c.win.Start(c.rng.Min)
	if n := (last-first)/c.win.Every + 1; n > limit || n <= 0 {
		return fmt.Errorf("max-select-buckets limit exceeded: (%d/%d)", n, limit)
	}
	return nil
}

// layout builds the level of a compiled statement whose typed form is stmt.
func (x *planner) layout(c *compiled, stmt *influxql.SelectStatement, outer *level) (*level, error) {
	c.cond = stmt.Condition // now with types
	l := &level{compiled: c, stmt: stmt, slimit: stmt.SLimit, soffset: stmt.SOffset}
	for _, d := range stmt.Dimensions {
		if ref, ok := d.Expr.(*influxql.VarRef); ok {
			l.dims = append(l.dims, ref.Val)
		}
	}
	if outer != nil {
		l.dims = append(l.dims, outer.dims...)
		l.slimit = result.AddLimits(l.slimit, outer.slimit)
		l.soffset = result.AddLimits(l.soffset, outer.soffset)
	}
	slices.Sort(l.dims)
	l.dims = slices.Compact(l.dims)
	if err := l.layoutFields(); err != nil {
		return nil, err
	}
	if outer != nil && len(outer.calls) == 0 && outer.cond == nil && l.fullRows() {
		l.most = outer.wanted() // each row of ours is a row of it
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
			l.sources = append(l.sources, &source{sub: sub})
		case *influxql.Measurement:
			in := &source{Measurement: read.Measurement{Name: s.Name, View: x.view(s)}}
			for _, sh := range in.View.Shards() {
				if len(sh.Fields(s.Name)) > 0 {
					in.Shards = append(in.Shards, sh.Charged(x.keep))
				}
			}
			l.sources = append(l.sources, in)
		}
	}
	return l, l.checkCalls(x.ctx)
}

// fullRows reports whether no row has a null: an outer statement drops rows of
// nothing but nulls, and may select any of the columns.
func (l *level) fullRows() bool {
	if len(l.calls) > 0 {
		return l.fill.Always()
	}
	if len(l.fields) != 1 {
		return false
	}
	ref, ok := l.fields[0].(*influxql.VarRef)
	return ok && expr.IsFieldRef(ref)
}

// layoutFields finds the aggregates and the bare columns of the select list.
func (l *level) layoutFields() error {
	seen := map[string]bool{}
	for _, f := range l.stmt.Fields {
		l.fields = append(l.fields, f.Expr)
		if e, ok := f.Expr.(*influxql.Call); ok && function.IsTop(e.Name) {
			l.fields = append(l.fields, e.Args[1:len(e.Args)-1]...)
		}
	}
	for _, f := range l.fields {
		if err := l.addSymbols(f, seen); err != nil {
			return err
		}
	}
	l.selector = len(l.calls) == 1 && l.calls[0].Selector
	for _, c := range l.calls {
		c.alone = l.selector
	}
	return nil
}

func (l *level) addSymbols(e influxql.Expr, seen map[string]bool) error {
	switch e := e.(type) {
	case *influxql.VarRef:
		if key := e.String(); !seen[key] {
			seen[key] = true
			l.refs = append(l.refs, *e)
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
			c, err := l.newCall(e, l.rng)
			if err != nil {
				return err
			}
			l.calls = append(l.calls, c)
		}
		if l.callAt == nil {
			l.callAt = map[*influxql.Call]int{}
		}
		l.callAt[e] = slices.IndexFunc(l.calls, func(c *levelCall) bool { return c.key == key })
	}
	return nil
}

// levelCall is one aggregate, selector or transformation of the select list.
type levelCall struct {
	*function.Function
	key   string
	expr  *influxql.Call
	ref   influxql.VarRef // the field it works on
	typ   model.FieldType // of ref; Unknown: nobody has such a field
	inner *levelCall      // aggregate under a transformation
	rng   model.TimeRange
	shown model.TimeRange // whose windows are shown; rng may look back before it
	alone bool            // it is the only call, and a selector: its rows' other columns are shown
}

func (l *level) newCall(e *influxql.Call, rng model.TimeRange) (*levelCall, error) {
	f := function.Functions[e.Name]
	c := &levelCall{Function: &f, key: e.String(), expr: e, rng: rng, shown: rng}
	if f.Filled && !l.open {
		c.rng = l.fill.Reach(rng)
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
		c.ref, c.typ = *a, expr.FieldType(a.Type)
	case *influxql.Call:
		inner, err := l.newCall(a, widen(l.compiled, e, rng))
		if err != nil {
			return nil, err
		}
		c.inner, c.ref, c.typ = inner, inner.ref, inner.typ
	default:
		return nil, fmt.Errorf("expected field argument in %s()", e.Name)
	}
	return c, nil
}

// checkCalls refuses functions of fields whose type they do not take. It
// speaks only where there is something to read.
func (l *level) checkCalls(ctx context.Context) error {
	for _, s := range l.sources {
		if s.sub == nil && len(s.Shards) == 0 {
			continue
		}
		for _, c := range l.calls {
			err := c.check(s.sub != nil)
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
func (l *level) selects(ctx context.Context, s *source) (bool, error) {
	tags, _ := expr.SplitTags(l.cond, expr.IsFieldRef)
	for _, shard := range s.Shards {
		set, err := shard.Select(ctx, s.Name, tags)
		if err != nil {
			return false, fmt.Errorf("select series of %s: %w", s.Name, err)
		}
		if set != nil && !set.IsEmpty() {
			return true, nil
		}
	}
	return s.sub != nil, nil
}

// check checks the types of a call, first of the one inside. A tag is a string
// to the reader of a subquery, and nothing to one of a measurement.
func (c *levelCall) check(ofSub bool) error {
	typ := c.typ
	if c.inner != nil {
		if err := c.inner.check(ofSub); err != nil {
			return err
		}
		typ = c.inner.resultType()
	}
	if typ == model.Unknown || c.ref.Type == influxql.Tag && !ofSub || c.Accepts(typ) {
		return nil
	}
	return c.Refuse(c.expr, typ)
}

// resultType returns the type of a call's column. It is Unknown if nobody has the
// field and the type follows from that of the field.
func (c *levelCall) resultType() model.FieldType {
	if c.inner != nil {
		return c.Result(c.inner.resultType())
	}
	return c.Result(c.typ)
}

// wanted returns how many rows of a series can be needed, 0 for all.
func (l *level) wanted() int {
	n := result.AddLimits(l.stmt.Limit, l.stmt.Offset)
	switch {
	case l.stmt.Limit <= 0:
		return l.most
	case l.most > 0:
		return min(n, result.AddLimits(l.most, l.stmt.Offset))
	}
	return n
}

// hasSubs reports whether a source of the level is a subquery.
func (l *level) hasSubs() bool {
	return slices.ContainsFunc(l.sources, func(s *source) bool { return s.sub != nil })
}
