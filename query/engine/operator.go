package engine

import (
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/query/engine/plan"
	"tsdbd/query/engine/read"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
)

// operator is one step of a level: it reads rows of the sources, or folds them into
// partial aggregates. A levelRun makes the operators of its level. It calls each in
// this order: open, run, take for all rows of subqueries, then read for each batch
// of groups.
type operator interface {
	// open chooses how to run for the units and groups of the level. It reads no rows.
	// An operator is opened again for other units.
	open(r *levelRun) error
	// wants returns the columns of subqueries that take expects, and their times.
	wants() ([]influxql.VarRef, model.TimeRange)
	// run does what all groups need before the first of them is emitted.
	run() error
	// take adds rows of a subquery to a group.
	take(g int32, rs *rowset.Set) error
	// read gets the rows of the groups that are emitted next.
	read(batch []int32) error
	// describe adds the operator to a plan, how it runs and why. It is open.
	describe(to *planNode) *planNode
}

// levelRun is a level that runs, or may run: its operators and those of its
// subqueries.
type levelRun struct {
	x         *exec
	l         *plan.Level
	subs      []*levelRun                // as level.sources; nil for measurements
	passed    []map[string]influxql.Expr // as subs; columns of those that folders read in their place, else nil
	calls     []*call                    // as level.calls
	operators []operator                 // none if the level has nothing to read
	folders   map[folderKey]*folder      // of operators, by what calls ask for
	readers   map[readerKey]*reader
	bare      []int // place in refs of fields that are no more than that, or -1

	groups  *read.GroupTable // nil: the level is not open
	units   []*read.Unit
	sources int // measurements and subqueries that are open

	did     levelProfile // of EXPLAIN ANALYZE
	out     seriesOut    // of the present group
	windows int          // cells of the group and call before, at first all windows: the next one has about as many
	lent    bool         // nobody needs a frame after it was emitted
}

