package engine

import (
	"math/rand/v2"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/engine/function"
	"tsdbd/query/engine/partial"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
)

// call is a call of the level under way.
type call struct {
	*levelCall
	inner   *call
	slots   []int // of scan
	scan    *partial.Plan
	columns []int // of the reader, for a call that wants rows
	reader  *reader
}

func newCall(c *levelCall) *call {
	if c == nil {
		return nil
	}
	return &call{levelCall: c, inner: newCall(c.inner)}
}

// layout gives the level the operators that its select list needs.
func (r *levelRun) layout() {
	l := r.l
	for _, lc := range l.calls {
		c := newCall(lc)
		r.calls = append(r.calls, c)
		if c.typ != model.Unknown {
			r.place(c)
		}
	}
	if len(l.calls) == 0 && slices.ContainsFunc(l.refs, func(r influxql.VarRef) bool { return r.Type != influxql.Unknown }) {
		r.operators = []operator{&reader{refs: l.refs, rng: l.rng, ties: rowset.AsInfluxRows, limit: l.wanted(), pieces: true}}
	}
}

// place gives a call, or the aggregate under it, to an operator: a folder, or a
// reader if it wants rows.
func (r *levelRun) place(c *call) {
	if c.inner != nil {
		r.place(c.inner)
		return
	}
	l := r.l
	if c.Partial == nil {
		refs := []influxql.VarRef{c.ref}
		if c.alone {
			refs = append(refs, l.refs...)
		}
		c.reader = r.reader(c)
		for _, ref := range refs {
			var i int
			c.reader.refs, i = expr.AddRef(c.reader.refs, ref)
			c.columns = append(c.columns, i)
		}
		return
	}
	p := r.folder(c).Plan
	c.scan = p
	tags := tagArgs(c.expr)
	for _, kind := range c.Partial.Slots {
		sl := partial.Slot{Kind: kind, Type: c.typ, Timed: c.Partial.Timed || c.alone && (len(l.refs) > 0 || l.win.None())}
		if c.Partial.As != model.Unknown {
			sl.Type = c.Partial.As
		}
		switch kind {
		case partial.Sample:
			sl.Seed = rand.Uint64()
			p.Keyed = true
			fallthrough
		case partial.Top, partial.Bottom:
			sl.N, sl.Unique, sl.Tags = function.IntArg(c.expr, len(c.expr.Args)-1), len(c.expr.Args) > 2, len(tags)
		}
		c.slots = append(c.slots, p.AddSlot(sl, c.ref))
	}
	if c.alone {
		p.Refs = append(append(p.Refs, tags...), l.refs...)
		p.Aux = len(tags) + len(l.refs)
		p.Keyed = p.Keyed || p.Aux > 0
	}
}

// tagArgs returns the tags that top or bottom name. Fields tell no rows apart.
func tagArgs(e *influxql.Call) (tags []influxql.VarRef) {
	if function.IsTop(e.Name) {
		for _, a := range e.Args[1 : len(e.Args)-1] {
			if ref, ok := a.(*influxql.VarRef); ok && !expr.IsFieldRef(ref) {
				tags = append(tags, *ref)
			}
		}
	}
	return tags
}

// folder returns the folder for a call.
func (r *levelRun) folder(c *call) *folder {
	for _, o := range r.operators {
		if f, ok := o.(*folder); ok && f.Range == c.rng {
			return f
		}
	}
	f := &folder{Plan: &partial.Plan{Range: c.rng, Windows: &r.l.win}}
	r.operators = append(r.operators, f)
	return f
}

// reader returns the reader for a call.
func (r *levelRun) reader(c *call) *reader {
	ofTags := c.ref.Type == influxql.Tag
	for _, o := range r.operators {
		rd, ok := o.(*reader)
		// Rows that only another field has would change InfluxDB's order.
		if ok && rd.rng == c.rng && rd.ties == c.ties() && rd.ofTags == ofTags && (rd.ties == rowset.BySeries || rd.refs[0] == c.ref) {
			return rd
		}
	}
	rd := &reader{rng: c.rng, ties: c.ties(), ofTags: ofTags}
	r.operators = append(r.operators, rd)
	return rd
}

// emitCalls joins the cells of the calls of one group on their times and
// emits the rows.
func (r *levelRun) emitCalls(g int32, out *seriesOut) error {
	l := r.l
	all := make([]*function.Cells, len(r.calls))
	total := 0
	for i, c := range r.calls {
		if c.typ == model.Unknown {
			continue
		}
		begin := r.x.prof.start()
		cl, err := r.cells(c, g, l.wanted())
		r.x.prof.step(r, c.key, begin)
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
	times, perms := joinCells(&r.x.stop, all, l.asc)
	n := len(times)
	values := make([]expr.Operand, len(l.calls))
	for i, c := range r.calls {
		var o expr.Operand
		if all[i] != nil {
			o = expr.Operand{Vector: l.fill.Join(&all[i].Values, perms[i])}
		}
		if o.Vector.Type == model.Unknown {
			o = expr.ScalarOperand(l.fill.Hole(c.resultType(), expr.Scalar{}))
		}
		values[i] = o
	}
	var aux []column.Vector
	if cl := all[0]; l.selector && cl != nil {
		aux = make([]column.Vector, len(l.refs))
		for i := range cl.Aux {
			aux[i] = l.fill.Column(cl.Aux[i], n, expr.FieldType(l.refs[i].Type), new(expr.Scalar))
		}
	}
	cols := r.project(n, aux, nil, func(e *influxql.Call) (expr.Operand, bool) {
		i, ok := l.callAt[e]
		if !ok {
			return expr.Operand{}, false
		}
		return values[i], true
	})
	shown := times
	if !l.win.None() && (times[0] == model.MinTime || times[n-1] == model.MinTime) {
		shown = slices.Clone(times)
		for i, t := range shown {
			if t == model.MinTime {
				shown[i] = 0
			}
		}
	}
	r.x.prof.step(r, "join, project", begin)
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
