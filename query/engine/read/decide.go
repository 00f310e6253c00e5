package read

import (
	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/expr"
)

// decider finds out from the statistics of a chunk whether a predicate holds for
// none or for all of its rows, so that it need not be decoded to filter it.
type decider struct {
	cs    *Columns
	ev    expr.Evaluator
	ends  column.Vector // the least and the greatest value of a column
	stats scan.Stats
}

// newDecider returns nil if no comparison of the predicate can be decided.
func newDecider(cs *Columns) *decider {
	d := &decider{cs: cs}
	d.ev.Rows = 2
	d.ev.Lookup = func(*influxql.VarRef) expr.Operand { return expr.Operand{Vector: d.ends} }
	found := false
	influxql.WalkFunc(cs.Filter, func(n influxql.Node) {
		if e, ok := n.(*influxql.BinaryExpr); ok {
			_, decides := d.column(e)
			found = found || decides
		}
	})
	if !found {
		return nil
	}
	return d
}

// column returns the column of a comparison of a stored number with a literal.
func (d *decider) column(e *influxql.BinaryExpr) (*BoundColumn, bool) {
	if !expr.IsComparison(e.Op) || e.Op == influxql.EQREGEX || e.Op == influxql.NEQREGEX {
		return nil, false
	}
	ref, literal, ok := expr.Compared(e)
	if !ok {
		return nil, false
	}
	b := d.cs.refs[ref]
	if b.Tag || b.Index < 0 || b.Cast || !b.Type.Numeric() {
		return nil, false
	}
	switch lit := literal.(type) {
	case *influxql.NumberLiteral:
	case *influxql.IntegerLiteral:
		// Signs are not seen where signed and unsigned are compared for equality.
		if b.Type == model.Unsigned && lit.Val < 0 && (e.Op == influxql.EQ || e.Op == influxql.NEQ) {
			return nil, false
		}
	default:
		return nil, false
	}
	return &b, true
}

// decide reports whether e holds for none, or for all rows of the chunk of r.
func (d *decider) decide(e influxql.Expr, r *ChunkReader) (none, all bool) {
	switch e := e.(type) {
	case *influxql.ParenExpr:
		return d.decide(e.Expr, r)
	case *influxql.BinaryExpr:
		switch e.Op {
		case influxql.AND:
			none, all = d.decide(e.LHS, r)
			if none {
				return true, false
			}
			n, a := d.decide(e.RHS, r)
			return n, all && a
		case influxql.OR:
			none, all = d.decide(e.LHS, r)
			if all {
				return false, true
			}
			n, a := d.decide(e.RHS, r)
			return none && n, a
		}
		if b, ok := d.column(e); ok {
			return d.compare(e, b, r)
		}
	}
	return false, false
}

// compare decides a comparison by asking it of the column's ends: a comparison
// with a literal turns once at most from the least to the greatest value.
func (d *decider) compare(e *influxql.BinaryExpr, b *BoundColumn, r *ChunkReader) (none, all bool) {
	if !r.Stats(b.Index, &d.stats) {
		return false, false
	}
	if d.stats.Count == 0 {
		return true, false // a comparison with nothing is false
	}
	d.ends.Reset(b.Type)
	d.ends.AppendWord(d.stats.Min, nil)
	d.ends.AppendWord(d.stats.Max, nil)
	complete := d.stats.Count == r.c.Len()
	low, high, ok := d.ask(e, e.Op)
	if !ok {
		return false, false
	}
	if e.Op != influxql.EQ && e.Op != influxql.NEQ {
		return !low && !high, low && high && complete
	}
	equal := low && high // and so is all between
	if e.Op == influxql.NEQ {
		equal = !low && !high
	}
	lessLow, lessHigh, ok1 := d.ask(e, influxql.LT)
	moreLow, moreHigh, ok2 := d.ask(e, influxql.GT)
	apart := ok1 && ok2 && (lessLow && lessHigh || moreLow && moreHigh)
	if e.Op == influxql.EQ {
		return apart, equal && complete
	}
	return equal, apart && complete
}

// ask evaluates a comparison, with another operator, at both ends.
func (d *decider) ask(e *influxql.BinaryExpr, op influxql.Token) (low, high, ok bool) {
	o := d.ev.Eval(&influxql.BinaryExpr{Op: op, LHS: e.LHS, RHS: e.RHS})
	if o.Vector.Type != model.Boolean || o.Constant || len(o.Vector.Bools) != 2 || o.Vector.Valid != nil {
		return false, false, false
	}
	return o.Vector.Bools[0], o.Vector.Bools[1], true
}
