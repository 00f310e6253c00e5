package partial

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

// FloatOf returns the float of a word.
func FloatOf(bits uint64) float64 { return math.Float64frombits(bits) }

// Plan is a set of partial aggregates that one walk over the data computes
// for every window of every group.
type Plan struct {
	Refs    []influxql.VarRef // columns; those of Aux are the last
	Slots   []Slot
	Range   model.TimeRange
	Windows *window.Windows
	Aux     int  // columns of Refs, at the end, to keep of each chosen row
	Keyed   bool // the series keys of chosen rows matter
	Parts   bool // several units may have rows of a series

	Table *Table
	Did   *read.Counts // of EXPLAIN ANALYZE, else nil

	starts []int64 // zone: starts of the windows that Prepare lists, by number
	first  int64   // the ordinal of the first of them, else 0

	refAt  map[influxql.VarRef]int // places of Refs, except for those of Aux
	slotAt map[Slot]int            // places of Slots
}

// NewPlan returns a plan without slots. It has room for those of some calls.
func NewPlan(rng model.TimeRange, windows *window.Windows, calls int) *Plan {
	return &Plan{
		Range: rng, Windows: windows, Refs: make([]influxql.VarRef, 0, calls), Slots: make([]Slot, 0, calls),
		refAt: make(map[influxql.VarRef]int, calls), slotAt: make(map[Slot]int, calls),
	}
}

// AddSlot returns the number of a slot over the column ref, shared among equal
// ones.
func (p *Plan) AddSlot(s Slot, ref influxql.VarRef) int {
	s.Timed = s.Timed || Kinds[s.Kind].Timed
	p.Refs, s.Col = expr.Place(p.Refs, p.refAt, ref)
	var i int
	p.Slots, i = expr.Place(p.Slots, p.slotAt, s)
	return i
}

// Large reports whether the states of a slot may be large: those of all groups
// are then not held at once.
func (p *Plan) Large() bool {
	return slices.ContainsFunc(p.Slots, func(s Slot) bool { return Kinds[s.Kind].large })
}

// AnyOrder reports whether states do not depend on the order in which rows of equal time
// come, whatever series they are of.
func (p *Plan) AnyOrder() bool {
	return p.Aux == 0 && !slices.ContainsFunc(p.Slots, func(s Slot) bool { return Kinds[s.Kind].ordered })
}

// cutOff is the number of the first window of all time, whose start is cut off. It is not that
// of a multiple of the length, which the next window may begin at.
func (p *Plan) cutOff() int64 { return window.FloorDiv(model.MinTime, p.Windows.Every) - 1 }

// number returns the number of the window that starts at start. In a zone the windows that
// Prepare lists count from 0. Those before and after them, which rows of subqueries may be
// in, have the distance of their ordinals. If none are listed, the numbers are ordinals.
func (p *Plan) number(start int64) int64 {
	if p.Windows.None() {
		return 0
	}
	if p.Windows.Loc == nil {
		if start == model.MinTime {
			return p.cutOff()
		}
		return window.FloorDiv(start, p.Windows.Every)
	}
	n := len(p.starts)
	if i, ok := slices.BinarySearch(p.starts, start); ok {
		return int64(i)
	} else if i > 0 && i == n {
		return int64(n-1) + p.Windows.Ordinal(start) - p.Windows.Ordinal(p.starts[n-1])
	}
	return p.Windows.Ordinal(start) - p.first
}

// StartOf is the inverse of number.
func (p *Plan) StartOf(n int64) int64 {
	switch {
	case p.Windows.None() || p.Windows.Loc == nil && n == p.cutOff():
		return model.MinTime
	case p.Windows.Loc == nil:
		return n*p.Windows.Every + window.FloorMod(p.Windows.Shift, p.Windows.Every)
	case n >= 0 && n < int64(len(p.starts)):
		return p.starts[n]
	case n > 0 && len(p.starts) > 0:
		last := len(p.starts) - 1
		return p.Windows.OfOrdinal(n - int64(last) + p.Windows.Ordinal(p.starts[last]))
	}
	return p.Windows.OfOrdinal(n + p.first)
}

