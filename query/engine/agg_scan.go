package engine

import (
	"math"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/engine/read"
	"tsdbd/query/expr"
	"tsdbd/query/window"
)

func floatOf(bits uint64) float64 { return math.Float64frombits(bits) }

// aggPlan is a set of partial aggregates that one walk over the data computes
// for every window of every group.
type aggPlan struct {
	refs  []influxql.VarRef // columns; with aux, its columns follow
	slots []slot
	rng   model.TimeRange
	win   *window.Windows
	aux   int  // columns of refs, at the end, to keep of each chosen row
	keyed bool // the series keys of chosen rows matter

	starts []int64 // zone: starts of the windows by number
	table  *aggTable
	did    *read.Counts // of EXPLAIN ANALYZE, else nil
}

// addSlot returns the number of a slot over the column ref, shared among equal
// ones.
func (p *aggPlan) addSlot(s slot, ref influxql.VarRef) int {
	s.timed = s.timed || kinds[s.kind].timed
	p.refs, s.col = expr.AddRef(p.refs, ref)
	if i := slices.Index(p.slots, s); i >= 0 {
		return i
	}
	p.slots = append(p.slots, s)
	return len(p.slots) - 1
}

// large reports whether the states of a slot may be large: those of all groups
// are then not held at once.
func (p *aggPlan) large() bool {
	return slices.ContainsFunc(p.slots, func(s slot) bool { return kinds[s.kind].large })
}

// number returns the number of the window that starts at start.
func (p *aggPlan) number(start int64) int64 {
	if p.win.None() {
		return 0
	}
	if p.win.Loc != nil {
		i, _ := slices.BinarySearch(p.starts, start)
		return int64(i)
	}
	if start == model.MinTime {
		return math.MinInt64 / 2 // the cut off first window of all time
	}
	return window.FloorDiv(start, p.win.Every)
}

// startOf is the inverse of number.
func (p *aggPlan) startOf(n int64) int64 {
	switch {
	case p.win.None() || n == math.MinInt64/2:
		return model.MinTime
	case p.win.Loc != nil:
		return p.starts[n]
	}
	return n*p.win.Every + window.FloorMod(p.win.Shift, p.win.Every)
}

// maxZoneWindows bounds the windows of a query with tz().
const maxZoneWindows = 4 << 20

// prepare sizes the plan for data within r.
func (p *aggPlan) prepare(r model.TimeRange) (first, last int64, err error) {
	if p.win.None() || r.Empty() {
		return 0, 0, nil
	}
	lo, hi := p.win.Start(r.Min), p.win.Start(r.Max)
	if p.win.Loc != nil {
		if n := (hi - lo) / p.win.Every; n > maxZoneWindows || n < 0 {
			return 0, 0, window.ErrTooMany
		}
		for s := lo; s <= hi; s = p.win.Next(s) {
			p.starts = append(p.starts, s)
		}
		return 0, int64(len(p.starts) - 1), nil
	}
	return p.number(lo), p.number(hi), nil
}

// direction returns -1 if the newest values alone answer a plan, 1 if the
// oldest do, else 0.
func (p *aggPlan) direction() int {
	if p.win.None() && len(p.slots) == 1 {
		switch p.slots[0].kind {
		case slotFirst:
			return 1
		case slotLast:
			return -1
		}
	}
	return 0
}

// bound reports whether a shard has a column for one of the plan's slots.
func (p *aggPlan) bound(cs *read.Columns) bool {
	for _, s := range p.slots {
		if cs.Out[s.col].Index >= 0 {
			return true
		}
	}
	return false
}

// aggWorker folds chunks into its own table.
type aggWorker struct {
	x      *read.Budget
	p      *aggPlan
	rng    model.TimeRange // of the rows to fold
	t      *aggTable
	rd     *read.ChunkReader
	times  []int64 // of the current chunk, if asked for
	key    string  // series key, if the plan wants it
	series uint64  // its hash, for samples
	order  uint64  // place of the first of the present rows among those of subqueries
	fbuf   []float64
	ibuf   []int64
	ubuf   []uint64
	gath   []column.Vector
	stats  scan.Stats // scratch of whole
	sums   []bool     // by slot: of its column's statistics only the sum is wanted
	walk   windowWalk
	cuts   []cut // of the current rows
	runs   runScratch
}

