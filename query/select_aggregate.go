package query

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/model"
)

// direction returns -1 if the newest values alone answer a plan, 1 if the
// oldest do, else 0.
func (p *aggPlan) direction() int {
	if !p.win.None() {
		return 0
	}
	dir := 0
	for _, s := range p.slots {
		d := 0
		switch s.kind {
		case slotFirst:
			d = 1
		case slotLast:
			d = -1
		}
		if d == 0 || (dir != 0 && d != dir) {
			return 0
		}
		dir = d
	}
	if len(p.slots) > 1 {
		return 0
	}
	return dir
}

// task is a set of series of a unit that one worker folds.
type task struct {
	u   *unit
	cs  *columnSet
	set *roaring.Bitmap
}

// aggregate walks the measurement sources for one plan.
func (r *callRun) aggregate(p *aggPlan) error {
	x := r.x
	bounds := model.TimeRange{Min: model.MaxTime, Max: model.MinTime}
	for _, u := range r.us {
		if b, ok := u.shard.TimeBounds(nil); ok {
			bounds = bounds.Union(b.Intersect(u.shard.TimeRange()))
		} else {
			bounds = bounds.Union(u.shard.TimeRange())
		}
	}
	for _, s := range r.l.sources {
		if s.sub != nil {
			bounds = model.AllTime
		}
	}
	bounds = bounds.Intersect(p.rng)
	if bounds.Empty() {
		bounds = model.TimeRange{Min: p.rng.Min, Max: p.rng.Min}
	}
	if p.win.Loc != nil && (bounds.Min < -1<<62 || bounds.Max > 1<<62) {
		// Zones have no meaning there, and their tables no end.
		bounds = bounds.Intersect(model.TimeRange{Min: -1 << 62, Max: 1 << 62})
	}
	first, last, err := p.prepare(bounds)
	if err != nil {
		return err
	}
	newTable := func() *aggTable {
		t := newAggTable(len(p.slots), p.win.None(), first, last)
		t.desc = !r.l.asc
		return t
	}
	dir := p.direction()
	if dir != 0 {
		return r.aggregateEnds(p, dir, newTable)
	}
	work := make([][]task, x.workers)
	spread, used := 0, 1 // the workers that get something are the first ones
	for _, u := range r.us {
		cs, ok := u.bind(p.refs)
		if !ok || !u.shard.TimeRange().Overlaps(p.rng) || !p.bound(cs) {
			continue
		}
		ps := parts(u.set, x.workers)
		if len(ps) == 1 {
			work[spread%x.workers] = append(work[spread%x.workers], task{u, cs, ps[0]})
			used = max(used, min(spread+1, x.workers))
			spread++
			continue
		}
		used = max(used, len(ps))
		for i := range ps {
			work[i] = append(work[i], task{u, cs, ps[i]})
		}
	}
	fold := func(rng model.TimeRange) error {
		tables := make([]*aggTable, used)
		err := x.parallel(used, func(i int) error {
			tables[i] = newTable()
			if i == 0 && p.table != nil {
				tables[i] = p.table
			}
			w := newAggWorker(x, p, rng, tables[i])
			for _, t := range work[i] {
				if !t.u.shard.TimeRange().Overlaps(rng) {
					continue // not of the first windows
				}
				if err := w.scanPart(t.u, t.cs, t.set, 0); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return r.mergeTables(p, tables)
	}
	rest := p.rng
	for _, n := range r.firstWindows(p, bounds) {
		head := rest
		if head.Max = p.startOf(first+n) - 1; head.Max >= rest.Max {
			break
		}
		if err := fold(head); err != nil || r.enough(p, head.Max) {
			return err
		}
		rest.Min = head.Max + 1
	}
	return fold(rest)
}

// firstWindows returns after how many windows, counted from the first, to look
// whether LIMIT is satisfied; nil where all windows have to be folded. There are
// few looks, as each costs a walk over the series.
func (r *callRun) firstWindows(p *aggPlan, bounds model.TimeRange) []int64 {
	l, n := r.l, int64(r.l.wanted())
	switch {
	case n == 0 || n > 1<<16 || !l.asc || p.win.None() || p.win.Loc != nil,
		l.fill == influxql.LinearFill, // needs the value after
		l.back > 0,
		len(r.plans) != 1 || len(r.readings) > 0,
		slices.ContainsFunc(l.sources, func(s *source) bool { return s.sub != nil }),
		slices.ContainsFunc(l.calls, func(c *call) bool { return c.scan == nil && c.typ != model.Unknown }),
		bounds.Min < -1<<61 || bounds.Max > 1<<61,
		(bounds.Max-bounds.Min)/p.win.Every < 4*n:
		return nil
	}
	return []int64{n + 1, 16 * (n + 1)}
}

// enough reports whether the windows up to the time upTo give every group all
// rows that LIMIT leaves of it.
func (r *callRun) enough(p *aggPlan, upTo int64) bool {
	l, n := r.l, r.l.wanted()
	defer func() { p.table.byGroup = nil }() // windows may still come into it
	seen := make([]bool, len(p.slots))
	for g := range r.t.names {
		rows, first, met := 0, int64(model.MaxTime), 0
		clear(seen)
		p.table.group(int32(g), func(window int64, st []aggState) {
			any := false
			for i := range st {
				if st[i].n == 0 {
					continue
				}
				any = true
				if !seen[i] {
					seen[i] = true
					met++
				}
			}
			if any {
				rows++
				first = min(first, p.startOf(window))
			}
		})
		if rows >= n && met == len(seen) {
			continue
		}
		// Empty windows are rows as well, from the first value on or from where
		// the query begins; but not of a call that meets no value at all.
		if l.fill == influxql.NoFill || met < len(seen) {
			return false
		}
		if start := l.win.Start(p.rng.Min); start != model.MinTime {
			first = start
		}
		if upTo < first || (upTo-first+1)/l.win.Every < int64(n) {
			return false
		}
	}
	return true
}

// bound reports whether a shard has a column for one of the plan's slots.
func (p *aggPlan) bound(cs *columnSet) bool {
	for _, s := range p.slots {
		if cs.out[s.col].index >= 0 {
			return true
		}
	}
	return false
}

func (r *callRun) mergeTables(p *aggPlan, tables []*aggTable) error {
	p.table = tables[0]
	for _, t := range tables[1:] {
		p.table.merge(t, p.slots)
	}
	n := p.table.bytes
	p.table.bytes = 0
	return r.x.grow(n)
}

// aggregateEnds answers first() or last() over all time: shards are read from
// that end on, series by series from that end, until every group is answered.
func (r *callRun) aggregateEnds(p *aggPlan, dir int, newTable func() *aggTable) error {
	us := slices.Clone(r.us)
	slices.SortStableFunc(us, func(a, b *unit) int {
		c := cmpInt(a.shard.TimeRange().Min, b.shard.TimeRange().Min)
		if dir < 0 {
			return -c
		}
		return c
	})
	total := newTable()
	for i := 0; i < len(us); {
		// Shards of equal times (of several retention policies) go together.
		j := i + 1
		for j < len(us) && us[j].shard.TimeRange().Overlaps(us[i].shard.TimeRange()) {
			j++
		}
		tables := make([]*aggTable, r.x.workers)
		for k := range tables {
			tables[k] = newTable()
		}
		for _, u := range us[i:j] {
			cs, ok := u.bind(p.refs)
			if !ok || !p.bound(cs) || !u.shard.TimeRange().Overlaps(p.rng) {
				continue
			}
			set := u.set
			if i > 0 {
				set = u.subset(func(g int32) bool { return total.at(g, 0)[0].n == 0 })
				if set.IsEmpty() {
					continue
				}
			}
			ps := parts(set, r.x.workers)
			err := r.x.parallel(len(ps), func(k int) error {
				w := newAggWorker(r.x, p, p.rng, tables[k])
				return w.scanPart(u, cs, ps[k], dir)
			})
			if err != nil {
				return err
			}
		}
		for _, t := range tables {
			total.merge(t, p.slots)
		}
		i = j
	}
	p.table = total
	return r.x.grow(total.bytes)
}
