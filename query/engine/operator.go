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
	// open chooses how to run. It reads no rows.
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
	subs      []*levelRun // as level.sources; nil for measurements
	calls     []*call     // as level.calls
	operators []operator  // none if the level has nothing to read
	bare      []int       // place in refs of fields that are no more than that, or -1

	groups *read.GroupTable // nil: the level is not open
	units  []*read.Unit

	did     levelProfile // of EXPLAIN ANALYZE
	out     seriesOut    // of the present group
	windows int          // cells of the group and call before: the next one has about as many
}

// newLevelRun lays out the operators of a level and of its subqueries.
func newLevelRun(x *exec, l *plan.Level) *levelRun {
	r := &levelRun{x: x, l: l, subs: make([]*levelRun, len(l.Sources))}
	for i, src := range l.Sources {
		if src.Subquery != nil {
			r.subs[i] = newLevelRun(x, src.Subquery)
		}
	}
	for _, f := range l.Fields {
		at := -1
		if ref, ok := f.(*influxql.VarRef); ok {
			at = slices.Index(l.Refs, *ref)
		}
		r.bare = append(r.bare, at)
	}
	r.layout()
	return r
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
	if err := r.open(); err != nil {
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
	for _, batch := range batches(r.groups.Order(l.Asc)) {
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
	return nil
}

// open selects the series of a level and opens its operators.
func (r *levelRun) open() (err error) {
	l := r.l
	r.groups = &read.GroupTable{}
	sel := read.Selection{Where: l.Where, Keys: l.Dims, Range: l.Read, Limit: l.SLimit, Offset: l.SOffset}
	for _, src := range l.Sources {
		if src.Subquery != nil {
			sel.Sources = append(sel.Sources, nil)
		} else {
			sel.Sources = append(sel.Sources, &src.Measurement)
		}
	}
	if r.units, err = r.x.Units(r.groups, sel); err != nil {
		return err
	}
	for _, o := range r.operators {
		if err := o.open(r); err != nil {
			return err
		}
	}
	return nil
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
	var refs []influxql.VarRef
	columns := make([][]int, len(r.operators)) // of refs, by operator
	for i, o := range r.operators {
		wanted, _ := o.wants()
		columns[i] = make([]int, len(wanted))
		for k := range wanted {
			refs, columns[i][k] = expr.AddRef(refs, wanted[k])
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
