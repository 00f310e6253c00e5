package query

import (
	"cmp"
	"math"
	"regexp"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
)

// operand is a column that takes part in an expression: a vector with a slot
// per row, or one slot that stands for all rows. A vector of type Unknown is
// null in every row. Operands are read-only; they may share memory with the
// columns they come from.
type operand struct {
	v      column.Vector
	konst  bool
	stored bool // a field of a measurement: its nulls are points that lack it
	re     *regexp.Regexp
}

func null() operand { return operand{konst: true} }

// mask makes i&mask the slot of row i.
func (o *operand) mask() int {
	if o.konst {
		return 0
	}
	return -1
}

func (o *operand) isNull(i int) bool {
	return o.v.Type == model.Unknown || !o.v.IsValid(i&o.mask())
}

// floats returns the values as floats, converting if need be.
func (o *operand) floats() []float64 {
	switch o.v.Type {
	case model.Integer:
		out := make([]float64, len(o.v.Ints))
		for i, x := range o.v.Ints {
			out[i] = float64(x)
		}
		return out
	case model.Unsigned:
		out := make([]float64, len(o.v.Uints))
		for i, x := range o.v.Uints {
			out[i] = float64(x)
		}
		return out
	}
	return o.v.Floats
}

func (o *operand) uints() []uint64 {
	if o.v.Type == model.Integer {
		out := make([]uint64, len(o.v.Ints))
		for i, x := range o.v.Ints {
			out[i] = uint64(x)
		}
		return out
	}
	return o.v.Uints
}

func (o *operand) ints() []int64 {
	if o.v.Type == model.Unsigned {
		out := make([]int64, len(o.v.Uints))
		for i, x := range o.v.Uints {
			out[i] = int64(x)
		}
		return out
	}
	return o.v.Ints
}

// bothValid returns the rows among n in which neither operand is null, nil for all.
func bothValid(a, b operand, n int) column.Bitmap {
	if a.konst && a.v.Valid == nil && !b.konst {
		return b.v.Valid
	}
	if b.konst && b.v.Valid == nil && !a.konst {
		return a.v.Valid
	}
	if a.v.Valid == nil && b.v.Valid == nil {
		return nil
	}
	out := column.NewBitmap(n)
	for i := range n {
		if !a.isNull(i) && !b.isNull(i) {
			out.Set(i)
		}
	}
	return out
}

// evaluator computes expressions over batches of n rows.
type evaluator struct {
	n      int
	lookup func(ref *influxql.VarRef) operand
	call   func(c *influxql.Call) (operand, bool) // aggregate results; nil: none
	// floatDivision makes integer / integer a float, as the select list does.
	floatDivision bool
	sets          map[*influxql.BinaryExpr]*valueSet // of IN, made when first evaluated
}

func (ev *evaluator) eval(e influxql.Expr) operand {
	switch e := e.(type) {
	case *influxql.ParenExpr:
		return ev.eval(e.Expr)
	case *influxql.VarRef:
		return ev.lookup(e)
	case *influxql.NumberLiteral:
		return operand{konst: true, v: column.Vector{Type: model.Float, Floats: []float64{e.Val}}}
	case *influxql.IntegerLiteral:
		return operand{konst: true, v: column.Vector{Type: model.Integer, Ints: []int64{e.Val}}}
	case *influxql.UnsignedLiteral:
		return operand{konst: true, v: column.Vector{Type: model.Unsigned, Uints: []uint64{e.Val}}}
	case *influxql.StringLiteral:
		return operand{konst: true, v: column.Vector{Type: model.String, Strings: []string{e.Val}}}
	case *influxql.BooleanLiteral:
		return operand{konst: true, v: column.Vector{Type: model.Boolean, Bools: []bool{e.Val}}}
	case *influxql.RegexLiteral:
		return operand{konst: true, re: e.Val}
	case *influxql.Call:
		if ev.call != nil {
			if o, ok := ev.call(e); ok {
				return o
			}
		}
		if !isMathFunction(e.Name) || len(e.Args) != mathArgs(e.Name) {
			return null()
		}
		args := make([]operand, len(e.Args))
		for i := range e.Args {
			args[i] = ev.eval(e.Args[i])
		}
		return evalMath(e.Name, args, ev.n)
	case *influxql.BinaryExpr:
		if members, negated, ok := setMembers(e); ok {
			return ev.in(e, members, negated)
		}
		l, lok := e.LHS.(*influxql.VarRef)
		r, rok := e.RHS.(*influxql.VarRef)
		if !lok || !rok {
			return ev.binary(e.Op, ev.eval(e.LHS), ev.eval(e.RHS))
		}
		a, b := ev.lookup(l), ev.lookup(r)
		if !isFieldRef(l) && !isFieldRef(r) && (e.Op == influxql.EQ || e.Op == influxql.NEQ) {
			return sameTags(e.Op, a, b)
		}
		return ev.binary(e.Op, beside(l, a, r), beside(r, b, l))
	}
	return null()
}

