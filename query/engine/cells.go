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
	if c.lent != nil {
		out.Times, out.Values = c.lent.Times, c.lent.Values
	}
	out.Values.Reset(c.Result(c.Type))
	if c.Alone {
		out.Aux = make([]column.Vector, len(l.Refs))
		for i, ref := range l.Refs {
			out.Aux[i].Type = expr.FieldType(ref.Type)
		}
	}
	out.Times = slices.Grow(out.Times[:0], r.windows)
	expr.Reserve(&out.Values, r.windows)
	w := partial.Windows{Slots: len(c.scan.Slots), Of: c.slots[0], With: c.slots[len(c.slots)-1]}
	t.Pages(g, func(first int64, page []partial.State) {
		w.Page = page
		n := len(out.Times)
		out.Times = c.scan.AppendStarts(out.Times, first, w)
		if starts := out.Times[n:]; l.Windows.None() && len(starts) > 0 {
			if starts[0] = c.At(starts[0]); c.Alone && c.Partial.List == nil {
				starts[0] = page[w.Of].T // of the chosen row
			}
		}
		switch {
		case err != nil:
		case c.Partial.List != nil:
			starts := slices.Clone(out.Times[n:])
			out.Times = out.Times[:n]
			err = c.listCells(out, w, starts)
		case c.Partial.Value != nil:
			c.Partial.Value(&out.Values, c.Type, w)
		default:
			c.chosenCells(out, w)
		}
	})
	r.windows = len(out.Times)
	if r.lent {
		c.lent = &function.Cells{Times: out.Times, Values: out.Values}
	}
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

// listCells appends the cells of windows that may have several each.
func (c *call) listCells(out *function.Cells, w partial.Windows, starts []int64) error {
	t, sl := c.scan.Table, &c.scan.Slots[w.Of]
	for a := range w.Present() {
		if err := c.Grow(t.ListBytes(a, sl)); err != nil {
			return err
		}
		c.Partial.List(c.Context, t, sl, a, starts[0], out)
		starts = starts[1:]
	}
	return nil
}

// chosenCells appends the values that a selector has chosen, and the other columns of their
// rows.
func (c *call) chosenCells(out *function.Cells, w partial.Windows) {
	t, v := c.scan.Table, &out.Values
	for a := range w.Present() {
		switch {
		case c.Type == model.Float:
			v.Floats = append(v.Floats, partial.FloatOf(a.A))
		case c.Type == model.String:
			v.Strings = append(v.Strings, t.Texts[a.A])
		default:
			v.AppendWord(a.A, nil)
		}
		for i := range out.Aux {
			if out.Aux[i].Type != model.Unknown {
				expr.AppendScalar(&out.Aux[i], t.Aux[a.B-1][i])
			}
		}
	}
}