// AppendStarts appends the starts of the windows of w that are present. first is the
// number of the first window.
func (p *Plan) AppendStarts(dst []int64, first int64, w Windows) []int64 {
	even := !p.Windows.None() && p.Windows.Loc == nil && first > p.cutOff()
	start := p.StartOf(first)
	for i := 0; i < len(w.Page); i += w.Slots {
		if w.Page[i+w.Of].N != 0 {
			if !even {
				start = p.StartOf(first + int64(i/w.Slots))
			}
			dst = append(dst, start)
		}
		if even {
			start += p.Windows.Every
		}
	}
	return dst
}

// maxZoneStarts bounds the windows of a zone whose starts are listed.
const maxZoneStarts = 4 << 20

// Prepare sizes the plan for data within r, and returns the numbers of its first and
// last window. Windows elsewhere have numbers too, so that in a zone too many windows need
// not be listed.
func (p *Plan) Prepare(r model.TimeRange) (first, last int64) {
	p.starts, p.first = p.starts[:0], 0
	if p.Windows.None() || r.Empty() {
		return 0, 0
	}
	lo, hi := p.Windows.Start(r.Min), p.Windows.Start(r.Max)
	if p.Windows.Loc != nil && uint64(hi-lo)/uint64(p.Windows.Every) <= maxZoneStarts {
		for s := lo; s <= hi; s = p.Windows.Next(s) {
			p.starts = append(p.starts, s)
		}
		p.first = p.Windows.Ordinal(lo)
	}
	return p.number(lo), p.number(hi)
}

// Direction returns -1 if the newest values alone answer a plan, 1 if the
// oldest do, else 0.
func (p *Plan) Direction() int {
	if p.Windows.None() && len(p.Slots) == 1 {
		switch p.Slots[0].Kind {
		case First:
			return 1
		case Last:
			return -1
		}
	}
	return 0
}

// Bound reports whether a shard has a column for one of the plan's slots.
func (p *Plan) Bound(cs *read.Columns) bool {
	for _, s := range p.Slots {
		if cs.Out[s.Col].HasValues() {
			return true
		}
	}
	return false
}

// Worker folds chunks into its own table.
type Worker struct {
	x       *read.Budget
	p       *Plan
	rng     model.TimeRange // of the rows to fold
	t       *Table
	rd      *read.ChunkReader
	Times   []int64 // of the current chunk, if asked for
	Err     error   // of a value that cannot be folded
	key     string  // series key, if the plan wants it
	series  uint64  // its hash, for samples
	Order   uint64  // place of the first of the present rows among those of subqueries
	fbuf    []float64
	ibuf    []int64
	ubuf    []uint64
	gath    []column.Vector
	stats   scan.Stats // scratch of whole
	counts  scan.Stats // scratch of addCounts
	sums    []bool     // by slot: of its column's statistics only the sum is wanted
	walk    windowWalk
	cuts    []cut // of the current rows
	narrow  bool  // statistics say that all sums of the present column of integers fit
	runs    runScratch
	present []run // by column: the present series, of an increase
	from    int64 // steps to rows before it do not count
}

// NewWorker returns a worker that folds the rows of rng into t.
func NewWorker(x *read.Budget, p *Plan, rng model.TimeRange, t *Table) *Worker {
	w := &Worker{x: x, p: p, rng: rng, t: t, walk: windowWalk{p: p}, sums: make([]bool, len(p.Slots))}
	if p.Stepped() {
		w.present = make([]run, len(p.Refs))
	}
	all := map[int]bool{} // columns of which more than the sum is wanted
	for i := range p.Slots {
		if Kinds[p.Slots[i].Kind].Stats == AllOfStats {
			all[p.Slots[i].Col] = true
		}
	}
	for i := range p.Slots {
		w.sums[i] = p.Slots[i].Kind == Sum && !all[p.Slots[i].Col]
	}
	return w
}

