package engine

import (
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/admission"
	"tsdbd/query/engine/function"
	"tsdbd/query/engine/partial"
	"tsdbd/query/expr"
)

// joinCells merges the times of cells: rows with one time become one, several
// rows of one call at one time stay apart. perms gives for each call the cell
// of every row, -1 for none; nil means that row i is cell i.
func joinCells(stop *admission.Stopper, all []*function.Cells, asc bool) (times []int64, perms [][]int32) {
	perms = make([][]int32, len(all))
	var first *function.Cells
	same := true
	for _, c := range all {
		if c == nil {
			continue
		}
		if first == nil {
			first = c
		} else if !slices.Equal(first.Times, c.Times) {
			same = false
		}
	}
	if same {
		return first.Times, perms
	}
	pos := make([]int, len(all))
	for {
		best, at := false, int64(0)
		for i, c := range all {
			if c != nil && pos[i] < len(c.Times) {
				if t := c.Times[pos[i]]; !best || (asc && t < at) || (!asc && t > at) {
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
			if pos[i] < len(c.Times) && c.Times[pos[i]] == at {
				perms[i] = append(perms[i], int32(pos[i]))
				pos[i]++
			} else {
				perms[i] = append(perms[i], -1)
			}
		}
	}
}

// cells computes one call for one group.
func (r *levelRun) cells(c *call, g int32, limit int) (*function.Cells, error) {
	l := r.l
	var out *function.Cells
	switch {
	case c.scan != nil:
		var err error
		if out, err = r.slotCells(c, g); err != nil {
			return nil, err
		}
	case c.inner != nil:
		in, err := r.cells(c.inner, g, 0)
		if err != nil {
			return nil, err
		}
		out, err := c.Transform(in)
		if err == nil && !l.Windows.None() {
			r.cutLookBack(c, out)
		}
		return out, err
	default:
		rs := c.rows(g)
		if rs == nil || len(rs.Times) == 0 {
			return &function.Cells{}, nil
		}
		var err error
		if c.Rows != nil {
			out, err = c.Rows(c.Context, rs)
		} else {
			out, err = c.Transform(&function.Cells{Times: rs.Times, Values: rs.Cols[0]})
		}
		if err != nil {
			return nil, err
		}
	}
	if !c.Filled {
		return out, nil
	}
	return out, l.Fill.Windows(c.Context, out, limit)
}

// cutLookBack drops the rows a transformation made of windows before the range.
func (r *levelRun) cutLookBack(c *call, cl *function.Cells) {
	l := r.l
	if c.inner.Shown == c.Range {
		return
	}
	n := 0
	if first, last := l.Windows.Start(c.Range.Min), l.Windows.Start(c.Range.Max); l.Asc {
		for n < len(cl.Times) && cl.Times[n] < first {
			n++
		}
	} else {
		for n < len(cl.Times) && cl.Times[n] > last {
			n++
		}
	}
	if n > 0 {
		*cl = cl.Slice(n, len(cl.Times))
	}
}

// slotCells finishes the partial aggregates of a group.
func (r *levelRun) slotCells(c *call, g int32) (out *function.Cells, err error) {
	l, t := r.l, c.scan.Table
	out = &function.Cells{}
	out.Values.Type = c.Result(c.Type)
	if c.Alone {
		out.Aux = make([]column.Vector, len(l.Refs))
		for i, ref := range l.Refs {
			out.Aux[i].Type = expr.FieldType(ref.Type)
		}
	}
	out.Times = make([]int64, 0, r.windows)
	expr.Reserve(&out.Values, r.windows)
	t.Group(g, func(w int64, st []partial.State) {
		a, b := &st[c.slots[0]], &st[c.slots[len(c.slots)-1]]
		if a.N == 0 || err != nil {
			return
		}
		if c.Partial.List != nil {
			sl := &c.scan.Slots[c.slots[0]]
			if err = c.Grow(t.ListBytes(a, sl)); err != nil {
				return
			}
			c.Partial.List(c.Context, t, sl, a, c.At(c.scan.StartOf(w)), out)
			return
		}
		if c.Alone && l.Windows.None() {
			out.Times = append(out.Times, a.T)
		} else {
			out.Times = append(out.Times, c.At(c.scan.StartOf(w)))
		}
		if c.Partial.Value != nil {
			c.Partial.Value(&out.Values, c.Type, a, b)
			return
		}
		if c.Type == model.String {
			out.Values.Strings = append(out.Values.Strings, t.Texts[a.A])
		} else {
			out.Values.AppendWord(a.A, nil)
		}
		for i := range out.Aux {
			if out.Aux[i].Type != model.Unknown {
				expr.AppendScalar(&out.Aux[i], t.Aux[a.B-1][i])
			}
		}
	})
	r.windows = len(out.Times)
	if !l.Asc && len(out.Times) > 1 {
		slices.Reverse(out.Times)
		expr.ReverseRows(&out.Values, len(out.Times))
		for i := range out.Aux {
			if out.Aux[i].Type != model.Unknown {
				expr.ReverseRows(&out.Aux[i], len(out.Times))
			}
		}
	}
	return out, err
}
