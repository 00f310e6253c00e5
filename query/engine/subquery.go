package engine

import (
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/engine/function"
	"tsdbd/query/engine/plan"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
)

// subColumn says where a reference of the outer statement is found in the rows
// of a subquery.
type subColumn struct {
	field int // column of the inner frames, or -1
	tag   int // key of the inner series, or -1
	typ   model.FieldType
	as    bool // a value that has no conversion to typ stays as it is, else it is null
}

// mapSub resolves references against a subquery: its columns by name, the tags
// that top and bottom carry along, then the keys it groups by.
func mapSub(sub *plan.Level, refs []influxql.VarRef, anyTag bool) []subColumn {
	at, n := map[string]int{}, 0 // places of the columns; of equal names the first
	add := func(name string) {
		if _, ok := at[name]; !ok {
			at[name] = n
		}
		n++
	}
	for _, f := range sub.Statement.Fields {
		add(f.Name())
		for _, a := range function.TopArgs(f.Expr) {
			add(a.(*influxql.VarRef).Val)
		}
	}
	own := map[string]bool{}
	for _, d := range sub.Statement.Dimensions {
		if ref, ok := d.Expr.(*influxql.VarRef); ok {
			own[ref.Val] = true
		}
	}
	out := make([]subColumn, len(refs))
	for i := range refs {
		name := refs[i].Val
		out[i] = subColumn{field: -1, tag: -1, typ: expr.FieldType(refs[i].Type)}
		if k, ok := at[name]; ok {
			out[i].field = k
		} else if k, ok := slices.BinarySearch(sub.Dims, name); ok && (anyTag || own[name]) {
			out[i].tag = k
		}
	}
	return out
}

// subTies returns the order of rows of equal time of a level's sources: InfluxDB
// merges what subqueries read, and hands on the aggregates of one series after
// those of another.
func subTies(l *plan.Level) rowset.Ties {
	for _, src := range l.Sources {
		if src.Subquery != nil && len(src.Subquery.Calls) > 0 {
			return rowset.BySeries
		}
	}
	return rowset.AsInflux
}

