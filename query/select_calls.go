package query

import (
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
)

// callRun executes the aggregates of one level.
type callRun struct {
	x        *exec
	l        *level
	t        *groupTable
	us       []*unit
	plans    []*aggPlan
	readings []*reading // for calls that want rows

	windows int // cells of the group and call before: the next one has about as many
}

// runCalls executes a statement with aggregates.
func (x *exec) runCalls(l *level, emit func(*frame) error) error {
	r := &callRun{x: x, l: l, t: &groupTable{}}
	any := false
	for _, c := range l.calls {
		if c.typ != model.Unknown {
			any = true
			r.place(c)
		}
	}
	if !any {
		return nil
	}
	var err error
	if r.us, err = l.units(x, r.t, l.read); err != nil {
		return err
	}
	begin := x.prof.start()
	for _, p := range r.plans {
		if err := r.aggregate(p); err != nil {
			return err
		}
		if err := r.settleTies(p); err != nil {
			return err
		}
	}
	x.prof.add(l, "aggregate", begin)
	if err := r.subqueries(); err != nil {
		return err
	}
	order := r.t.order(l.asc)
	for _, batch := range batches(order) {
		before := x.used.Load()
		begin := x.prof.start()
		for _, rd := range r.readings {
			if err := rd.read(r, batch); err != nil {
				return err
			}
		}
		if len(r.readings) > 0 {
			x.prof.add(l, "read rows", begin)
		}
		for _, g := range batch {
			if err := x.check(); err != nil {
				return err
			}
			held := x.used.Load()
			if err := r.emitGroup(g, emit); err != nil {
				return err
			}
			x.used.Store(held)
		}
		x.used.Store(before)
	}
	return nil
}

// place puts a call, or the aggregate under it, into a plan or among those
// that want rows.
func (r *callRun) place(c *call) {
	if c.inner != nil {
		r.place(c.inner)
		return
	}
	if c.partial == nil {
		refs := []influxql.VarRef{c.ref}
		if isTop(c.expr.Name) {
			for _, a := range c.expr.Args[1 : len(c.expr.Args)-1] {
				if ref, ok := a.(*influxql.VarRef); ok {
					refs = append(refs, *ref)
				}
			}
		}
		if c.alone {
			refs = append(refs, r.l.refs...)
		}
		c.reading = r.reading(c)
		for _, ref := range refs {
			var i int
			c.reading.refs, i = refColumn(c.reading.refs, ref)
			c.columns = append(c.columns, i)
		}
		return
	}
	var p *aggPlan
	for _, q := range r.plans {
		if q.rng == c.rng {
			p = q
		}
	}
	if p == nil {
		p = &aggPlan{rng: c.rng, win: &r.l.win}
		r.plans = append(r.plans, p)
	}
	c.scan = p
	typ := c.typ
	if c.partial.as != model.Unknown {
		typ = c.partial.as
	}
	for _, kind := range c.partial.slots {
		c.slots = append(c.slots, p.addSlot(kind, c.ref, typ))
	}
	if c.alone {
		p.aux = len(r.l.refs)
		p.times = p.aux > 0 || r.l.win.None()
		p.refs = append(p.refs, r.l.refs...)
	}
}

// subqueries runs the subquery sources, once, and feeds what they give to the
// plans and the readings.
func (r *callRun) subqueries() error {
	l := r.l
	var refs []influxql.VarRef
	columns := func(want []influxql.VarRef) []int {
		cols := make([]int, len(want))
		for i := range want {
			refs, cols[i] = refColumn(refs, want[i])
		}
		return cols
	}
	planned := make([][]int, len(r.plans))
	workers := make([]*aggWorker, len(r.plans))
	for i, p := range r.plans {
		planned[i] = columns(p.refs)
		workers[i] = newAggWorker(r.x, p, p.rng, p.table)
	}
	read := make([][]int, len(r.readings))
	for i, rd := range r.readings {
		read[i] = columns(rd.refs)
	}
	return r.x.eachSub(l, r.t, refs, func(g int32, rs *rowset) error {
		for i, p := range r.plans {
			part := l.within(rs, p.rng).pick(planned[i])
			if err := r.fold(p, workers[i], g, &part); err != nil {
				return err
			}
		}
		for i, rd := range r.readings {
			part := l.within(rs, rd.rng).pick(read[i])
			rd.subs[g] = append(rd.subs[g], part)
			if err := r.x.keep(part.bytes()); err != nil {
				return err
			}
		}
		return nil
	})
}

// fold adds rows of a subquery to a plan.
func (r *callRun) fold(p *aggPlan, w *aggWorker, g int32, rs *rowset) error {
	l := r.l
	if !l.asc {
		c := rowset{times: slices.Clone(rs.times), cols: make([]column.Vector, len(rs.cols))}
		for i := range rs.cols {
			extend(&c.cols[i], 0, &rs.cols[i], 0, len(rs.times))
		}
		c.reverse()
		rs = &c
	}
	if l.win.Loc != nil && len(p.starts) == 0 {
		return errTooManyWindows
	}
	w.foldTable(g, rs.times, rs.cols)
	if w.t.bytes > 1<<16 {
		n := w.t.bytes
		w.t.bytes = 0
		return r.x.keep(n)
	}
	return nil
}

// emitGroup joins the cells of the calls of one group on their times and
// emits the rows.
func (r *callRun) emitGroup(g int32, emit func(*frame) error) error {
	l := r.l
	out := l.seriesOut(r.t, g, emit)
	all := make([]*cells, len(l.calls))
	total := 0
	for i, c := range l.calls {
		if c.typ == model.Unknown {
			continue
		}
		begin := r.x.prof.start()
		cl, err := r.cells(c, g, l.wanted())
		r.x.prof.add(l, c.key, begin)
		if err != nil {
			return err
		}
		all[i] = cl
		total += len(cl.times)
	}
	if total == 0 {
		return r.x.ctx.Err() // a function that was stopped gives nothing
	}
	begin := r.x.prof.start()
	times, perms := joinCells(&r.x.stop, all, l.asc)
	n := len(times)
	values := make([]operand, len(l.calls))
	for i, c := range l.calls {
		var o operand
		if all[i] != nil {
			o = operand{v: l.pickRows(&all[i].v, perms[i])}
		}
		if o.v.Type == model.Unknown {
			o = null()
			if t := c.resultType(); l.fill == influxql.NumberFill && t != model.Unknown {
				o = scalarOperand(fillScalar(l.fillTo, t))
			}
		}
		values[i] = o
	}
	var aux []column.Vector
	if cl := all[0]; l.selector && cl != nil {
		aux = make([]column.Vector, len(l.refs))
		for i := range cl.aux {
			aux[i] = l.fillAux(cl.aux[i], n, fieldType(l.refs[i].Type), new(scalar))
		}
	}
	cols := l.project(n, aux, nil, func(e *influxql.Call) (operand, bool) {
		i, ok := l.callAt[e]
		if !ok {
			return operand{}, false
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
	r.x.prof.add(l, "join, project", begin)
	return out.rows(shown, cols)
}
