package engine

import (
	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
	"tsdbd/query/result"
)

// seriesOut cuts the rows of one output series to LIMIT and OFFSET.
type seriesOut struct {
	r     *levelRun
	name  string
	tup   []string
	skip  int
	left  int           // -1: no limit
	carry []expr.Scalar // last values, for fill(previous)
	emit  func(*frame) error
}

// begin makes o the output of a group.
func (o *seriesOut) begin(r *levelRun, g int32, emit func(*frame) error) {
	l, t := r.l, r.groups
	*o = seriesOut{r: r, name: t.Names[g], tup: t.Tuples[g], skip: l.Statement.Offset, left: -1, emit: emit}
	if l.Statement.Limit > 0 {
		o.left = l.Statement.Limit
	}
	if l.Most > 0 && (o.left < 0 || o.left > l.Most) {
		o.left = l.Most
	}
}

// rows emits rows of what project made, and takes it over.
func (o *seriesOut) rows(times []int64, values []column.Vector) error {
	if err := o.r.x.Check(); err != nil {
		return err // the rows may be unfinished
	}
	cols := values[1:]
	lo, hi := 0, len(times)
	if o.skip > 0 {
		lo = min(o.skip, hi)
		o.skip -= lo
	}
	if o.left >= 0 {
		hi = min(hi, result.AddLimits(lo, o.left))
		o.left -= hi - lo
	}
	if lo >= hi {
		return nil
	}
	if lo > 0 || hi < len(times) {
		for i := range cols {
			if cols[i].Type != model.Unknown {
				cols[i] = cols[i].Slice(lo, hi)
			}
		}
	}
	return o.emit(&frame{name: o.name, tuple: o.tup, times: times[lo:hi:hi], cols: cols, values: values})
}

// full reports that no more rows are wanted.
func (o *seriesOut) full() bool { return o.left == 0 }

// project evaluates the select list over n rows. cols are the columns of refs,
// or nil where references are null. The columns begin at place 1: the first is
// left for the times. table is cols with a place before them, or nil.
func (r *levelRun) project(n int, cols, table []column.Vector, call func(*influxql.Call) (expr.Operand, bool)) []column.Vector {
	l := r.l
	if table != nil && r.plain() {
		return table
	}
	lookup := func(ref *influxql.VarRef) expr.Operand {
		i, ok := l.RefAt[*ref]
		if !ok || cols == nil || cols[i].Type == model.Unknown {
			return expr.Null()
		}
		return expr.Operand{Vector: cols[i]}
	}
	ev := expr.Evaluator{Rows: n, Lookup: lookup, Call: call, FloatDivision: true}
	values := make([]column.Vector, 1+len(l.Fields))
	for i, e := range l.Fields {
		if at := r.bare[i]; at >= 0 && cols != nil {
			if cols[at].Type != model.Unknown {
				values[1+i] = cols[at]
			}
			continue
		}
		o := ev.Eval(e)
		values[1+i] = o.Expand(n)
	}
	return values
}

// plain reports whether the select list is the level's columns, in their order.
func (r *levelRun) plain() bool {
	l := r.l
	if len(l.Fields) != len(l.Refs) {
		return false
	}
	for i, at := range r.bare {
		if i != at {
			return false
		}
	}
	return true
}

// rowset emits rows of the level's columns: it evaluates the select list.
func (o *seriesOut) rowset(rs *rowset.Set) error {
	l, n := o.r.l, len(rs.Times)
	if n == 0 {
		return nil
	}
	if l.Fill.FillsRows() {
		if o.carry == nil {
			o.carry = make([]expr.Scalar, len(rs.Cols))
		}
		for i := range rs.Cols {
			rs.Cols[i] = l.Fill.Column(rs.Cols[i], n, expr.FieldType(l.Refs[i].Type), &o.carry[i])
		}
	}
	begin := o.r.x.prof.start()
	cols := o.r.project(n, rs.Cols, rs.Table, nil)
	o.r.step("project", begin)
	return o.rows(rs.Times, cols)
}
