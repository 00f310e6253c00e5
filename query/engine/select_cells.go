package engine

import (
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/admission"
	"tsdbd/query/expr"
)

// joinCells merges the times of cells: rows with one time become one, several
// rows of one call at one time stay apart. perms gives for each call the cell
// of every row, -1 for none; nil means that row i is cell i.
func joinCells(stop *admission.Stopper, all []*cells, asc bool) (times []int64, perms [][]int32) {
	perms = make([][]int32, len(all))
	var first *cells
	same := true
	for _, c := range all {
		if c == nil {
			continue
		}
		if first == nil {
			first = c
		} else if !slices.Equal(first.times, c.times) {
			same = false
		}
	}
	if same {
		return first.times, perms
	}
	pos := make([]int, len(all))
	for {
		best, at := false, int64(0)
		for i, c := range all {
			if c != nil && pos[i] < len(c.times) {
				if t := c.times[pos[i]]; !best || (asc && t < at) || (!asc && t > at) {
					best, at = true, t
				}
			}
		}
		if !best || stop.After(1) {
			return times, perms
		}
		times = append(times, at)
		for i, c := range all {
			if c == nil {
				continue
			}
			if pos[i] < len(c.times) && c.times[pos[i]] == at {
				perms[i] = append(perms[i], int32(pos[i]))
				pos[i]++
			} else {
				perms[i] = append(perms[i], -1)
			}
		}
	}
}

// cells computes one call for one group.
func (r *levelRun) cells(c *call, g int32, limit int) (*cells, error) {
	l := r.l
	x := l.context(c)
	var out *cells
	switch {
	case c.scan != nil:
		out = r.slotCells(c, g)
	case c.inner != nil:
		in, err := r.cells(c.inner, g, 0)
		if err != nil {
			return nil, err
		}
		out, err := x.transform(in)
		if err == nil && !l.win.None() {
			l.cutLookBack(c, out)
		}
		return out, err
	default:
		rs := c.rows(g)
		if rs == nil || len(rs.Times) == 0 {
			return &cells{}, nil
		}
		var err error
		if c.function.rows != nil {
			out, err = c.function.rows(x, rs)
		} else {
			out, err = x.transform(&cells{times: rs.Times, v: rs.Cols[0]})
		}
		if err != nil {
			return nil, err
		}
	}
	if !c.filled {
		return out, nil
	}
	return out, l.fill.windows(x, out, limit)
}

// cutLookBack drops the rows a transformation made of windows before the range.
func (l *level) cutLookBack(c *call, cl *cells) {
	if c.inner.shown == c.rng {
		return
	}
	n := 0
	if first, last := l.win.Start(c.rng.Min), l.win.Start(c.rng.Max); l.asc {
		for n < len(cl.times) && cl.times[n] < first {
			n++
		}
	} else {
		for n < len(cl.times) && cl.times[n] > last {
			n++
		}
	}
	if n > 0 {
		*cl = cl.slice(n, len(cl.times))
	}
}

// slotCells finishes the partial aggregates of a group.
func (r *levelRun) slotCells(c *call, g int32) *cells {
	l, t, x := r.l, c.scan.table, r.l.context(c)
	out := &cells{}
	out.v.Type = c.result(c.typ)
	if c.alone {
		out.aux = make([]column.Vector, len(l.refs))
		for i, ref := range l.refs {
			out.aux[i].Type = expr.FieldType(ref.Type)
		}
	}
	out.times = make([]int64, 0, r.windows)
	expr.Reserve(&out.v, r.windows)
	t.group(g, func(w int64, st []aggState) {
		a, b := &st[c.slots[0]], &st[c.slots[len(c.slots)-1]]
		if a.n == 0 {
			return
		}
		if c.partial.list != nil {
			c.partial.list(x, t, &c.scan.slots[c.slots[0]], a, x.at(c.scan.startOf(w)), out)
			return
		}
		if c.alone && l.win.None() {
			out.times = append(out.times, a.t)
		} else {
			out.times = append(out.times, x.at(c.scan.startOf(w)))
		}
		if c.partial.value != nil {
			c.partial.value(&out.v, c.typ, a, b)
			return
		}
		if c.typ == model.String {
			out.v.Strings = append(out.v.Strings, t.strs[a.a])
		} else {
			out.v.AppendWord(a.a, nil)
		}
		for i := range out.aux {
			if out.aux[i].Type != model.Unknown {
				expr.AppendScalar(&out.aux[i], t.aux[a.b-1][i])
			}
		}
	})
	r.windows = len(out.times)
	if !l.asc && len(out.times) > 1 {
		slices.Reverse(out.times)
		expr.ReverseRows(&out.v, len(out.times))
		for i := range out.aux {
			if out.aux[i].Type != model.Unknown {
				expr.ReverseRows(&out.aux[i], len(out.times))
			}
		}
	}
	return out
}

// context returns what the code of a function sees of a call.
func (l *level) context(c *call) *callContext {
	return &callContext{
		function: c.function, expr: c.expr, typ: c.typ, alone: c.alone, rng: c.rng, shown: c.shown,
		win: &l.win, asc: l.asc, open: l.open, span: l.rng, aux: len(l.refs), stop: &l.x.stop, grow: l.x.Grow,
	}
}