func newAggWorker(x *read.Budget, p *aggPlan, rng model.TimeRange, t *aggTable) *aggWorker {
	w := &aggWorker{x: x, p: p, rng: rng, t: t, walk: windowWalk{p: p}, sums: make([]bool, len(p.slots))}
	for i := range p.slots {
		w.sums[i] = p.slots[i].kind == slotSum && !slices.ContainsFunc(p.slots, func(o slot) bool {
			return o.col == p.slots[i].col && kinds[o.kind].stats == allOfStats
		})
	}
	return w
}

// scanPart folds a set of series of a unit. newest stops each series at its
// newest chunk that has a value for every slot.
func (w *aggWorker) scanPart(u *read.Unit, cs *read.Columns, set *roaring.Bitmap, dir int) error {
	r := w.rng.Intersect(u.Shard.TimeRange())
	w.rd = read.NewChunkReader(cs)
	cur, err := w.rd.Scan(w.x, u, set, r, dir >= 0, w.p.did)
	if err != nil {
		return err
	}
	defer cur.Close()
	tags := cs.NeedsTags() || w.p.keyed
	for {
		id, ok := cur.NextSeries()
		if !ok {
			return cur.Err()
		}
		if err := w.x.Check(); err != nil {
			return err // also of many series without rows
		}
		g := u.Group(id)
		if tags {
			if w.key, err = u.Source.View.SeriesKey(id); err != nil {
				return err
			}
			_, w.rd.Tags = model.ParseSeriesKey(w.key, w.rd.Tags[:0])
			w.series = seriesHash(w.key)
		}
		for c := cur.NextChunk(); c != nil; c = cur.NextChunk() {
			if err := w.x.Check(); err != nil {
				return err
			}
			found, err := w.chunk(c, g)
			if err != nil {
				return err
			}
			if w.t.bytes > 1<<16 {
				bytes := w.t.bytes
				w.t.bytes = 0
				if err := w.x.Grow(bytes); err != nil {
					return err
				}
			}
			if found && dir != 0 {
				break
			}
		}
	}
}

// chunk folds one chunk into the states of a group. It reports whether every
// slot met a value.
func (w *aggWorker) chunk(c scan.Chunk, g int32) (bool, error) {
	if err := w.x.CountPoints(c.Len()); err != nil {
		return false, err
	}
	rd := w.rd
	rd.Reset(c)
	w.times = nil
	if rd.Columns.Filter != nil {
		rows, all := rd.Pick()
		if rd.Err != nil {
			return false, rd.Err
		}
		if !all {
			if len(rows) == 0 {
				return false, nil
			}
			return w.picked(c, g, rows)
		}
	}
	k := &w.walk
	if k.to(c.Min()); c.Max() < k.next {
		return w.whole(c, w.t.at(g, k.number))
	}
	if step := c.Step(); step > 0 && !w.needTimes() {
		w.cutRegular(g, c.Min(), step, c.Len())
	} else {
		times, err := c.Times()
		if err != nil {
			return false, err
		}
		w.times = times
		w.cutTimes(g, times)
	}
	met := true
	for i := range w.p.slots {
		sl := &w.p.slots[i]
		// Counting a column without nulls needs no values.
		if b := &rd.Columns.Out[sl.col]; sl.kind == slotCount && b.Index >= 0 {
			if n, ok := c.Count(b.Index); ok && n == c.Len() {
				w.countCuts(i)
				continue
			}
		}
		if !w.foldCuts(i, rd.Output(sl.col), nil) {
			met = false
		}
	}
	return met, rd.Err
}

// needTimes reports whether some slot keeps the time of a row.
func (w *aggWorker) needTimes() bool {
	return slices.ContainsFunc(w.p.slots, func(s slot) bool { return s.timed })
}