// ScanPart folds a set of series of a unit. newest stops each series at its
// newest chunk that has a value for every slot.
func (w *Worker) ScanPart(u *read.Unit, cs *read.Columns, set *roaring.Bitmap, dir int) error {
	r := w.rng.Intersect(u.Range)
	w.rd = read.NewChunkReader(cs)
	cur, err := w.rd.Scan(w.x, u, set, r, dir >= 0, w.p.Did)
	if err != nil {
		return err
	}
	defer cur.Close()
	tags := cs.NeedsTags() || w.p.Keyed
	w.begin(u)
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
			if w.Err != nil {
				return w.damaged(u, id)
			}
			if err != nil {
				return err
			}
			if w.t.Bytes > 1<<16 {
				bytes := w.t.Bytes
				w.t.Bytes = 0
				if err := w.x.Grow(bytes); err != nil {
					return err
				}
			}
			if found && dir != 0 {
				break
			}
		}
		if w.present != nil {
			w.endSeries(u, id, g)
		}
	}
}

// chunk folds one chunk into the states of a group. It reports whether every
// slot met a value.
func (w *Worker) chunk(c scan.Chunk, g int32) (bool, error) {
	if err := w.x.CountPoints(c.Len()); err != nil {
		return false, err
	}
	rd := w.rd
	rd.Reset(c)
	w.Times = nil
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
		return w.whole(c, w.t.At(g, k.number))
	}
	if step := c.Step(); step > 0 && !w.needTimes() {
		w.cutRegular(g, c.Min(), step, c.Len())
	} else {
		times, err := c.Times()
		if err != nil {
			return false, err
		}
		w.Times = times
		w.cutTimes(g, times)
	}
	met := true
	for i := range w.p.Slots {
		sl := &w.p.Slots[i]
		// Counting a column without nulls needs no values.
		if b := &rd.Columns.Out[sl.Col]; sl.Kind == Count && b.Index >= 0 {
			if n, ok := rd.Count(b); ok && n == c.Len() {
				w.countCuts(i, 1)
				w.addCounts(i, true)
				continue
			}
		}
		w.narrow = w.knownNarrow(sl)
		v := rd.Output(sl.Col)
		if !w.foldCuts(i, v, nil) {
			met = false
		}
		w.addCounts(i, v.Valid == nil)
	}
	w.narrow = false
	return met, rd.Err
}

// knownNarrow reports whether the statistics of the present chunk say that all sums of
// a slot's column of integers fit.
func (w *Worker) knownNarrow(sl *Slot) bool {
	b := &w.rd.Columns.Out[sl.Col]
	return sl.Kind == Sum && isInt(sl.Type) && b.Index >= 0 && !b.Cast && b.Type == sl.Type &&
		w.rd.Sum(b.Index, &w.stats) && fits(sl.Type, &w.stats)
}

func isInt(t model.FieldType) bool { return t == model.Integer || t == model.Unsigned }

// needTimes reports whether some slot keeps the time of a row.
func (w *Worker) needTimes() bool {
	return slices.ContainsFunc(w.p.Slots, func(s Slot) bool { return s.Timed })
}

// whole folds a chunk that lies inside one window, from its statistics where
// they suffice.
func (w *Worker) whole(c scan.Chunk, st []State) (bool, error) {
	rd := w.rd
	met := true
	stats, of := &w.stats, -1 // the column whose statistics stats holds
	w.cuts = append(w.cuts[:0], cut{st, 0, c.Len(), c.Len()})
	for i := range w.p.Slots {
		sl := &w.p.Slots[i]
		b := &rd.Columns.Out[sl.Col]
		if !b.HasValues() {
			met = false
			continue
		}
		if b.Computed != nil {
			// There are no statistics.
		} else if sl.Kind == Count {
			if n, ok := rd.Count(b); ok {
				st[i].N += int64(n)
				met = met && n > 0
				w.addCounts(i, n == c.Len())
				continue
			}
		} else if !b.Cast && b.Type == sl.Type && Kinds[sl.Kind].Stats != NoStats {
			known := of == b.Index
			switch {
			case known:
			case w.sums[i]:
				known, of = rd.Sum(b.Index, stats), -1
			default:
				if known, of = rd.Stats(b.Index, stats), -1; known {
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
					w.addCounts(i, stats.Count == c.Len())
					continue
				}
			}
		}
		v := rd.Output(sl.Col)
		if rd.Err != nil {
			return false, rd.Err
		}
		if w.Times == nil && sl.Timed {
			times, err := c.Times()
			if err != nil {
				return false, err
			}
			w.Times = times
		}
		if !w.foldRow(&st[i], sl, v, 0, c.Len(), nil) {
			met = false
		}
		w.addCounts(i, v.Valid == nil)
	}
	return met, nil
}