// eachSub runs each subquery of a level once. It passes the rows that satisfy the
// level's condition to f, with their group of the level and with refs as columns. The
// rows come in the order of the sources and of the inner series.
func (r *levelRun) eachSub(refs []influxql.VarRef, f func(g int32, rs *rowset.Set) error) error {
	x, l, t := r.x, r.l, r.groups
	for i, run := range r.subs {
		if run == nil || r.passed[i] != nil {
			continue
		}
		sub := run.l
		cols := mapSub(sub, refs, false)
		for i := range cols {
			cols[i].as = len(l.Calls) == 0
		}
		var condRefs []influxql.VarRef
		condAt := map[influxql.VarRef]int{}
		influxql.WalkFunc(l.Where, func(n influxql.Node) {
			if ref, ok := n.(*influxql.VarRef); ok {
				condRefs, _ = expr.Place(condRefs, condAt, *ref)
			}
		})
		condCols := mapSub(sub, condRefs, true)
		keys := make([]int, len(l.Dims))
		for i, d := range l.Dims {
			keys[i] = slices.Index(sub.Dims, d)
		}
		tuple := make([]string, len(l.Dims))
		sets := map[*influxql.BinaryExpr]*expr.ValueSet{}
		err := run.run(func(fr *frame) error {
			if err := x.Check(); err != nil {
				return err
			}
			n := len(fr.times)
			rs := rowset.Set{Times: fr.times, Cols: make([]column.Vector, len(refs))}
			for i := range cols {
				rs.Cols[i] = cols[i].vector(fr, n)
			}
			if l.Where != nil {
				ev := expr.Evaluator{Rows: n, Sets: sets, Lookup: func(ref *influxql.VarRef) expr.Operand {
					i, ok := condAt[*ref]
					if !ok {
						return expr.Null()
					}
					c := &condCols[i]
					if c.field >= 0 {
						return expr.Operand{Vector: c.vector(fr, n)}
					}
					s := ""
					if c.tag >= 0 {
						s = fr.tuple[c.tag]
					}
					return expr.Operand{Constant: true, Vector: column.Vector{Type: model.String, Strings: []string{s}}}
				}}
				rows, all := ev.SelectRows(l.Where, nil)
				if !all {
					if len(rows) == 0 {
						return nil
					}
					rs = rs.Permute(rows)
				}
			}
			for i, k := range keys {
				tuple[i] = fr.tuple[k]
			}
			return f(t.ID(fr.name, slices.Clone(tuple)), &rs)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// passes returns what the columns of a subquery stand for, by name, if it only passes rows
// on to folders of the level, which then read its measurements in its place. Rows of equal
// time of several series come to a folder in another order then, so that it must not keep
// more of a row than its value and time. passes returns nil if the subquery has to run.
func (r *levelRun) passes(sub *levelRun) map[string]influxql.Expr {
	l, s := r.l, sub.l
	if max(l.SLimit, l.SOffset, s.SLimit, s.SOffset, s.Wanted(), s.Statement.Offset) > 0 || l.Where != nil ||
		len(s.Calls) > 0 || s.Fill.FillsRows() || s.HasSubs() || len(s.Names) > r.x.opt.partNames || len(sub.operators) == 0 {
		return nil
	}
	columns := map[string]influxql.Expr{}
	for _, o := range r.operators {
		f, ok := o.(*folder)
		if !ok || f.Range != l.Read || !f.AnyOrder() {
			return nil
		}
		for i, c := range mapSub(s, f.Refs, false) {
			switch {
			case c.tag >= 0 || c.field >= 0 && !nullOfNull(s.Fields[c.field]):
				return nil
			case c.field >= 0:
				columns[f.Refs[i].Val] = s.Fields[c.field]
			}
		}
	}
	return columns
}

// nullOfNull reports whether an expression has no value in a row that lacks one of its
// fields. Rows without any of these fields are then nothing to those who read the values.
func nullOfNull(e influxql.Expr) bool {
	if ref, ok := e.(*influxql.VarRef); ok {
		return expr.IsFieldRef(ref)
	}
	strict := true
	influxql.WalkFunc(e, func(n influxql.Node) {
		switch n := n.(type) {
		case *influxql.VarRef:
			strict = strict && expr.IsFieldRef(n) && expr.FieldType(n.Type).Numeric()
		case *influxql.BinaryExpr:
			switch n.Op {
			case influxql.ADD, influxql.SUB, influxql.MUL, influxql.DIV, influxql.MOD,
				influxql.BITWISE_AND, influxql.BITWISE_OR, influxql.BITWISE_XOR:
			default:
				strict = false
			}
		case *influxql.ParenExpr, *influxql.Call, *influxql.NumberLiteral, *influxql.IntegerLiteral, *influxql.UnsignedLiteral:
		default:
			strict = false
		}
	})
	return strict
}

// within returns the rows of a subquery that a call over rng sees; others were
// read for calls that look further back. A row of a window has its start.
func within(l *plan.Level, rs *rowset.Set, rng model.TimeRange) *rowset.Set {
	if rng == l.Read || l.Windows.None() {
		return rs
	}
	rng.Min = l.Windows.Start(rng.Min)
	lo, hi := 0, len(rs.Times)
	for lo < hi && !rng.Contains(rs.Times[lo]) {
		lo++
	}
	for lo < hi && !rng.Contains(rs.Times[hi-1]) {
		hi--
	}
	out := rs.Slice(lo, hi)
	return &out
}

// vector returns the column of a frame that a reference means. A NaN counts as no
// value.
func (c *subColumn) vector(f *frame, n int) column.Vector {
	switch {
	case c.tag >= 0:
		return column.Vector{Type: model.String, Strings: slices.Repeat(f.tuple[c.tag:c.tag+1], n)}
	case c.field < 0 || c.typ == model.Unknown:
		return column.Vector{}
	}
	v := expr.CastVector(&f.cols[c.field], c.typ)
	if c.as && v.Type == model.Unknown {
		v = f.cols[c.field]
	}
	return expr.WithoutNaN(v)
}
