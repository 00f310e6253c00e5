package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/internal/quantiles"
	"tsdbd/model"
	"tsdbd/query/admission"
	"tsdbd/query/engine/partial"
	"tsdbd/query/engine/plan"
	"tsdbd/query/engine/read"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
)

// folder is the operator that folds rows into partial aggregates. One walk over the
// sources computes them for every window of every group.
type folder struct {
	*partial.Plan

	r           *levelRun
	first, last int64   // windows that may have rows
	heads       []int64 // after how many windows to look whether LIMIT is satisfied
	subs        *partial.Worker
	frames      uint64 // of subqueries so far
	batched     bool   // each batch of groups is folded by itself: the states may be large
	member      []bool // groups of the present batch; nil: all

	counted     model.TimeRange // Range without what is read only for the steps to it
	units       []*read.Unit    // of the level, without the times of stored units
	needs       []plan.Column   // that targets must have
	refused     string          // why aggregates are not enough; "": they are
	stored      *partial.Plan   // of storedUnits; nil: none
	storedUnits []*read.Unit
	segments    []string // what EXPLAIN says of them
}

// task is a set of series of a unit that one worker folds.
type task struct {
	p   *partial.Plan
	u   *read.Unit
	cs  *read.Columns
	set *roaring.Bitmap
}

// open implements operator.
func (f *folder) open(r *levelRun) error {
	f.r, f.Did = r, r.x.prof.open(f)
	f.Table, f.subs, f.member = nil, nil, nil
	bounds := model.TimeRange{Min: model.MaxTime, Max: model.MinTime}
	if !r.l.Downsampled() {
		f.units = f.without(nil)
	}
	f.Parts = len(f.units) > 1
	for _, u := range slices.Concat(f.units, f.storedUnits) {
		bounds = bounds.Union(read.Bounds(u.Shard))
	}
	for i, sub := range r.subs {
		if sub != nil && r.passed[i] == nil {
			bounds = bounds.Union(sub.l.Bounds())
		}
	}
	bounds = bounds.Intersect(f.Range)
	if bounds.Empty() {
		bounds = model.TimeRange{Min: f.Range.Min, Max: f.Range.Min}
	}
	if f.batched = f.Large() && !r.takesRows(); !f.Large() {
		f.heads = f.firstWindows(bounds)
	}
	f.first, f.last = f.Prepare(bounds)
	if f.stored != nil {
		f.stored.Did = f.Did
		f.stored.Prepare(bounds)
	}
	r.windows = 1 + int(min(uint64(f.last-f.first), maxFirstCells))
	return nil
}

// maxFirstCells bounds the cells for which the first group gets room, whatever it has.
const maxFirstCells = 1 << 10

// wants implements operator.
func (f *folder) wants() ([]influxql.VarRef, model.TimeRange) { return f.Refs, f.Range }

// read implements operator. It folds the batch if the states may be large, unless
// all groups were folded before.
func (f *folder) read(batch []int32) error {
	if !f.batched {
		return nil
	}
	f.Table, f.member = nil, nil
	if len(batch) < len(f.r.groups.Names) {
		f.member = make([]bool, len(f.r.groups.Names))
		for _, g := range batch {
			f.member[g] = true
		}
	}
	return f.fold()
}

// newTable returns an empty table for all windows.
func (f *folder) newTable() *partial.Table {
	t := partial.NewTable(len(f.Slots), f.Windows.None(), f.first, f.last)
	t.Desc = !f.r.l.Asc
	t.Stop = new(admission.Stopper)
	*t.Stop = f.r.x.Stopper()
	return t
}

// run implements operator.
func (f *folder) run() error {
	if f.batched {
		return nil
	}
	if err := f.fold(); err != nil {
		return err
	}
	f.subs = partial.NewWorker(f.r.x.Budget, f.Plan, f.Range, f.Table)
	return nil
}

// states folds the rows of the measurements.
func (f *folder) states() error {
	if f.Direction() != 0 {
		return f.ends()
	}
	return f.all()
}

// fold folds the rows of the measurements, and settles ties as InfluxDB does.
func (f *folder) fold() error {
	begin := f.r.x.prof.start()
	if err := f.states(); err != nil {
		return err
	}
	if err := f.settleTies(); err != nil {
		return err
	}
	f.r.x.prof.operator(f, begin)
	return nil
}