// whole folds a chunk that lies inside one window, from its statistics where
// they suffice.
func (w *aggWorker) whole(c scan.Chunk, st []aggState) (bool, error) {
	rd := w.rd
	met := true
	stats, of := &w.stats, -1 // the column whose statistics stats holds
	for i := range w.p.slots {
		sl := &w.p.slots[i]
		b := &rd.Columns.Out[sl.col]
		if b.Index < 0 {
			met = false
			continue
		}
		if sl.kind == slotCount {
			if n, ok := c.Count(b.Index); ok {
				st[i].n += int64(n)
				met = met && n > 0
				continue
			}
		} else if !b.Cast && b.Type == sl.typ && kinds[sl.kind].stats != noStats {
			known := of == b.Index
			switch {
			case known:
			case w.sums[i]:
				known, of = c.Sum(b.Index, stats), -1
			default:
				if known, of = c.Stats(b.Index, stats), -1; known {
					of = b.Index
				}
			}
			if known {
				if stats.Count == 0 {
					met = false
					continue
				}
				done, err := w.fromStats(c, &st[i], sl, stats)
				if err != nil {
					return false, err
				}
				if done {
					continue
				}
			}
		}
		v := rd.Output(sl.col)
		if rd.Err != nil {
			return false, rd.Err
		}
		if w.times == nil && sl.timed {
			times, err := c.Times()
			if err != nil {
				return false, err
			}
			w.times = times
		}
		if !w.foldRow(&st[i], sl, v, 0, c.Len(), nil) {
			met = false
		}
	}
	return met, nil
}

// fromStats folds the statistics of a chunk that holds values. It returns
// false if the column must be decoded.
func (w *aggWorker) fromStats(c scan.Chunk, st *aggState, sl *slot, s *scan.Stats) (bool, error) {
	switch sl.kind {
	case slotSum: // no more of s is set than Summer has
		if !sl.typ.Numeric() {
			return false, nil
		}
		st.n += int64(s.Count)
		if sl.typ == model.Float {
			st.addFloat(floatOf(s.Sum), s.SumError)
		} else {
			st.a += s.Sum
		}
		return true, nil
	case slotMin, slotMax:
		bits := s.Min
		if sl.kind == slotMax {
			bits = s.Max
		}
		if !sl.timed {
			if w.t.better(st, *sl, st.t, bits, "", "") {
				w.t.put(st, *sl, 0, bits, "")
			}
			return true, nil
		}
		// The chunk matters only if it holds a better value, or the same earlier.
		return !w.t.better(st, *sl, c.Min(), bits, "", ""), nil
	case slotFirst, slotLast:
		if sl.typ == model.String || w.p.aux > 0 {
			row := s.FirstRow
			if sl.kind == slotLast {
				row = s.LastRow
			}
			if st.n == 0 {
				return false, nil
			}
			t, err := read.RowTime(c, row)
			if err != nil {
				return false, err
			}
			return t != st.t && (t < st.t) != (sl.kind == slotFirst), nil
		}
		bits, row := s.First, s.FirstRow
		if sl.kind == slotLast {
			bits, row = s.Last, s.LastRow
		}
		t, err := read.RowTime(c, row)
		if err != nil {
			return false, err
		}
		if w.t.better(st, *sl, t, bits, "", "") {
			w.t.put(st, *sl, t, bits, "")
		}
		return true, nil
	}
	return false, nil
}

// picked folds the given rows of a chunk.
func (w *aggWorker) picked(c scan.Chunk, g int32, rows []int32) (bool, error) {
	times, err := c.Times()
	if err != nil {
		return false, err
	}
	w.times = expr.AppendTaken(nil, times, 0, 0, rows)
	if w.gath == nil {
		w.gath = make([]column.Vector, len(w.p.refs))
	}
	for i := range w.gath {
		w.gath[i] = expr.Gather(w.rd.Output(i), rows)
	}
	if w.rd.Err != nil {
		return false, w.rd.Err
	}
	return w.foldTable(g, w.times, w.gath), nil
}

// foldTable folds rows in ascending order of time into a group.
func (w *aggWorker) foldTable(g int32, times []int64, cols []column.Vector) bool {
	w.times, w.gath = times, cols
	w.cutTimes(g, times)
	met := true
	for i := range w.p.slots {
		if !w.foldCuts(i, &cols[w.p.slots[i].col], cols) {
			met = false
		}
	}
	return met
}

