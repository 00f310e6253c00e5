package query

import (
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/column"
	"tsdbd/model"
)

// callRun executes the aggregates of one level.
type callRun struct {
	x     *exec
	l     *level
	t     *groupTable
	us    []*unit
	plans []*aggPlan
	rows  []*call // calls that want rows
	refs  map[*call][]influxql.VarRef
	sub   map[*call]map[int32][]rowset // rows of subqueries
	got   map[*call]map[int32]*rowset  // rows of the current batch
}

// slotCalls are the functions that partial aggregates answer.
func slotCall(fn string) bool {
	switch fn {
	case "count", "sum", "mean", "min", "max", "first", "last", "spread", "stddev":
		return true
	}
	return false
}

// runCalls executes a statement with aggregates.
func (x *exec) runCalls(l *level, emit func(*frame) error) error {
	r := &callRun{x: x, l: l, t: &groupTable{}, refs: map[*call][]influxql.VarRef{}, sub: map[*call]map[int32][]rowset{}}
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
	for _, p := range r.plans {
		if err := r.aggregate(p); err != nil {
			return err
		}
	}
	if err := r.subqueries(); err != nil {
		return err
	}
	order := r.t.order(l.asc)
	for _, batch := range batches(order) {
		before := x.used.Load()
		if err := r.collect(batch); err != nil {
			return err
		}
		for _, g := range batch {
			if err := x.ctx.Err(); err != nil {
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
	if c.inner != nil && !(c.fn == "count" && c.inner.fn == "distinct") {
		r.place(c.inner)
		return
	}
	if c.inner != nil || !slotCall(c.fn) {
		refs := []influxql.VarRef{c.ref}
		if isTop(c.fn) {
			for _, a := range c.expr.Args[1 : len(c.expr.Args)-1] {
				if ref, ok := a.(*influxql.VarRef); ok {
					refs = append(refs, *ref)
				}
			}
		}
		if c.selector {
			refs = append(refs, r.l.refs...)
		}
		r.rows = append(r.rows, c)
		r.refs[c] = refs
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
	ref := c.ref
	switch c.fn {
	case "count":
		c.slots = []int{p.addSlot(slotCount, ref, c.typ)}
	case "sum", "mean":
		c.slots = []int{p.addSlot(slotSum, ref, c.typ)}
	case "min":
		c.slots = []int{p.addSlot(slotMin, ref, c.typ)}
	case "max":
		c.slots = []int{p.addSlot(slotMax, ref, c.typ)}
	case "first":
		c.slots = []int{p.addSlot(slotFirst, ref, c.typ)}
	case "last":
		c.slots = []int{p.addSlot(slotLast, ref, c.typ)}
	case "spread":
		c.slots = []int{p.addSlot(slotMin, ref, c.typ), p.addSlot(slotMax, ref, c.typ)}
	case "stddev":
		c.slots = []int{p.addSlot(slotSum, ref, model.Float), p.addSlot(slotSquare, ref, model.Float)}
	}
	if c.selector {
		p.aux = len(r.l.refs)
		p.times = p.aux > 0 || r.l.win.none()
		p.refs = append(p.refs, r.l.refs...)
	}
}

// direction returns -1 if the newest values alone answer a plan, 1 if the
// oldest do, else 0.
func (p *aggPlan) direction() int {
	if !p.win.none() {
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
	if p.win.loc != nil && (bounds.Min < -1<<62 || bounds.Max > 1<<62) {
		// Zones have no meaning there, and their tables no end.
		bounds = bounds.Intersect(model.TimeRange{Min: -1 << 62, Max: 1 << 62})
	}
	first, last, err := p.prepare(bounds)
	if err != nil {
		return err
	}
	newTable := func() *aggTable { return newAggTable(len(p.slots), p.win.none(), first, last) }
	dir := p.direction()
	if dir != 0 {
		return r.aggregateEnds(p, dir, newTable)
	}
	work := make([][]task, x.workers)
	spread := 0
	for _, u := range r.us {
		cs, ok := u.bind(p.refs)
		if !ok || !u.shard.TimeRange().Overlaps(p.rng) || !p.bound(cs) {
			continue
		}
		ps := parts(u.set, x.workers)
		if len(ps) == 1 {
			work[spread%x.workers] = append(work[spread%x.workers], task{u, cs, ps[0]})
			spread++
			continue
		}
		for i := range ps {
			work[i] = append(work[i], task{u, cs, ps[i]})
		}
	}
	tables := make([]*aggTable, x.workers)
	err = parallel(x.workers, func(i int) error {
		w := &aggWorker{x: x, p: p, t: newTable()}
		tables[i] = w.t
		for _, t := range work[i] {
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
			err := parallel(len(ps), func(k int) error {
				w := &aggWorker{x: r.x, p: p, t: tables[k]}
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

// subqueries runs the subquery sources and feeds plans and row calls.
func (r *callRun) subqueries() error {
	l := r.l
	if !slices.ContainsFunc(l.sources, func(s *source) bool { return s.sub != nil }) {
		return nil
	}
	for _, p := range r.plans {
		w := &aggWorker{x: r.x, p: p, t: p.table}
		_, err := r.x.collectSubs(l, r.t, p.refs, func(g int32, rs *rowset) error {
			if !l.asc {
				c := rowset{times: slices.Clone(rs.times), cols: make([]column.Vector, len(rs.cols))}
				for i := range rs.cols {
					extend(&c.cols[i], 0, &rs.cols[i], 0, len(rs.times))
				}
				c.reverse()
				rs = &c
			}
			if p.rng != l.read && !l.win.none() {
				lo, _ := slices.BinarySearch(rs.times, l.win.start(p.rng.Min))
				hi := len(rs.times)
				for hi > lo && rs.times[hi-1] > p.rng.Max {
					hi--
				}
				c := rs.slice(lo, hi)
				rs = &c
			}
			if l.win.loc != nil && len(p.starts) == 0 {
				return errTooManyWindows
			}
			w.foldTable(g, rs.times, rs.cols)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, c := range r.rows {
		m, err := r.x.collectSubs(l, r.t, r.refs[c], nil)
		if err != nil {
			return err
		}
		r.sub[c] = m
	}
	return nil
}

// collect reads the rows of a batch of groups for the calls that want rows.
func (r *callRun) collect(batch []int32) error {
	r.got = map[*call]map[int32]*rowset{}
	if len(r.rows) == 0 {
		return nil
	}
	member := make([]bool, len(r.t.names))
	for _, g := range batch {
		member[g] = true
	}
	for _, c := range r.rows {
		lists := map[int32][]*rowset{}
		bySrc := map[int32]int{}
		us := slices.Clone(r.us)
		if !r.l.asc {
			slices.SortStableFunc(us, func(a, b *unit) int {
				if a.order != b.order {
					return a.order - b.order
				}
				return -cmpInt(a.shard.TimeRange().Min, b.shard.TimeRange().Min)
			})
		}
		want := func(g int32) bool { return member[g] }
		if len(batch) == len(r.t.names) {
			want = nil
		}
		for _, u := range us {
			m, err := r.x.collectUnit(u, r.refs[c], c.rng, r.l.asc, 0, want)
			if err != nil {
				return err
			}
			for g, rs := range m {
				if n := len(lists[g]); n > 0 && bySrc[g] == u.order {
					lists[g][n-1].append(rs)
				} else {
					lists[g] = append(lists[g], rs)
					bySrc[g] = u.order
				}
			}
		}
		out := map[int32]*rowset{}
		for _, g := range batch {
			list := lists[g]
			sub := r.sub[c][g]
			for i := range sub {
				list = append(list, &sub[i])
			}
			if len(list) > 0 {
				out[g] = dropNulls(mergeSets(list, r.l.asc))
			}
		}
		r.got[c] = out
	}
	return nil
}

// dropNulls removes the rows whose first column is null.
func dropNulls(rs *rowset) *rowset {
	v := &rs.cols[0]
	if v.Type == model.Unknown {
		return &rowset{cols: rs.cols}
	}
	if v.Valid == nil {
		return rs
	}
	var rows []int32
	for i := range rs.times {
		if v.Valid.Get(i) {
			rows = append(rows, int32(i))
		}
	}
	if len(rows) == len(rs.times) {
		return rs
	}
	if rows == nil {
		rows = []int32{}
	}
	out := rs.permute(rows)
	out.cols[0].Valid = nil
	return &out
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
		cl, err := r.cells(c, g, l.wanted())
		if err != nil {
			return err
		}
		all[i] = cl
		total += len(cl.times)
	}
	if total == 0 {
		return nil
	}
	times, perms := joinCells(all, l.asc)
	n := len(times)
	values := make([]operand, len(l.calls))
	for i := range l.calls {
		var o operand
		if all[i] != nil {
			o = operand{v: l.pickRows(&all[i].v, perms[i])}
		}
		if o.v.Type == model.Unknown {
			if o = null(); l.fill == influxql.NumberFill {
				o = scalarOperand(l.fillTo)
			}
		}
		values[i] = o
	}
	lookup := func(*influxql.VarRef) operand { return null() }
	if l.selector {
		if cl := all[0]; cl != nil {
			cols := make([]column.Vector, len(l.refs))
			for i := range cl.aux {
				cols[i] = l.fillAux(cl.aux[i], n, fieldType(l.refs[i].Type), new(scalar))
			}
			lookup = l.lookupRefs(l.refs, cols)
		}
	}
	cols := l.project(n, lookup, func(e *influxql.Call) (operand, bool) {
		i, ok := l.callAt[e]
		if !ok {
			return operand{}, false
		}
		return values[i], true
	})
	shown := times
	if !l.win.none() && times[0] == model.MinTime || times[n-1] == model.MinTime {
		shown = slices.Clone(times)
		for i, t := range shown {
			if t == model.MinTime {
				shown[i] = 0
			}
		}
	}
	return out.rows(shown, cols)
}

// joinCells merges the times of cells: rows with one time become one, several
// rows of one call at one time stay apart. perms gives for each call the cell
// of every row, -1 for none; nil means that row i is cell i.
func joinCells(all []*cells, asc bool) (times []int64, perms [][]int32) {
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
		if !best {
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
func (r *callRun) cells(c *call, g int32, limit int) (*cells, error) {
	l := r.l
	var out *cells
	switch {
	case c.scan != nil:
		out = r.slotCells(c, g)
	case c.inner != nil && !(c.fn == "count" && c.inner.fn == "distinct"):
		in, err := r.cells(c.inner, g, 0)
		if err != nil {
			return nil, err
		}
		out, err := transform(l, c, in)
		if err == nil && !l.win.none() {
			l.cutLookBack(c, out)
		}
		return out, err
	default:
		rs := r.got[c][g]
		if rs == nil || len(rs.times) == 0 {
			return &cells{}, nil
		}
		var err error
		if out, err = l.rowCells(c, rs); err != nil {
			return nil, err
		}
	}
	if filled(c.fn) {
		if err := l.fillWindows(r.x, out, c.fn, c.rng, limit); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// cutLookBack drops the rows a transformation made of windows before the range.
func (l *level) cutLookBack(c *call, cl *cells) {
	if c.inner.rng == c.rng {
		return
	}
	n := 0
	if first, last := l.win.start(c.rng.Min), l.win.start(c.rng.Max); l.asc {
		for n < len(cl.times) && cl.times[n] < first {
			n++
		}
	} else {
		for n < len(cl.times) && cl.times[n] > last {
			n++
		}
	}
	if n > 0 {
		cl.v = cl.v.Slice(n, len(cl.times))
		cl.times = cl.times[n:]
	}
}

// slotCells finishes the partial aggregates of a group.
func (r *callRun) slotCells(c *call, g int32) *cells {
	l, t := r.l, c.scan.table
	out := &cells{}
	typ := c.typ
	switch c.fn {
	case "count":
		typ = model.Integer
	case "mean", "stddev":
		typ = model.Float
	}
	out.v.Type = typ
	if c.selector {
		out.aux = make([]column.Vector, len(l.refs))
		for i, ref := range l.refs {
			out.aux[i].Type = fieldType(ref.Type)
		}
	}
	t.group(g, func(window int64, st []aggState) {
		a := &st[c.slots[0]]
		if a.n == 0 {
			return
		}
		start := c.scan.startOf(window)
		if l.win.none() {
			start = resultTime(l.rng.Min)
			if l.open {
				start = 0
			}
			if c.selector {
				start = a.t
			}
		}
		out.times = append(out.times, start)
		switch c.fn {
		case "count":
			out.v.Ints = append(out.v.Ints, a.n)
		case "sum":
			if typ == model.Float {
				out.v.Floats = append(out.v.Floats, a.float())
			} else {
				out.v.AppendWord(a.a, nil)
			}
		case "mean":
			out.v.Floats = append(out.v.Floats, mean(c.typ, a))
		case "stddev":
			if a.n < 2 {
				out.v.AppendNull()
			} else {
				one := column.Vector{Type: model.Float, Floats: []float64{stddev(a, &st[c.slots[1]])}}
				out.v.AppendFrom(&one, 0)
			}
		case "spread":
			b := &st[c.slots[1]]
			switch typ {
			case model.Float:
				out.v.Floats = append(out.v.Floats, floatOf(b.a)-floatOf(a.a))
			default:
				out.v.AppendWord(b.a-a.a, nil)
			}
		default:
			if typ == model.String {
				out.v.Strings = append(out.v.Strings, t.strs[a.a])
			} else {
				out.v.AppendWord(a.a, nil)
			}
			for i := range out.aux {
				if out.aux[i].Type != model.Unknown {
					appendScalar(&out.aux[i], t.aux[a.b-1][i])
				}
			}
		}
	})
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

func mean(typ model.FieldType, a *aggState) float64 {
	switch typ {
	case model.Integer:
		return float64(int64(a.a)) / float64(a.n)
	case model.Unsigned:
		return float64(a.a) / float64(a.n)
	}
	return a.float() / float64(a.n)
}

// stddev is the sample standard deviation from the sums of the values and of
// their squares, both of about 106 bits: sqrt((q - s*s/n) / (n-1)).
func stddev(s, q *aggState) float64 {
	n := float64(s.n)
	sh, sl := floatOf(s.a), floatOf(s.b)
	// s*s as hi+lo.
	ph := sh * sh
	pl := math.FMA(sh, sh, -ph) + 2*sh*sl
	// divided by n.
	dh := ph / n
	dl := (math.FMA(-dh, n, ph) + pl) / n
	h, e := twoSum(floatOf(q.a), -dh)
	v := (h + (e + floatOf(q.b) - dl)) / (n - 1)
	if v < 0 {
		v = 0
	}
	return math.Sqrt(v)
}