// take implements operator.
func (f *folder) take(g int32, rs *rowset.Set) error {
	defer f.r.x.prof.operator(f, f.r.x.prof.start())
	// The first rows have the first place, in the level's direction.
	if f.frames++; f.r.l.Asc {
		f.subs.Order = f.frames << 32
	} else {
		f.subs.Order = -f.frames << 32
	}
	// Oldest rows first, so many at a time that the states cannot grow by much
	// before they are accounted for.
	block, n := f.r.x.stop.Block(), len(rs.Times)
	for lo := 0; lo < n; lo += block {
		hi := min(lo+block, n)
		part := rs.Slice(lo, hi)
		if !f.r.l.Asc {
			part = rs.Slice(n-hi, n-lo)
			part = *part.Clone()
			part.Reverse()
		}
		f.subs.FoldTable(g, part.Times, part.Cols)
		f.subs.Order += uint64(hi - lo)
		if bytes := f.Table.Bytes; bytes > 1<<16 {
			f.Table.Bytes = 0
			if err := f.r.x.Keep(bytes); err != nil {
				return err
			}
		}
		if err := cmp.Or(f.subs.Err, f.r.x.Check()); err != nil {
			return err
		}
	}
	return nil
}

// all folds all shards, or only as many windows as LIMIT wants.
func (f *folder) all() error {
	var keep func(g int32) bool
	if f.member != nil {
		keep = func(g int32) bool { return f.member[g] }
	}
	work := f.tasks(f.units, f.storedUnits, keep)
	rest := f.Range
	for _, n := range f.heads {
		head := rest
		if head.Max = f.StartOf(f.first+n) - 1; head.Max >= rest.Max {
			break
		}
		if err := f.scan(work, head, 0); err != nil || f.enough(head.Max) {
			return err
		}
		rest.Min = head.Max + 1
	}
	return f.scan(work, rest, 0)
}

// tasks deals the series of units out to workers, those of groups that keep
// accepts. nil accepts all.
func (f *folder) tasks(raw, stored []*read.Unit, keep func(g int32) bool) [][]task {
	workers := f.r.x.Workers
	work := make([][]task, workers)
	spread, used := 0, 1 // the workers that get something are the first ones
	deal := func(p *partial.Plan, u *read.Unit) {
		cs, ok := u.Bind(p.Refs)
		if !ok || !u.Range.Overlaps(p.Range) || !p.Bound(cs) {
			return
		}
		set := u.Series
		if keep != nil {
			if set = u.Subset(keep); set.IsEmpty() {
				return
			}
		}
		ps := read.Parts(set, workers)
		if len(ps) == 1 {
			work[spread%workers] = append(work[spread%workers], task{p, u, cs, set})
			used = max(used, min(spread+1, workers))
			spread++
			return
		}
		used = max(used, len(ps))
		for i := range ps {
			work[i] = append(work[i], task{p, u, cs, ps[i]})
		}
	}
	for _, u := range raw {
		deal(f.Plan, u)
	}
	for _, u := range stored {
		deal(f.stored, u)
	}
	return work[:used]
}