// foldRow adds rows [lo, hi) of a column to a state. It reports whether there
// was a value.
func (w *aggWorker) foldRow(st *aggState, sl *slot, v *column.Vector, lo, hi int, cols []column.Vector) bool {
	if v.Type == model.Unknown {
		return false
	}
	switch sl.kind {
	case slotCount:
		n := validCount(v, lo, hi)
		st.n += int64(n)
		return n > 0
	case slotSum, slotSquare:
		return w.foldSum(st, sl, v, lo, hi)
	case slotTally:
		return w.tally(st, sl, v, lo, hi)
	case slotSketch:
		return w.sketch(st, v, lo, hi)
	case slotTop, slotBottom, slotSample:
		return w.pick(st, sl, v, lo, hi, cols)
	}
	row := -1
	switch sl.kind {
	case slotMin:
		row = extremeRow(v, lo, hi, false)
	case slotMax:
		row = extremeRow(v, lo, hi, true)
	case slotFirst:
		for row = lo; row < hi && !v.IsValid(row); row++ {
		}
		if row == hi {
			row = -1
		}
	case slotLast:
		for row = hi - 1; row >= lo && !v.IsValid(row); row-- {
		}
		if row < lo {
			row = -1
		}
	}
	if row < 0 {
		return false
	}
	w.offer(st, sl, v, row, cols)
	// Rows of a subquery may share a time; each has its chance.
	if sl.kind == slotFirst {
		for r := row + 1; r < hi && w.times[r] == w.times[row]; r++ {
			if v.IsValid(r) {
				w.offer(st, sl, v, r, cols)
			}
		}
	} else if sl.kind == slotLast {
		for r := row - 1; r >= lo && w.times[r] == w.times[row]; r-- {
			if v.IsValid(r) {
				w.offer(st, sl, v, r, cols)
			}
		}
	}
	return true
}

// offer lets a row compete for a selector's state.
func (w *aggWorker) offer(st *aggState, sl *slot, v *column.Vector, row int, cols []column.Vector) {
	var bits uint64
	var str string
	if sl.typ == model.String {
		str = v.Strings[row]
	} else {
		bits = word(v, row)
	}
	var at int64
	if sl.timed {
		at = w.times[row]
	}
	if !w.t.better(st, *sl, at, bits, str, w.key) {
		return
	}
	w.t.put(st, *sl, at, bits, strings.Clone(str)) // not the whole column's memory
	if w.p.aux > 0 {
		w.t.putAux(st, w.auxRow(row, cols), w.key)
	}
}

// auxRow returns the other columns of a chosen row.
func (w *aggWorker) auxRow(row int, cols []column.Vector) []expr.Scalar {
	first := len(w.p.refs) - w.p.aux
	aux := make([]expr.Scalar, w.p.aux)
	for i := range aux {
		if cols != nil && cols[first+i].Type != model.Unknown {
			aux[i] = expr.ScalarAt(&cols[first+i], row)
		} else if w.rd != nil {
			if b := &w.rd.Columns.Out[first+i]; b.Tag {
				if s := w.rd.Tags.Get(b.Ref.Val); s != "" {
					aux[i] = expr.Scalar{Type: model.String, Text: s}
				}
			} else if cols == nil {
				aux[i] = expr.ScalarAt(w.rd.Output(first+i), row)
			}
		}
		aux[i].Text = strings.Clone(aux[i].Text) // not the whole column's memory
	}
	return aux
}

func (w *aggWorker) foldSum(st *aggState, sl *slot, v *column.Vector, lo, hi int) bool {
	var n int
	var x []float64
	switch v.Type {
	case model.Float:
		x = compact(v.Floats, v.Valid, lo, hi, w.fbuf)
		if v.Valid != nil {
			w.fbuf = x
		}
	case model.Integer:
		w.ibuf, x, n = foldInts(st, sl, v.Ints, v.Valid, lo, hi, w.ibuf, &w.fbuf)
	case model.Unsigned:
		w.ubuf, x, n = foldInts(st, sl, v.Uints, v.Valid, lo, hi, w.ubuf, &w.fbuf)
	}
	if len(x) > 0 {
		n = len(x)
		if sl.kind == slotSquare {
			st.addFloat(sumSquares(x))
		} else {
			st.addFloat(vector.SumFloats(x))
		}
	}
	st.n += int64(n)
	return n > 0
}

// foldInts adds integers to a sum, or for sums of floats returns them as such.
func foldInts[T int64 | uint64](st *aggState, sl *slot, v []T, valid column.Bitmap, lo, hi int, buf []T, floats *[]float64) ([]T, []float64, int) {
	x := compact(v, valid, lo, hi, buf)
	if valid != nil {
		buf = x
	}
	if sl.typ != model.Float {
		st.a += uint64(vector.SumInts(asInts(x)))
		return buf, nil, len(x)
	}
	*floats = (*floats)[:0]
	for _, i := range x {
		*floats = append(*floats, float64(i))
	}
	return buf, *floats, 0
}