// newLevelRun lays out the operators of a level and of its subqueries.
func newLevelRun(x *exec, l *plan.Level) (*levelRun, error) {
	r := &levelRun{
		x: x, l: l, subs: make([]*levelRun, len(l.Sources)),
		folders: map[folderKey]*folder{}, readers: map[readerKey]*reader{},
	}
	for i, src := range l.Sources {
		if src.Subquery != nil {
			var err error
			if r.subs[i], err = newLevelRun(x, src.Subquery); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range l.Fields {
		at := -1
		if ref, ok := f.(*influxql.VarRef); ok {
			at = l.RefAt[*ref]
		}
		r.bare = append(r.bare, at)
	}
	if err := r.layout(); err != nil {
		return nil, err
	}
	r.passed = make([]map[string]influxql.Expr, len(r.subs))
	for i, sub := range r.subs {
		if sub != nil {
			r.passed[i] = r.passes(sub)
			sub.lent = !slices.ContainsFunc(r.operators, func(o operator) bool { _, ok := o.(*reader); return ok })
		}
	}
	return r, nil
}

// takesRows reports whether operators take rows of a subquery.
func (r *levelRun) takesRows() bool {
	for i, sub := range r.subs {
		if sub != nil && r.passed[i] == nil {
			return true
		}
	}
	return false
}

// run executes the level and passes its rows to emit, series by series and each in
// order of time.
func (r *levelRun) run(emit func(*frame) error) error {
	x, l := r.x, r.l
	if l.Range.Empty() || len(r.operators) == 0 {
		return nil
	}
	if x.prof != nil {
		counted, done := r.did.frames(emit)
		defer done()
		emit = counted
	}
	mark := x.OpenUnits()
	parts, err := r.parts()
	if err != nil {
		return err
	}
	for _, names := range parts {
		if err := r.part(names, emit); err != nil {
			return err
		}
	}
	x.CloseUnits(mark)
	return nil
}

// partNames is how many measurements a level reads at once. Their groups come before
// those of the next ones, so that very many take no more memory.
const partNames = 256

// parts cuts the measurements of the level into parts, in the order of output. The groups
// of subqueries have no order, and EXPLAIN ANALYZE shows one run of the operators.
func (r *levelRun) parts() ([][]string, error) {
	names := r.l.Names
	if len(names) <= r.x.opt.partNames || r.l.HasSubs() || r.x.prof != nil {
		return [][]string{names}, nil
	}
	names, err := r.candidates(names)
	if err != nil {
		return nil, err
	}
	parts := slices.Collect(slices.Chunk(names, r.x.opt.partNames))
	if !r.l.Asc {
		slices.Reverse(parts)
	}
	return parts, nil
}

// candidates returns those of very many measurements that may have series which the WHERE
// clause selects.
func (r *levelRun) candidates(names []string) ([]string, error) {
	tags, _ := expr.SplitTags(r.l.Where, expr.IsFieldRef)
	if tags == nil {
		return names, nil
	}
	var found []string
	for _, src := range r.l.Sources {
		more, err := src.Having(r.x.Budget, tags, r.l.Read)
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	slices.Sort(found)
	return model.InBoth(names, found), nil
}

// part executes the level for some measurements.
func (r *levelRun) part(names []string, emit func(*frame) error) error {
	x := r.x
	used, mark := x.Used.Load(), x.OpenUnits()
	if err := r.open(names); err != nil {
		return err
	}
	for _, o := range r.operators {
		if err := o.run(); err != nil {
			return err
		}
	}
	if err := r.subqueries(); err != nil {
		return err
	}
	for _, batch := range batches(r.order()) {
		before := x.Used.Load()
		for _, o := range r.operators {
			if err := o.read(batch); err != nil {
				return err
			}
		}
		for _, g := range batch {
			if err := x.Check(); err != nil {
				return err
			}
			held := x.Used.Load()
			if err := r.emitGroup(g, emit); err != nil {
				return err
			}
			x.Used.Store(held)
		}
		x.Used.Store(before)
	}
	x.Used.Store(used)
	x.CloseUnits(mark)
	return nil
}

// open selects the series that a level has in the named measurements and opens its
// operators.
func (r *levelRun) open(names []string) (err error) {
	r.groups = &read.GroupTable{}
	sel := r.selection(names)
	r.sources = len(sel.Sources)
	if r.units, err = r.x.Units(r.groups, sel); err != nil {
		return err
	}
	for i, columns := range r.passed {
		if columns == nil {
			continue
		}
		sel := r.subs[i].selection(r.subs[i].l.Names)
		sel.Keys = r.l.Dims
		units, err := r.x.Units(r.groups, sel)
		if err != nil {
			return err
		}
		for _, u := range units {
			u.Columns = columns
		}
		r.units = append(r.units, units...)
	}
	if r.l.Downsampled() {
		if err := r.openStored(sel, names); err != nil {
			return err
		}
	}
	for _, o := range r.operators {
		if err := o.open(r); err != nil {
			return err
		}
	}
	return nil
}

// selection says which series the level has in the named measurements.
func (r *levelRun) selection(names []string) read.Selection {
	l := r.l
	sel := read.Selection{Where: l.Where, Keys: l.Dims, Range: l.Read}
	if !r.cuts() {
		sel.Limit, sel.Offset = l.SLimit, l.SOffset
	}
	for _, src := range l.Sources {
		if src.Subquery != nil {
			sel.Sources = append(sel.Sources, nil)
			continue
		}
		for _, name := range model.InBoth(src.Names, names) {
			sel.Sources = append(sel.Sources, src.Measurement(name))
		}
	}
	return sel
}

// cuts reports whether order cuts the groups to SLIMIT and SOFFSET: they are those of several
// sources.
func (r *levelRun) cuts() bool { return r.l.HasSubs() || r.l.Downsampled() }

// order returns the groups in the order of output. The groups of each name that rows of
// subqueries have are cut to SLIMIT and SOFFSET.
func (r *levelRun) order() []int32 {
	l := r.l
	all := r.groups.Order(l.Asc)
	if !r.cuts() || l.SLimit == 0 && l.SOffset == 0 {
		return all
	}
	if !l.Asc {
		all = r.groups.Order(true)
	}
	var kept []int32
	n := 0 // of the groups of the name
	for i, g := range all {
		if i > 0 && r.groups.Names[g] != r.groups.Names[all[i-1]] {
			n = 0
		}
		if n >= l.SOffset && (l.SLimit == 0 || n-l.SOffset < l.SLimit) {
			kept = append(kept, g)
		}
		n++
	}
	if !l.Asc {
		slices.Reverse(kept)
	}
	return kept
}

// batches cuts the groups into runs that are read together: few, so that each
// costs one walk over the shards, but enough that the first rows of many
// groups do not wait for the last.
func batches(order []int32) [][]int32 {
	if len(order) == 0 {
		return nil
	}
	return slices.Collect(slices.Chunk(order, batchSize(len(order))))
}

func batchSize(groups int) int { return max(256, groups/32) }

// subqueries runs each subquery of the level once and passes its rows to the
// operators.
func (r *levelRun) subqueries() error {
	if !r.takesRows() {
		return nil
	}
	var refs []influxql.VarRef
	places := map[influxql.VarRef]int{}
	columns := make([][]int, len(r.operators)) // of refs, by operator
	for i, o := range r.operators {
		wanted, _ := o.wants()
		columns[i] = make([]int, len(wanted))
		for k := range wanted {
			refs, columns[i][k] = expr.Place(refs, places, wanted[k])
		}
	}
	return r.eachSub(refs, func(g int32, rs *rowset.Set) error {
		for i, o := range r.operators {
			_, rng := o.wants()
			part := within(r.l, rs, rng).Pick(columns[i])
			if err := o.take(g, &part); err != nil {
				return err
			}
		}
		return nil
	})
}

// emitGroup emits the rows of one group.
func (r *levelRun) emitGroup(g int32, emit func(*frame) error) error {
	r.out.begin(r, g, emit)
	if len(r.calls) > 0 {
		return r.emitCalls(g, &r.out)
	}
	return r.operators[0].(*reader).rows(g, &r.out)
}