// binary applies InfluxQL's rules for operands of all types: a comparison of
// what cannot be compared is false, arithmetic on it null; null beside a
// boolean counts as false, unless the point lacks the field.
func (ev *evaluator) binary(op influxql.Token, a, b operand) operand {
	n := ev.n
	if a.konst && b.konst {
		n = 1
	}
	var out operand
	switch at, bt := a.v.Type, b.v.Type; {
	case b.re != nil:
		if at != model.String || (op != influxql.EQREGEX && op != influxql.NEQREGEX) {
			return incomparable(op)
		}
		out.v = matchRegex(a, b.re, op == influxql.NEQREGEX, n)
	case a.re != nil:
		return incomparable(op)
	case at == model.Boolean || bt == model.Boolean:
		if (at != model.Boolean && at != model.Unknown) || (bt != model.Boolean && bt != model.Unknown) {
			return mixedBool(op)
		}
		v, ok := boolOp(op, a, b, n)
		if !ok {
			return null()
		}
		out.v = v
	case at == model.Unknown || bt == model.Unknown:
		return incomparable(op)
	case at == model.String && bt == model.String:
		switch op {
		case influxql.EQ, influxql.NEQ:
			out.v = compareOp(op, a.v.Strings, b.v.Strings, a, b, n)
		default:
			return incomparable(op)
		}
	case at == model.String || bt == model.String:
		return incomparable(op)
	default:
		v, ok := ev.numeric(op, a, b, n)
		if !ok {
			return null()
		}
		out.v = v
	}
	out.konst = a.konst && b.konst
	return out
}

// sameTags compares two tags of a series: a tag that is missing equals none.
func sameTags(op influxql.Token, a, b operand) operand {
	same := a.konst && b.konst && a.v.Type == model.String && b.v.Type == model.String &&
		a.v.Strings[0] == b.v.Strings[0] && a.v.Strings[0] != ""
	return operand{konst: true, v: column.Vector{Type: model.Boolean, Bools: []bool{same == (op == influxql.EQ)}}}
}

// beside returns the operand o of ref where other stands on the other side: a
// tag that the series lacks is null beside a field.
func beside(ref *influxql.VarRef, o operand, other *influxql.VarRef) operand {
	if !isFieldRef(ref) && isFieldRef(other) && o.konst && o.v.Type == model.String && o.v.Strings[0] == "" {
		return null()
	}
	return o
}

func isComparison(op influxql.Token) bool {
	switch op {
	case influxql.EQ, influxql.NEQ, influxql.LT, influxql.LTE, influxql.GT, influxql.GTE:
		return true
	}
	return false
}

// incomparable is the result for operands the operator has no rule for.
func incomparable(op influxql.Token) operand {
	switch op {
	case influxql.EQ, influxql.NEQ, influxql.LT, influxql.LTE, influxql.GT, influxql.GTE, influxql.EQREGEX, influxql.NEQREGEX:
		return operand{konst: true, v: column.Vector{Type: model.Boolean, Bools: []bool{false}}}
	}
	return null()
}

// mixedBool is the result for a boolean beside a number or a string.
func mixedBool(op influxql.Token) operand {
	switch op {
	case influxql.AND, influxql.OR, influxql.BITWISE_AND, influxql.BITWISE_OR, influxql.BITWISE_XOR:
		return operand{konst: true, v: column.Vector{Type: model.Boolean, Bools: []bool{false}}}
	}
	return incomparable(op)
}

func matchRegex(a operand, re *regexp.Regexp, negate bool, n int) column.Vector {
	out := make([]bool, n)
	m := a.mask()
	for i := range out {
		if !a.isNull(i) {
			out[i] = re.MatchString(a.v.Strings[i&m]) != negate
		}
	}
	return column.Vector{Type: model.Boolean, Bools: out}
}

