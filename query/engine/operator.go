package engine

import (
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/query/engine/read"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
)

// operator is one step of a level: it reads rows of the sources, or folds them
// into partial aggregates. The plan of a level makes its operators, and a
// levelRun calls each in this order: open, run, take for all rows of subqueries,
// then read for each batch of groups.
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

// levelRun is a level under way.
type levelRun struct {
	x      *exec
	l      *level
	groups *read.GroupTable
	units  []*read.Unit

	out     seriesOut // of the present group
	windows int       // cells of the group and call before: the next one has about as many
}

// run executes a level and hands its rows to emit: series by series in order,
// the rows of each in order of time.
func (x *exec) run(l *level, emit func(*frame) error) error {
	if l.rng.Empty() || len(l.operators) == 0 {
		return nil
	}
	if x.prof != nil {
		counted, done := x.prof.frames(l, emit)
		defer done()
		emit = counted
	}
	r, err := x.open(l)
	if err != nil {
		return err
	}
	for _, o := range l.operators {
		if err := o.run(); err != nil {
			return err
		}
	}
	if err := r.subqueries(); err != nil {
		return err
	}
	for _, batch := range batches(r.groups.Order(l.asc)) {
		before := x.Used.Load()
		for _, o := range l.operators {
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
func (x *exec) open(l *level) (*levelRun, error) {
	r := &levelRun{x: x, l: l, groups: &read.GroupTable{}}
	l.run = r
	var err error
	sel := read.Selection{Where: l.cond, Keys: l.dims, Range: l.read, Limit: l.slimit, Offset: l.soffset}
	for _, src := range l.sources {
		if src.sub != nil {
			sel.Sources = append(sel.Sources, nil)
		} else {
			sel.Sources = append(sel.Sources, &src.Measurement)
		}
	}
	if r.units, err = x.Units(r.groups, sel); err != nil {
		return nil, err
	}
	for _, o := range l.operators {
		if err := o.open(r); err != nil {
			return nil, err
		}
	}
	return r, nil
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

// subqueries runs the subqueries of the level, once, and hands what they give to
// the operators.
func (r *levelRun) subqueries() error {
	l := r.l
	var refs []influxql.VarRef
	columns := make([][]int, len(l.operators)) // of refs, by operator
	for i, o := range l.operators {
		wanted, _ := o.wants()
		columns[i] = make([]int, len(wanted))
		for k := range wanted {
			refs, columns[i][k] = expr.AddRef(refs, wanted[k])
		}
	}
	return r.x.eachSub(l, r.groups, refs, func(g int32, rs *rowset.Set) error {
		for i, o := range l.operators {
			_, rng := o.wants()
			part := l.within(rs, rng).Pick(columns[i])
			if err := o.take(g, &part); err != nil {
				return err
			}
		}
		return nil
	})
}

// emitGroup emits the rows of one group.
func (r *levelRun) emitGroup(g int32, emit func(*frame) error) error {
	r.out.begin(r.l, r.groups, g, emit)
	if len(r.l.calls) > 0 {
		return r.emitCalls(g, &r.out)
	}
	return r.l.operators[0].(*reader).rows(g, &r.out)
}
