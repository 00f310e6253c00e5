package partial

import (
	"github.com/influxdata/influxql"

	"tsdbd/model"
)

// Stored is a plan over aggregates that were stored, one row for each window of time and
// series. Its states become those of a plan over the rows that they are of.
type Stored struct {
	*Plan
	from []origin // by slot of the other plan
}

// origin says where the state of a slot comes from: a slot of Stored, and for sums the slot
// that counts the values, or -1.
type origin struct{ of, counts int }

// StoredOf returns the plan that is to p what stored aggregates are to rows. column returns
// the name of the column for a function of a field.
func (p *Plan) StoredOf(column func(function, field string) string) *Stored {
	s := &Stored{Plan: NewPlan(p.Range, p.Windows, len(p.Slots))}
	for _, sl := range p.Slots {
		ref := p.Refs[sl.Col]
		add := func(kind, as Kind, typ influxql.DataType, of model.FieldType) int {
			return s.AddSlot(Slot{Kind: as, Type: of, Timed: sl.Timed && as != Sum}, influxql.VarRef{Val: column(Kinds[kind].Stored, ref.Val), Type: typ})
		}
		o := origin{counts: -1}
		switch sl.Kind {
		case Count:
			o.of = add(Count, Sum, influxql.Integer, model.Integer)
		case Sum:
			o.of = add(Sum, Sum, ref.Type, sl.Type)
			o.counts = add(Count, Sum, influxql.Integer, model.Integer)
		default:
			o.of = add(sl.Kind, sl.Kind, ref.Type, sl.Type)
		}
		s.from = append(s.from, o)
	}
	return s
}

// MergeStored adds the states of a table of s. slots are those of t.
func (t *Table) MergeStored(o *Table, s *Stored, slots []Slot) {
	o.each(func(g int32, pg int64, p []State) {
		if t.Stop.After(len(p) / o.slots) {
			return
		}
		for i := 0; i < len(p); i += o.slots {
			from := p[i : i+o.slots]
			var dst []State
			for k := range slots {
				st := from[s.from[k].of]
				switch counts := s.from[k].counts; {
				case st.N == 0:
					continue
				case slots[k].Kind == Count:
					st = State{N: int64(st.A)}
				case counts >= 0 && from[counts].N > 0:
					st.N = int64(from[counts].A)
				case slots[k].Kind == First || slots[k].Kind == Last:
					st.N = 1 // a tie of windows is settled
				}
				if st.N <= 0 {
					continue
				}
				if dst == nil {
					dst = t.At(g, pg<<o.shift+int64(i/o.slots))
				}
				t.MergeState(&dst[k], &st, o, &slots[k])
			}
		}
	})
	t.Bytes += o.Bytes
}
