package engine

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/engine/function"
	"tsdbd/query/engine/partial"
	"tsdbd/query/engine/plan"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
)

// call is a call of the level under way.
type call struct {
	*function.Context // what the code of the function sees
	inner             *call
	slots             []int // of scan
	scan              *partial.Plan
	columns           []int           // of the reader, for a call that wants rows
	lent              *function.Cells // of the group before, whose memory is used again
	reader            *reader
}

// newCall returns a call, and the calls inside it, with what their functions see.
func (r *levelRun) newCall(c *function.Call) *call {
	if c == nil {
		return nil
	}
	l := r.l
	return &call{inner: r.newCall(c.Inner), Context: &function.Context{
		Call: c, Windows: &l.Windows, Asc: l.Asc, Open: l.Open, Span: l.Range, Aux: len(l.Refs), Stop: &r.x.stop, Grow: r.x.Grow,
	}}
}

// layout gives the level the operators that its select list needs.
func (r *levelRun) layout() error {
	l := r.l
	for _, lc := range l.Calls {
		if err := r.x.Check(); err != nil {
			return err
		}
		c := r.newCall(lc)
		r.calls = append(r.calls, c)
		if c.Type != model.Unknown {
			r.place(c)
		}
	}
	if len(l.Calls) == 0 && slices.ContainsFunc(l.Refs, func(r influxql.VarRef) bool { return r.Type != influxql.Unknown }) {
		r.operators = []operator{&reader{refs: l.Refs, rng: l.Range, ties: rowset.AsInfluxRows, limit: l.Wanted(), pieces: true}}
	}
	return nil
}

// place gives a call, or the aggregate under it, to an operator: a folder, or a
// reader if it wants rows.
func (r *levelRun) place(c *call) {
	if c.inner != nil {
		r.place(c.inner)
		return
	}
	l := r.l
	if c.Partial == nil || c.Rows != nil && c.Alone && len(l.Refs) > 0 {
		refs := []influxql.VarRef{c.Ref}
		if c.Alone {
			refs = append(refs, l.Refs...)
		}
		rd := r.reader(c)
		for _, ref := range refs {
			var i int
			rd.refs, i = expr.Place(rd.refs, rd.refAt, ref)
			c.columns = append(c.columns, i)
		}
		c.reader = rd
		return
	}
	p := r.folder(c).Plan
	c.scan = p
	tags := tagArgs(c.Expr)
	for _, kind := range c.Partial.Slots {
		sl := partial.Slot{Kind: kind, Type: c.Type, Timed: c.Partial.Timed || c.Alone && (len(l.Refs) > 0 || l.Windows.None())}
		if c.Partial.As != model.Unknown {
			sl.Type = c.Partial.As
		}
		switch kind {
		case partial.Sample:
			sl.Seed = rand.Uint64()
			p.Keyed = true
			fallthrough
		case partial.Top, partial.Bottom:
			sl.N, sl.Unique, sl.Tags = function.IntArg(c.Expr, len(c.Expr.Args)-1), len(c.Expr.Args) > 2, len(tags)
		}
		c.slots = append(c.slots, p.AddSlot(sl, c.Ref))
	}
	if c.Alone {
		p.Refs = append(append(p.Refs, tags...), l.Refs...)
		p.Aux = len(tags) + len(l.Refs)
		p.Keyed = p.Keyed || p.Aux > 0
	}
}

// tagArgs returns the tags that top or bottom name. Fields tell no rows apart.
func tagArgs(e *influxql.Call) (tags []influxql.VarRef) {
	for _, a := range function.TopArgs(e) {
		if ref := a.(*influxql.VarRef); !expr.IsFieldRef(ref) {
			tags = append(tags, *ref)
		}
	}
	return tags
}

// folderKey tells the folders of calls apart.
type folderKey struct {
	rng    model.TimeRange
	stored string // which targets have what calls need
	steps  bool
}

// folder returns the folder for a call.
func (r *levelRun) folder(c *call) *folder {
	columns, refused := r.stored(c)
	key := folderKey{c.Range, r.targetsWith(columns, refused), c.Steps}
	f := r.folders[key]
	if f == nil {
		f = &folder{Plan: partial.NewPlan(c.Range, &r.l.Windows, len(r.l.Calls)), counted: c.Range, refused: refused}
		if c.Steps {
			f.Range = plan.Lead(&r.l.Windows, c.Range)
		}
		r.folders[key] = f
		r.operators = append(r.operators, f)
	}
	for _, name := range columns {
		if !slices.Contains(f.needs, name) {
			f.needs = append(f.needs, name)
		}
	}
	return f
}

// readerKey tells the readers of calls apart. Rows that only another field has would
// change InfluxDB's order, so that a reader may be of one field.
type readerKey struct {
	rng    model.TimeRange
	ties   rowset.Ties
	ofTags bool
	of     influxql.VarRef // none if ties is BySeries
}

// reader returns the reader for a call.
func (r *levelRun) reader(c *call) *reader {
	key := readerKey{rng: c.Range, ties: c.ties(), ofTags: c.Ref.Type == influxql.Tag}
	if key.ties != rowset.BySeries {
		key.of = c.Ref
	}
	rd := r.readers[key]
	if rd == nil {
		rd = &reader{rng: key.rng, ties: key.ties, ofTags: key.ofTags, refAt: map[influxql.VarRef]int{}}
		r.readers[key] = rd
		r.operators = append(r.operators, rd)
	}
	return rd
}