func boolOp(op influxql.Token, a, b operand, n int) (column.Vector, bool) {
	at, bt := a.v.Type == model.Boolean, b.v.Type == model.Boolean
	am, bm := a.mask(), b.mask()
	out := make([]bool, n)
	var valid column.Bitmap
	for i := range out {
		an, bn := a.isNull(i), b.isNull(i)
		if bn && !an && b.stored {
			continue // boolean op nothing is false
		}
		if an && (bn || a.stored) {
			// null op null, nothing op boolean: comparisons are false, the rest has no value.
			if !isComparison(op) {
				if valid == nil {
					valid = allValid(n)
				}
				valid.Clear(i)
			}
			continue
		}
		x := at && !an && a.v.Bools[i&am]
		y := bt && !bn && b.v.Bools[i&bm]
		switch op {
		case influxql.AND, influxql.BITWISE_AND:
			out[i] = x && y
		case influxql.OR, influxql.BITWISE_OR:
			out[i] = x || y
		case influxql.BITWISE_XOR, influxql.NEQ:
			out[i] = x != y
		case influxql.EQ:
			out[i] = x == y
		case influxql.LT, influxql.LTE, influxql.GT, influxql.GTE:
		default:
			return column.Vector{}, false
		}
	}
	return column.Vector{Type: model.Boolean, Bools: out, Valid: valid}, true
}

func allValid(n int) column.Bitmap {
	b := column.NewBitmap(n)
	for i := range b {
		b[i] = ^uint64(0)
	}
	return b
}

func compareOp[T cmp.Ordered](op influxql.Token, x, y []T, a, b operand, n int) column.Vector {
	out := make([]bool, n)
	am, bm := a.mask(), b.mask()
	switch op {
	case influxql.EQ:
		for i := range out {
			out[i] = x[i&am] == y[i&bm]
		}
	case influxql.NEQ:
		for i := range out {
			out[i] = x[i&am] != y[i&bm]
		}
	case influxql.LT:
		for i := range out {
			out[i] = x[i&am] < y[i&bm]
		}
	case influxql.LTE:
		for i := range out {
			out[i] = x[i&am] <= y[i&bm]
		}
	case influxql.GT:
		for i := range out {
			out[i] = x[i&am] > y[i&bm]
		}
	case influxql.GTE:
		for i := range out {
			out[i] = x[i&am] >= y[i&bm]
		}
	}
	if a.v.Valid != nil || b.v.Valid != nil {
		for i := range out {
			if a.isNull(i) || b.isNull(i) {
				out[i] = false
			}
		}
	}
	return column.Vector{Type: model.Boolean, Bools: out}
}

// numeric computes an operator over two numeric columns.
func (ev *evaluator) numeric(op influxql.Token, a, b operand, n int) (column.Vector, bool) {
	at, bt := a.v.Type, b.v.Type
	if isComparison(op) {
		switch {
		case at == model.Float || bt == model.Float:
			return compareOp(op, a.floats(), b.floats(), a, b, n), true
		case at == bt && at == model.Integer:
			return compareOp(op, a.v.Ints, b.v.Ints, a, b, n), true
		case at == bt:
			return compareOp(op, a.v.Uints, b.v.Uints, a, b, n), true
		}
		return compareMixed(op, a, b, n), true
	}
	out := column.Vector{Valid: bothValid(a, b, n)}
	switch {
	case at == model.Float || bt == model.Float || (ev.floatDivision && op == influxql.DIV && at == model.Integer && bt == model.Integer):
		out.Type, out.Floats = model.Float, make([]float64, n)
		return out, floatOp(op, a.floats(), b.floats(), a.mask(), b.mask(), out.Floats)
	case at == model.Integer && bt == model.Integer:
		out.Type, out.Ints = model.Integer, make([]int64, n)
		return out, integerOp(op, a.v.Ints, b.v.Ints, a.mask(), b.mask(), out.Ints)
	}
	out.Type, out.Uints = model.Unsigned, make([]uint64, n)
	return out, integerOp(op, a.uints(), b.uints(), a.mask(), b.mask(), out.Uints)
}

func floatOp(op influxql.Token, x, y []float64, am, bm int, out []float64) bool {
	switch op {
	case influxql.ADD:
		for i := range out {
			out[i] = x[i&am] + y[i&bm]
		}
	case influxql.SUB:
		for i := range out {
			out[i] = x[i&am] - y[i&bm]
		}
	case influxql.MUL:
		for i := range out {
			out[i] = x[i&am] * y[i&bm]
		}
	case influxql.DIV:
		for i := range out {
			if d := y[i&bm]; d != 0 {
				out[i] = x[i&am] / d
			}
		}
	case influxql.MOD:
		for i := range out {
			out[i] = math.Mod(x[i&am], y[i&bm])
		}
	default:
		return false
	}
	return true
}

