package engine

import (
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/query/engine/partial"
	"tsdbd/query/engine/read"
	"tsdbd/query/engine/rowset"
)

// settleTies chooses the rows of first and last again in groups where rows of several
// series have the first or last time. Without windows InfluxDB does not compare all
// of them. It takes the first row of its merge of the series in a shard, oldest or
// newest first. If the second row has the same time, it takes the larger of the two
// values. Groups of rowset.ManySeries or more, and rows of subqueries, keep the
// largest value.
func (f *folder) settleTies() error {
	r, p := f.r, f.Plan
	if !p.Windows.None() || r.l.HasSubs() {
		return nil
	}
	for i := range p.Slots {
		sl := p.Slots[i]
		if sl.Kind != partial.First && sl.Kind != partial.Last {
			continue
		}
		open := make([]bool, len(r.groups.Names))
		any := false
		for g := range open {
			p.Table.Group(int32(g), func(_ int64, st []partial.State) {
				open[g] = st[i].N == partial.Tied && !f.isStored(int32(g), st[i].T)
			})
			any = any || open[g]
		}
		if !any {
			continue
		}
		for _, u := range f.units {
			sizes := u.Sizes(u.Series)
			for j, g := range u.Groups {
				if g >= 0 && sizes[j] >= rowset.ManySeries {
					open[g] = false
				}
			}
		}
		if err := f.settle(i, open); err != nil {
			return err
		}
	}
	return nil
}

// isStored reports whether rows of a group at a time are those of a target.
func (f *folder) isStored(g int32, at int64) bool {
	return slices.ContainsFunc(f.storedUnits, func(u *read.Unit) bool { return u.Range.Contains(at) && slices.Contains(u.Groups, g) })
}

// settle reads the first rows of the open groups for a slot.
func (f *folder) settle(slotAt int, open []bool) error {
	r, p := f.r, f.Plan
	sl := p.Slots[slotAt]
	refs := append([]influxql.VarRef{p.Refs[sl.Col]}, p.Refs[len(p.Refs)-p.Aux:]...)
	sl.Col = 0
	one := &partial.Plan{Refs: refs, Slots: []partial.Slot{sl}, Range: p.Range, Windows: p.Windows, Aux: p.Aux, Keyed: p.Keyed}
	one.Table = partial.NewTable(1, true, 0, 0)
	w := partial.NewWorker(r.x.Budget, one, p.Range, one.Table)
	for _, u := range f.units {
		m, bytes, err := r.x.Rows(u, read.Request{
			Refs: refs, Range: p.Range, Asc: sl.Kind == partial.First, Limit: 1, Ties: rowset.AsInfluxChosen, Counts: p.Did,
			Want: func(g int32) bool { return open[g] },
		})
		if err != nil {
			return err
		}
		for g, rs := range m {
			st := &one.Table.At(g, 0)[0]
			w.Times = rs.Times
			for row := range min(2, len(rs.Times)) {
				if rs.Times[row] == rs.Times[0] {
					w.Offer(st, &one.Slots[0], &rs.Cols[0], row, rs.Cols)
				}
			}
		}
		r.x.Used.Add(-bytes)
	}
	held := p.Table.Bytes
	for g := range open {
		one.Table.Group(int32(g), func(_ int64, st []partial.State) {
			if st[0].N == 0 {
				return
			}
			d := &p.Table.At(int32(g), 0)[slotAt]
			d.N = 0
			p.Table.MergeState(d, &st[0], one.Table, &sl)
		})
	}
	return r.x.Grow(one.Table.Bytes + p.Table.Bytes - held)
}