// fromStats folds the statistics of a chunk that holds values. It returns
// false if the column must be decoded.
func (w *Worker) fromStats(c scan.Chunk, st *State, sl *Slot, s *scan.Stats) (bool, error) {
	switch sl.Kind {
	case Sum: // no more of s is set than Summer has
		switch {
		case sl.Type == model.Float:
			st.AddFloat(FloatOf(s.Sum), s.SumError)
		case isInt(sl.Type):
			hi, lo, ok := wideSum(sl.Type, s)
			if !ok {
				return false, nil
			}
			st.AddWide(hi, lo)
		default:
			return false, nil
		}
		st.N += int64(s.Count)
		return true, nil
	case Min, Max:
		bits := s.Min
		if sl.Kind == Max {
			bits = s.Max
		}
		if !sl.Timed {
			if w.t.better(st, sl, st.T, bits, "", "") {
				w.t.put(st, sl, 0, bits, "")
			}
			return true, nil
		}
		// The chunk matters only if it holds a better value, or the same earlier.
		return !w.t.better(st, sl, c.Min(), bits, "", ""), nil
	case First, Last:
		bits, row := s.First, s.FirstRow
		if sl.Kind == Last {
			bits, row = s.Last, s.LastRow
		}
		chosen := sl.Type == model.String || w.p.Aux > 0 // more of the row is kept than statistics have
		if chosen && st.N == 0 {
			return false, nil
		}
		t, err := read.RowTime(c, row)
		if err != nil {
			return false, err
		}
		if chosen {
			return t != st.T && (t < st.T) != (sl.Kind == First), nil
		}
		if w.t.better(st, sl, t, bits, "", "") {
			w.t.put(st, sl, t, bits, "")
		}
		return true, nil
	}
	return false, nil
}

// picked folds the given rows of a chunk.
func (w *Worker) picked(c scan.Chunk, g int32, rows []int32) (bool, error) {
	times, err := c.Times()
	if err != nil {
		return false, err
	}
	w.Times = expr.AppendTaken(nil, times, 0, 0, rows)
	if w.gath == nil {
		w.gath = make([]column.Vector, len(w.p.Refs))
	}
	for i := range w.gath {
		w.gath[i] = expr.Gather(w.rd.Output(i), rows)
	}
	if w.rd.Err != nil {
		return false, w.rd.Err
	}
	return w.FoldTable(g, w.Times, w.gath), nil
}

// FoldTable folds rows in ascending order of time into a group.
func (w *Worker) FoldTable(g int32, times []int64, cols []column.Vector) bool {
	w.Times, w.gath = times, cols
	w.cutTimes(g, times)
	met := true
	for i := range w.p.Slots {
		if !w.foldCuts(i, &cols[w.p.Slots[i].Col], cols) {
			met = false
		}
	}
	return met
}