func integerOp[T int64 | uint64](op influxql.Token, x, y []T, am, bm int, out []T) bool {
	switch op {
	case influxql.ADD:
		for i := range out {
			out[i] = x[i&am] + y[i&bm]
		}
	case influxql.SUB:
		for i := range out {
			out[i] = x[i&am] - y[i&bm]
		}
	case influxql.MUL:
		for i := range out {
			out[i] = x[i&am] * y[i&bm]
		}
	case influxql.DIV:
		for i := range out {
			if d := y[i&bm]; d != 0 {
				out[i] = x[i&am] / d
			}
		}
	case influxql.MOD:
		for i := range out {
			if d := y[i&bm]; d != 0 {
				out[i] = x[i&am] % d
			}
		}
	case influxql.BITWISE_AND:
		for i := range out {
			out[i] = x[i&am] & y[i&bm]
		}
	case influxql.BITWISE_OR:
		for i := range out {
			out[i] = x[i&am] | y[i&bm]
		}
	case influxql.BITWISE_XOR:
		for i := range out {
			out[i] = x[i&am] ^ y[i&bm]
		}
	default:
		return false
	}
	return true
}

// compareMixed compares integers with unsigned integers: a negative number is
// below all of them, equality goes by the bits.
func compareMixed(op influxql.Token, a, b operand, n int) column.Vector {
	x, y := a.uints(), b.uints()
	am, bm := a.mask(), b.mask()
	out := make([]bool, n)
	for i := range out {
		if a.isNull(i) || b.isNull(i) {
			continue
		}
		c := cmp.Compare(x[i&am], y[i&bm])
		if op != influxql.EQ && op != influxql.NEQ {
			if a.v.Type == model.Integer && a.v.Ints[i&am] < 0 {
				c = -1
			} else if b.v.Type == model.Integer && b.v.Ints[i&bm] < 0 {
				c = 1
			}
		}
		switch op {
		case influxql.EQ:
			out[i] = c == 0
		case influxql.NEQ:
			out[i] = c != 0
		case influxql.LT:
			out[i] = c < 0
		case influxql.LTE:
			out[i] = c <= 0
		case influxql.GT:
			out[i] = c > 0
		case influxql.GTE:
			out[i] = c >= 0
		}
	}
	return column.Vector{Type: model.Boolean, Bools: out}
}

// selectRows appends to dst the rows for which the condition holds. all
// reports that every row does, then dst is untouched.
func (ev *evaluator) selectRows(cond influxql.Expr, dst []int32) (rows []int32, all bool) {
	o := ev.eval(cond)
	if o.v.Type != model.Boolean {
		return dst, false
	}
	if o.konst {
		return dst, o.v.IsValid(0) && o.v.Bools[0]
	}
	for i, ok := range o.v.Bools {
		if ok && o.v.IsValid(i) {
			dst = append(dst, int32(i))
		}
	}
	return dst, len(dst) == ev.n
}

// expand turns an operand into a column of n rows.
func (o *operand) expand(n int) column.Vector {
	if !o.konst || o.v.Type == model.Unknown {
		if o.konst {
			return column.Vector{}
		}
		return o.v
	}
	out := column.Vector{Type: o.v.Type}
	if !o.v.IsValid(0) {
		return column.Vector{}
	}
	switch o.v.Type {
	case model.Float:
		out.Floats = repeat(o.v.Floats[0], n)
	case model.Integer:
		out.Ints = repeat(o.v.Ints[0], n)
	case model.Unsigned:
		out.Uints = repeat(o.v.Uints[0], n)
	case model.String:
		out.Strings = repeat(o.v.Strings[0], n)
	case model.Boolean:
		out.Bools = repeat(o.v.Bools[0], n)
	}
	return out
}

func repeat[T any](x T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = x
	}
	return out
}

// scalarOperand returns an operand that has the value in every row.
func scalarOperand(s scalar) operand {
	v := column.Vector{Type: s.typ}
	if s.typ == model.Unknown {
		return null()
	}
	appendScalar(&v, s)
	return operand{konst: true, v: v}
}