// emitCalls joins the cells of the calls of one group on their times and
// emits the rows.
func (r *levelRun) emitCalls(g int32, out *seriesOut) error {
	l := r.l
	all := make([]*function.Cells, len(r.calls))
	total := 0
	for i, c := range r.calls {
		if c.Type == model.Unknown {
			continue
		}
		if err := r.x.Check(); err != nil {
			return err
		}
		begin := r.x.prof.start()
		cl, err := r.cells(c, g, l.Wanted())
		r.step(c.Key, begin)
		if err != nil {
			return err
		}
		all[i] = cl
		total += len(cl.Times)
	}
	if total == 0 {
		return r.x.Ctx.Err() // a function that was stopped gives nothing
	}
	begin := r.x.prof.start()
	times, perms := joinCells(&r.x.stop, all, l.Asc)
	n := len(times)
	values := make([]expr.Operand, len(l.Calls))
	for i, c := range r.calls {
		var o expr.Operand
		if all[i] != nil {
			o = expr.Operand{Vector: l.Fill.Join(&all[i].Values, perms[i])}
		}
		if o.Vector.Type == model.Unknown {
			o = expr.ScalarOperand(l.Fill.Hole(c.ResultType(), expr.Scalar{}))
		}
		values[i] = o
	}
	var aux []column.Vector
	if cl := all[0]; l.Selector && cl != nil {
		aux = make([]column.Vector, len(l.Refs))
		for i := range cl.Aux {
			aux[i] = l.Fill.Column(cl.Aux[i], n, expr.FieldType(l.Refs[i].Type), new(expr.Scalar))
		}
	}
	cols := r.project(n, aux, nil, func(e *influxql.Call) (expr.Operand, bool) {
		i, ok := l.CallAt[e]
		if !ok {
			return expr.Operand{}, false
		}
		return values[i], true
	})
	shown := times
	if !l.Windows.None() && (times[0] == model.MinTime || times[n-1] == model.MinTime) {
		shown = slices.Clone(times)
		for i, t := range shown {
			if t == model.MinTime {
				shown[i] = 0
			}
		}
	}
	r.step("join, project", begin)
	return out.rows(shown, cols)
}

// rows returns the rows of a group for a call, nil if there are none. Its
// columns are those that the call wants; the first has no null.
func (c *call) rows(g int32) *rowset.Set {
	rs := c.reader.of(g)
	if rs == nil {
		return nil
	}
	part := rs.Pick(c.columns)
	return part.DropNulls()
}

// ties returns the order of rows of equal time that the function sees.
func (c *call) ties() rowset.Ties {
	if c.TagOrder {
		return rowset.BySeries
	}
	return rowset.AsInflux
}

// innermost returns the call that sees the rows.
func (c *call) innermost() *call {
	for c.inner != nil {
		c = c.inner
	}
	return c
}

// callsOf lists the innermost calls that an operator answers.
func (r *levelRun) callsOf(answers func(c *call) bool) string {
	var names []string
	places := map[string]int{}
	for _, c := range r.calls {
		if c = c.innermost(); answers(c) {
			names, _ = expr.Place(names, places, c.Key)
		}
	}
	return strings.Join(names, ", ")
}

// stored returns the columns that targets must have to answer a call, or why aggregates are
// not enough for it.
func (r *levelRun) stored(c *call) (columns []plan.Column, refused string) {
	switch {
	case !r.l.Downsampled():
		return nil, ""
	case c.Alone && len(r.l.Refs) > 0:
		return nil, "other columns of the rows are asked for"
	case r.l.Typed:
		return nil, "the type of a field is asked for"
	case c.Partial == nil:
		return nil, c.Expr.Name + "() needs all rows"
	}
	if _, rest := expr.SplitTags(r.l.Where, expr.IsFieldRef); rest != nil {
		return nil, "a condition is on a field"
	}
	for _, kind := range c.Partial.Slots {
		name := partial.Kinds[kind].Stored
		if name == "" {
			return nil, c.Expr.Name + "() needs all rows"
		}
		columns = append(columns, plan.Column{Function: name, Field: c.Ref.Val})
		if c.Partial.Counted {
			columns = append(columns, plan.Column{Function: partial.Kinds[partial.Count].Stored, Field: c.Ref.Val})
		}
	}
	return columns, ""
}

// targetsWith says which targets have columns, and for which times, so that calls of which it is
// the same can be folded together.
func (r *levelRun) targetsWith(columns []plan.Column, refused string) string {
	if !r.l.Downsampled() || refused != "" {
		return refused
	}
	var out []byte
	for _, src := range r.l.Sources {
		for _, t := range src.Targets() {
			has := byte('+')
			if t.Present && slices.ContainsFunc(columns, plan.Column.Estimates) {
				has = '~'
			}
			for _, c := range columns {
				if !t.Has(c) {
					has = '-'
				}
			}
			out = append(out, has)
		}
	}
	return string(out)
}
