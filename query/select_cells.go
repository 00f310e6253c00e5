package query

import (
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/result"
)

// joinCells merges the times of cells: rows with one time become one, several
// rows of one call at one time stay apart. perms gives for each call the cell
// of every row, -1 for none; nil means that row i is cell i.
func joinCells(stop *stopper, all []*cells, asc bool) (times []int64, perms [][]int32) {
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
		if !best || stop.after(1) {
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

// pickRows is gather with -1 for a row the call has not: that is null, the
// number of fill(number), or with fill(previous) the value before.
func (l *level) pickRows(v *column.Vector, perm []int32) column.Vector {
	if perm == nil || v.Type == model.Unknown {
		return *v
	}
	out := column.Vector{Type: v.Type}
	fill := scalar{}
	if l.fill == influxql.NumberFill {
		fill = fillScalar(l.fillTo, v.Type)
	}
	prev := int32(-1)
	for _, i := range perm {
		switch {
		case i >= 0:
			prev = i
			out.AppendFrom(v, int(i))
		case prev >= 0 && l.fill == influxql.PreviousFill:
			out.AppendFrom(v, int(prev))
		default:
			appendScalar(&out, fill)
		}
	}
	return out
}

// cells computes one call for one group.
func (r *levelRun) cells(c *call, g int32, limit int) (*cells, error) {
	l := r.l
	var out *cells
	switch {
	case c.scan != nil:
		out = r.slotCells(c, g)
	case c.inner != nil:
		in, err := r.cells(c.inner, g, 0)
		if err != nil {
			return nil, err
		}
		out, err := l.context(c).transform(in)
		if err == nil && !l.win.None() {
			l.cutLookBack(c, out)
		}
		return out, err
	default:
		rs := c.rows(g)
		if rs == nil || len(rs.times) == 0 {
			return &cells{}, nil
		}
		var err error
		x := l.context(c)
		if c.function.rows != nil {
			out, err = c.function.rows(x, rs)
		} else {
			out, err = x.transform(&cells{times: rs.times, v: rs.cols[0]})
		}
		if err != nil {
			return nil, err
		}
	}
	if !c.filled {
		return out, nil
	}
	before := l.beforeFill(c, out)
	if limit > 0 {
		limit = result.AddLimits(limit, before)
	}
	if err := l.fillWindows(r.x, out, c.counts, c.fill, limit); err != nil {
		return nil, err
	}
	if before > 0 {
		for i := range out.aux {
			out.aux[i] = l.fillAux(out.aux[i], len(out.times), out.aux[i].Type, new(scalar))
		}
		*out = out.slice(before, len(out.times))
	}
	return out, nil
}

// beforeFill drops the cells of a call before the windows that are shown, but
// for the last one with a value, from which they are filled. It returns how
// many it leaves.
func (l *level) beforeFill(c *call, cl *cells) int {
	if c.rng == c.fill {
		return 0
	}
	n, keep := 0, 0
	for first := l.win.Start(c.fill.Min); n < len(cl.times) && cl.times[n] < first; n++ {
		if cl.v.IsValid(n) {
			keep = n
		}
	}
	if n == 0 {
		return 0
	}
	*cl = cl.slice(keep, len(cl.times))
	return n - keep
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

// cutLookBack drops the rows a transformation made of windows before the range.
func (l *level) cutLookBack(c *call, cl *cells) {
	if c.inner.fill == c.rng {
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
			out.aux[i].Type = fieldType(ref.Type)
		}
	}
	out.times = make([]int64, 0, r.windows)
	reserve(&out.v, r.windows)
	t.group(g, func(w int64, st []aggState) {
		a, b := &st[c.slots[0]], &st[c.slots[len(c.slots)-1]]
		if a.n == 0 {
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
				appendScalar(&out.aux[i], t.aux[a.b-1][i])
			}
		}
	})
	r.windows = len(out.times)
	if !l.asc && len(out.times) > 1 {
		slices.Reverse(out.times)
		reverseRows(&out.v, len(out.times))
		for i := range out.aux {
			if out.aux[i].Type != model.Unknown {
				reverseRows(&out.aux[i], len(out.times))
			}
		}
	}
	return out
}