// scan folds the rows of tasks within rng, each worker into a table of its own, and
// merges the tables. dir is that of partial.Worker.ScanPart.
func (f *folder) scan(work [][]task, rng model.TimeRange, dir int) error {
	x := f.r.x
	tables := make([]*partial.Table, len(work))
	err := x.Parallel(len(work), func(i int) error {
		tables[i] = f.newTable()
		if i == 0 && f.Table != nil {
			tables[i] = f.Table
		}
		workers := map[*partial.Plan]*partial.Worker{}
		for _, t := range work[i] {
			r := rng
			if t.p == f.stored && r.Min == f.Range.Min {
				r.Min = t.p.Range.Min // of windows that begin before it
			}
			if !t.u.Range.Overlaps(r) {
				continue // not of the first windows
			}
			w := workers[t.p]
			if w == nil {
				w = partial.NewWorker(x.Budget, t.p, r, tables[i])
				workers[t.p] = w
			}
			if err := w.ScanPart(t.u, t.cs, t.set, dir); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.Table = tables[0]
	for _, t := range tables[1:] {
		f.Table.Merge(t, f.Slots)
	}
	if f.Parts && f.Stepped() {
		f.Table.Join(f.Plan)
	}
	n := f.Table.Bytes
	f.Table.Bytes = 0
	return x.Grow(n)
}

// firstWindows returns after how many windows, counted from the first, to check
// whether LIMIT is satisfied. It returns nil if all windows have to be folded. There
// are few checks, because each costs a walk over the series.
func (f *folder) firstWindows(bounds model.TimeRange) []int64 {
	l, p, n := f.r.l, f.Plan, int64(f.r.l.Wanted())
	switch {
	case n == 0 || n > 1<<16 || !l.Asc || p.Stepped() || p.Windows.None() || p.Windows.Loc != nil,
		l.Fill.NeedsNext(),
		len(f.r.operators) != 1,
		f.r.takesRows(),
		slices.ContainsFunc(f.r.calls, func(c *call) bool { return c.scan == nil && c.Type != model.Unknown }),
		bounds.Min < -1<<61 || bounds.Max > 1<<61,
		(bounds.Max-bounds.Min)/p.Windows.Every < 4*n:
		return nil
	}
	return []int64{n + 1, 16 * (n + 1)}
}

// enough reports whether the windows up to the time upTo give every group all
// rows that LIMIT leaves of it.
func (f *folder) enough(upTo int64) bool {
	l, p, n := f.r.l, f.Plan, f.r.l.Wanted()
	defer func() { p.Table.ByGroup = nil }() // windows may still come into it
	seen := make([]bool, len(p.Slots))
	for g := range f.r.groups.Names {
		rows, first, met := 0, int64(model.MaxTime), 0
		clear(seen)
		p.Table.Group(int32(g), func(window int64, st []partial.State) {
			any := false
			for i := range st {
				if st[i].N == 0 {
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
				first = min(first, p.StartOf(window))
			}
		})
		if rows >= n && met == len(seen) {
			continue
		}
		// Empty windows are rows as well, from the first value on or from where
		// the query begins; but not of a call that meets no value at all.
		if l.Fill.Skips() || met < len(seen) {
			return false
		}
		if start := l.Windows.Start(p.Range.Min); !l.Open && start != model.MinTime {
			first = start
		}
		if upTo < first || (upTo-first+1)/l.Windows.Every < int64(n) {
			return false
		}
	}
	return true
}

// ends answers first() or last() over all time. It reads shards from that end, and
// the series of a shard from that end, until every group has its value.
func (f *folder) ends() error {
	dir := f.Direction()
	us := slices.Concat(f.units, f.storedUnits)
	isStored := make(map[*read.Unit]bool, len(f.storedUnits))
	for _, u := range f.storedUnits {
		isStored[u] = true
	}
	slices.SortStableFunc(us, func(a, b *read.Unit) int {
		c := cmp.Compare(a.Range.Min, b.Range.Min)
		if dir < 0 {
			return -c
		}
		return c
	})
	f.Table = f.newTable()
	var keep func(g int32) bool
	for len(us) > 0 {
		// Units of equal times (of several retention policies) go together.
		n := 1
		for together := us[0].Range; n < len(us) && us[n].Range.Overlaps(together); n++ {
			together = together.Union(us[n].Range)
		}
		var raw, stored []*read.Unit
		for _, u := range us[:n] {
			if isStored[u] {
				stored = append(stored, u)
			} else {
				raw = append(raw, u)
			}
		}
		if err := f.scan(f.tasks(raw, stored, keep), f.Range, dir); err != nil {
			return err
		}
		us = us[n:]
		keep = func(g int32) bool { return f.Table.At(g, 0)[0].N == 0 }
	}
	return nil
}

// openStored selects the series of targets that the operators of the level read in place of
// series of the selection.
func (r *levelRun) openStored(sel read.Selection, names []string) error {
	for _, o := range r.operators {
		var err error
		switch o := o.(type) {
		case *folder:
			err = o.openStored(r, sel, names)
		case *reader:
			refused := r.callsOf(func(c *call) bool { return c.reader == o }) + " needs all rows"
			err = r.eachMeasurement(sel, names, func(src *plan.Source, m *read.Measurement) error {
				r.ask(src, m, &plan.Ask{Range: o.rng, Refused: refused})
				return nil
			})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// without returns the units of the level without the times of segments.
func (f *folder) without(covered map[*read.Measurement][]plan.Segment) []*read.Unit {
	return without(f.r.units, f.counted, covered, f.Stepped(), f.counted.Min-f.Range.Min)
}

// openStored selects the series of targets for a folder, and leaves their times out of the
// units of the level.
func (f *folder) openStored(r *levelRun, sel read.Selection, names []string) error {
	f.r, f.storedUnits, f.stored, f.segments = r, nil, nil, nil
	covered := map[*read.Measurement][]plan.Segment{}
	err := r.eachMeasurement(sel, names, func(src *plan.Source, m *read.Measurement) error {
		segments, kept := r.ask(src, m, &plan.Ask{
			Range: f.counted, Columns: f.needs, Refused: f.refused,
			Values: func(t *plan.Target, rng model.TimeRange) int64 {
				field := f.Refs[0].Val
				if t == nil {
					return int64(rowsOf(r.x.Ctx, m, field, rng))
				}
				column := plan.StoredColumn(f.needs[0].Function, f.needs[0].Field)
				return int64(rowsOf(r.x.Ctx, src.Stored(t, m.Name), column, rng) * float64(len(f.needs)))
			},
		})
		covered[m], f.segments = segments, append(f.segments, kept...)
		for _, s := range covered[m] {
			units, err := r.x.Units(r.groups, read.Selection{
				Sources: []*read.Measurement{src.Stored(&s.Target, m.Name)}, Where: r.l.Where, Keys: r.l.Dims, Range: s.TimeRange,
			})
			if err != nil {
				return err
			}
			f.storedUnits = append(f.storedUnits, units...)
			text := s.Note("rows", src.Policy)
			if slices.ContainsFunc(f.Slots, func(sl partial.Slot) bool { return sl.Kind == partial.Ranks }) {
				text += fmt.Sprintf("; percentiles and medians are estimates within %g %%", 100*quantiles.Error)
			}
			if len(units) > 0 && !slices.Contains(f.segments, text) {
				f.segments = append(f.segments, text)
				r.x.note(Note{Text: text})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	f.units = f.without(covered)
	if len(f.storedUnits) == 0 {
		return nil
	}
	f.stored = f.StoredOf(plan.StoredColumn)
	f.stored.Range = f.counted
	for _, u := range f.storedUnits {
		f.stored.Range = f.stored.Range.Union(u.Range)
	}
	return nil
}

// ask asks which segments of targets an operator reads in place of rows of a measurement. It
// notes what no rows are read for, and returns in words what targets are not read for,
// as the source has fewer values.
func (r *levelRun) ask(src *plan.Source, m *read.Measurement, ask *plan.Ask) (segments []plan.Segment, kept []string) {
	ask.Database, ask.Policy, ask.Measurement, ask.Windows = src.Database, src.Policy, m.Name, &r.l.Windows
	ask.Tags = slices.Clone(r.l.Dims)
	influxql.WalkFunc(r.l.Where, func(n influxql.Node) {
		if ref, ok := n.(*influxql.VarRef); ok && !expr.IsFieldRef(ref) {
			ask.Tags = append(ask.Tags, ref.Val)
		}
	})
	segments, unused := r.x.opt.Downsamples.Segments(ask)
	for _, u := range unused {
		if text := u.Note("rows", src.Policy); u.Lost {
			r.x.note(Note{Unused: true, Text: text})
		} else {
			kept = append(kept, text)
		}
	}
	return segments, kept
}

// eachMeasurement calls f for the measurements of a selection whose rows targets have.
func (r *levelRun) eachMeasurement(sel read.Selection, names []string, f func(src *plan.Source, m *read.Measurement) error) error {
	at := 0
	for _, src := range r.l.Sources {
		n := 1
		if src.Subquery == nil {
			n = len(model.InBoth(src.Names, names))
		}
		for _, m := range sel.Sources[at : at+n] {
			if m == nil || len(src.Targets()) == 0 {
				continue
			}
			if err := f(src, m); err != nil {
				return err
			}
		}
		at += n
	}
	return nil
}
