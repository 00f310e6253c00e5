package engine

import (
	"github.com/influxdata/influxql"
	"tsdbd/query/engine/read"
	"tsdbd/query/engine/rowset"
)

// settleTies chooses anew for the groups in which rows of several series compete
// for first or last at one time. Without windows InfluxDB does not compare them
// all: it takes the first row of its merge of the series, oldest or newest first,
// and the larger value where the second one has the same time. That is per shard,
// and of fewer than manySeries. Among the rows of subqueries the largest stays.
func (r *levelRun) settleTies(p *aggPlan) error {
	if !p.win.None() || r.l.hasSubs() {
		return nil
	}
	for i := range p.slots {
		sl := p.slots[i]
		if sl.kind != slotFirst && sl.kind != slotLast {
			continue
		}
		open := make([]bool, len(r.groups.Names))
		any := false
		for g := range open {
			p.table.group(int32(g), func(_ int64, st []aggState) {
				open[g] = st[i].n == tied
			})
			any = any || open[g]
		}
		if !any {
			continue
		}
		for _, u := range r.units {
			sizes := u.Sizes(u.Series)
			for j, g := range u.Groups {
				if g >= 0 && sizes[j] >= rowset.ManySeries {
					open[g] = false
				}
			}
		}
		if err := r.settle(p, i, open); err != nil {
			return err
		}
	}
	return nil
}

// settle reads the first rows of the open groups for a slot of a plan.
func (r *levelRun) settle(p *aggPlan, slotAt int, open []bool) error {
	sl := p.slots[slotAt]
	refs := append([]influxql.VarRef{p.refs[sl.col]}, p.refs[len(p.refs)-p.aux:]...)
	sl.col = 0
	one := &aggPlan{refs: refs, slots: []slot{sl}, rng: p.rng, win: p.win, aux: p.aux, keyed: p.keyed}
	one.table = newAggTable(1, true, 0, 0)
	w := newAggWorker(r.x.Budget, one, p.rng, one.table)
	for _, u := range r.units {
		m, bytes, err := r.x.Rows(u, read.Request{
			Refs: refs, Range: p.rng, Asc: sl.kind == slotFirst, Limit: 1, Ties: rowset.AsInfluxChosen, Counts: p.did,
			Want: func(g int32) bool { return open[g] },
		})
		if err != nil {
			return err
		}
		for g, rs := range m {
			st := &one.table.at(g, 0)[0]
			w.times = rs.Times
			for row := range min(2, len(rs.Times)) {
				if rs.Times[row] == rs.Times[0] {
					w.offer(st, &one.slots[0], &rs.Cols[0], row, rs.Cols)
				}
			}
		}
		r.x.Used.Add(-bytes)
	}
	held := p.table.bytes
	for g := range open {
		one.table.group(int32(g), func(_ int64, st []aggState) {
			if st[0].n == 0 {
				return
			}
			d := &p.table.at(int32(g), 0)[slotAt]
			d.n = 0
			p.table.mergeState(d, &st[0], one.table, sl)
		})
	}
	return r.x.Grow(one.table.bytes + p.table.bytes - held)
}