// foldRow adds rows [lo, hi) of a column to a state. It reports whether there
// was a value.
func (w *Worker) foldRow(st *State, sl *Slot, v *column.Vector, lo, hi int, cols []column.Vector) bool {
	if v.Type == model.Unknown {
		return false
	}
	switch sl.Kind {
	case Count:
		n := validCount(v, lo, hi)
		st.N += int64(n)
		return n > 0
	case Sum, Square:
		return w.foldSum(st, sl, v, lo, hi)
	case Union:
		return w.unite(st, sl, v, lo, hi)
	case Quantiles:
		return w.quantiles(st, v, lo, hi)
	case QuantileUnion:
		return w.uniteQuantiles(st, sl, v, lo, hi)
	case Increase:
		return w.foldSteps(st, sl, v, lo, hi)
	case Tally:
		return w.tally(st, sl, v, lo, hi)
	case Sketch:
		return w.sketch(st, v, lo, hi)
	case Ranks:
		return w.keep(st, sl, v, lo, hi)
	case Top, Bottom, Sample:
		return w.pick(st, sl, v, lo, hi, cols)
	}
	if sl.Kind == Min || sl.Kind == Max {
		row := extremeRow(v, lo, hi, sl.Kind == Max)
		if row >= 0 {
			w.Offer(st, sl, v, row, cols)
		}
		return row >= 0
	}
	first, step := lo, 1
	if sl.Kind == Last {
		first, step = hi-1, -1
	}
	for first >= lo && first < hi && !v.IsValid(first) {
		first += step
	}
	// Rows of a subquery may share a time; each has its chance.
	for r := first; r >= lo && r < hi && w.Times[r] == w.Times[first]; r += step {
		if v.IsValid(r) {
			w.Offer(st, sl, v, r, cols)
		}
	}
	return first >= lo && first < hi
}

// Offer lets a row compete for a selector's state.
func (w *Worker) Offer(st *State, sl *Slot, v *column.Vector, row int, cols []column.Vector) {
	var bits uint64
	var str string
	if sl.Type == model.String {
		str = v.Strings[row]
	} else {
		bits = v.Word(row)
	}
	var at int64
	if sl.Timed {
		at = w.Times[row]
	}
	if !w.t.better(st, sl, at, bits, str, w.key) {
		return
	}
	w.t.put(st, sl, at, bits, strings.Clone(str)) // not the whole column's memory
	if w.p.Aux > 0 {
		w.t.putAux(st, w.auxRow(row, cols), w.key)
	}
}

// auxRow returns the other columns of a chosen row.
func (w *Worker) auxRow(row int, cols []column.Vector) []expr.Scalar {
	first := len(w.p.Refs) - w.p.Aux
	aux := make([]expr.Scalar, w.p.Aux)
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

func (w *Worker) foldSum(st *State, sl *Slot, v *column.Vector, lo, hi int) bool {
	var n int
	var x []float64
	switch v.Type {
	case model.Float:
		x = compact(v.Floats, v.Valid, lo, hi, w.fbuf)
		if v.Valid != nil {
			w.fbuf = x
		}
	case model.Integer:
		w.ibuf, x, n = foldInts(st, sl, v.Ints, v.Valid, w.narrow, lo, hi, w.ibuf, &w.fbuf)
	case model.Unsigned:
		w.ubuf, x, n = foldInts(st, sl, v.Uints, v.Valid, w.narrow, lo, hi, w.ubuf, &w.fbuf)
	}
	if len(x) > 0 {
		n = len(x)
		if sl.Kind == Square {
			st.AddFloat(sumSquares(x))
		} else {
			st.AddFloat(vector.SumFloats(x))
		}
	}
	st.N += int64(n)
	return n > 0
}

// foldInts adds integers to a sum, or for sums of floats returns them as such.
func foldInts[T int64 | uint64](st *State, sl *Slot, v []T, valid column.Bitmap, narrow bool, lo, hi int, buf []T, floats *[]float64) ([]T, []float64, int) {
	x := compact(v, valid, lo, hi, buf)
	if valid != nil {
		buf = x
	}
	if sl.Type != model.Float {
		addInts(st, x, narrow)
		return buf, nil, len(x)
	}
	*floats = (*floats)[:0]
	for _, i := range x {
		*floats = append(*floats, float64(i))
	}
	return buf, *floats, 0
}
