package partial

import (
	"github.com/influxdata/influxql"

	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/query/expr"
)

// StoredOf returns the plan that is to p what stored aggregates, one row for each window of
// time and series, are to the rows that they are of. It folds them into the same states.
// column returns the name of the column for a function of a field.
func (p *Plan) StoredOf(column func(function, field string) string) *Plan {
	s := NewPlan(p.Range, p.Windows, len(p.Slots))
	for _, sl := range p.Slots {
		ref := p.Refs[sl.Col]
		place := func(kind Kind, typ influxql.DataType) (at int) {
			s.Refs, at = expr.Place(s.Refs, s.refAt, influxql.VarRef{Val: column(Kinds[kind].Stored, ref.Val), Type: typ})
			return at
		}
		if sl.Kind == Count || sl.Kind == Sum {
			sl.Counts = place(Count, influxql.Integer) + 1
		}
		switch sl.Kind {
		case Count:
			sl.Col = sl.Counts - 1
		case Increase: // of steps nothing but their sum is stored
			sl.Kind, sl.Timed, sl.Col = Sum, false, place(Increase, ref.Type)
		case Sketch: // a text has a sketch, and the time of one that is damaged is told
			sl.Kind, sl.Type, sl.Timed, sl.Col = Union, model.String, true, place(Sketch, influxql.String)
		case Ranks:
			sl.Kind, sl.Type, sl.Timed, sl.Col = QuantileUnion, model.String, true, place(Ranks, influxql.String)
		default:
			sl.Col = place(sl.Kind, ref.Type)
		}
		s.Slots = append(s.Slots, sl)
	}
	return s
}

// addCounts adds to the numbers of values of a slot, in every cut of a chunk, what the rows
// stand for beside the one value that each was counted as. A row without a count stands for
// one. dense says that all rows have a value of the slot.
func (w *Worker) addCounts(slot int, dense bool) {
	sl := &w.p.Slots[slot]
	if sl.Counts == 0 || !w.rd.Columns.Out[sl.Col].HasValues() {
		return
	}
	rows := w.cuts[len(w.cuts)-1].hi
	b, st := &w.rd.Columns.Out[sl.Counts-1], &w.counts
	if dense && b.Index >= 0 && !b.Cast && w.rd.Sum(b.Index, st) && st.Count == rows {
		if one := &w.cuts[0]; one.rows == rows {
			one.st[slot].N += int64(st.Sum) - int64(rows)
			return
		}
		if st.Min == st.Max {
			w.countCuts(slot, int64(st.Min)-1)
			return
		}
	}
	counts := w.rd.Output(sl.Counts - 1)
	if counts.Type != model.Integer {
		return
	}
	values := w.rd.Output(sl.Col)
	for i := range w.cuts {
		c := &w.cuts[i]
		if dense && counts.Valid == nil {
			sums := w.runs.ints[:len(c.st)/w.t.slots]
			vector.SumIntRuns(sums, counts.Ints[c.lo:c.hi], c.rows)
			for k, sum := range sums {
				c.st[slot+k*w.t.slots].N += sum - int64(c.rows)
			}
			continue
		}
		for row := c.lo; row < c.hi; row++ {
			if counts.IsValid(row) && values.IsValid(row) {
				c.st[slot+(row-c.lo)/c.rows*w.t.slots].N += counts.Ints[row] - 1
			}
		}
	}
}
