package expr

import (
	"cmp"
	"math"
	"regexp"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
)

// Operand is a column that takes part in an expression: a vector with a slot
// per row, or with one slot for all rows. A vector of type Unknown is
// null in every row. Operands are read-only; they may share memory with the
// columns they come from.
type Operand struct {
	Vector   column.Vector
	Constant bool
	Stored   bool // a field of a measurement: its nulls are points that lack it
	re       *regexp.Regexp
}

// Null returns an operand that is null in every row.
func Null() Operand { return Operand{Constant: true} }

// mask makes i&mask the slot of row i.
func (o *Operand) mask() int {
	if o.Constant {
		return 0
	}
	return -1
}

// IsNull reports whether the operand is null in row i.
func (o *Operand) IsNull(i int) bool {
	return o.Vector.Type == model.Unknown || !o.Vector.IsValid(i&o.mask())
}

// Floats returns the values as floats, converting if need be.
func (o *Operand) Floats() []float64 { return o.floats(nil) }

func (o *Operand) floats(memory *Scratch) []float64 {
	switch o.Vector.Type {
	case model.Integer:
		return convertTo(memory.floats(len(o.Vector.Ints)), o.Vector.Ints)
	case model.Unsigned:
		return convertTo(memory.floats(len(o.Vector.Uints)), o.Vector.Uints)
	}
	return o.Vector.Floats
}

func (o *Operand) uints() []uint64 {
	if o.Vector.Type == model.Integer {
		return convert[uint64](o.Vector.Ints)
	}
	return o.Vector.Uints
}

// bothValid returns the rows among n in which neither operand is null, nil for all.
func bothValid(a, b Operand, n int) column.Bitmap {
	if a.Constant && a.Vector.Valid == nil && !b.Constant {
		return b.Vector.Valid
	}
	if b.Constant && b.Vector.Valid == nil && !a.Constant {
		return a.Vector.Valid
	}
	if a.Vector.Valid == nil && b.Vector.Valid == nil {
		return nil
	}
	out := column.NewBitmap(n)
	for i := range n {
		if !a.IsNull(i) && !b.IsNull(i) {
			out.Set(i)
		}
	}
	return out
}

// Evaluator computes expressions over batches of n rows.
type Evaluator struct {
	Rows   int
	Lookup func(ref *influxql.VarRef) Operand
	Call   func(c *influxql.Call) (Operand, bool) // aggregate results; nil: none
	// FloatDivision makes integer / integer a float, as the select list does.
	FloatDivision bool
	Sets          map[*influxql.BinaryExpr]*ValueSet // of IN, made when first evaluated
	Scratch       *Scratch                           // memory of floats; nil: new memory
}

// Scratch is memory that results of an Evaluator lie in until it is reset.
type Scratch struct{ free, used [][]float64 }

// Reset ends the use of all results.
func (s *Scratch) Reset() {
	s.free, s.used = append(s.free, s.used...), s.used[:0]
}

// floats returns n zeros.
func (s *Scratch) floats(n int) (x []float64) {
	if s == nil {
		return make([]float64, n)
	}
	if last := len(s.free) - 1; last >= 0 {
		x, s.free = s.free[last], s.free[:last]
	}
	if cap(x) < n {
		x = make([]float64, n)
	}
	x = x[:n]
	clear(x)
	s.used = append(s.used, x)
	return x
}

// Eval returns the values of e.
func (ev *Evaluator) Eval(e influxql.Expr) Operand {
	switch e := e.(type) {
	case *influxql.ParenExpr:
		return ev.Eval(e.Expr)
	case *influxql.VarRef:
		return ev.Lookup(e)
	case *influxql.NumberLiteral:
		return constant(column.Vector{Type: model.Float, Floats: []float64{e.Val}})
	case *influxql.IntegerLiteral:
		return constant(column.Vector{Type: model.Integer, Ints: []int64{e.Val}})
	case *influxql.UnsignedLiteral:
		return constant(column.Vector{Type: model.Unsigned, Uints: []uint64{e.Val}})
	case *influxql.StringLiteral:
		return constant(column.Vector{Type: model.String, Strings: []string{e.Val}})
	case *influxql.BooleanLiteral:
		return constant(column.Vector{Type: model.Boolean, Bools: []bool{e.Val}})
	case *influxql.RegexLiteral:
		return Operand{Constant: true, re: e.Val}
	case *influxql.Call:
		if ev.Call != nil {
			if o, ok := ev.Call(e); ok {
				return o
			}
		}
		if !IsMathFunction(e.Name) || len(e.Args) != MathArgs(e.Name) {
			return Null()
		}
		args := make([]Operand, len(e.Args))
		for i := range e.Args {
			args[i] = ev.Eval(e.Args[i])
		}
		return evalMath(e.Name, args, ev.Rows)
	case *influxql.BinaryExpr:
		if members, negated, ok := SetMembers(e); ok {
			return ev.in(e, members, negated)
		}
		l, lok := e.LHS.(*influxql.VarRef)
		r, rok := e.RHS.(*influxql.VarRef)
		if !lok || !rok {
			return ev.binary(e.Op, ev.Eval(e.LHS), ev.Eval(e.RHS))
		}
		a, b := ev.Lookup(l), ev.Lookup(r)
		if !IsFieldRef(l) && !IsFieldRef(r) && (e.Op == influxql.EQ || e.Op == influxql.NEQ) {
			if e.Op == influxql.NEQ && l.Val == r.Val {
				return incomparable(e.Op) // also of a series that lacks the tag
			}
			return sameTags(e.Op, a, b)
		}
		return ev.binary(e.Op, nullIfTagMissing(l, a, r), nullIfTagMissing(r, b, l))
	}
	return Null()
}

// binary applies InfluxQL's rules for operands of all types: a comparison of
// what cannot be compared is false, arithmetic on it null; null and a
// boolean counts as false, unless the point lacks the field.
func (ev *Evaluator) binary(op influxql.Token, a, b Operand) Operand {
	n := ev.Rows
	if a.Constant && b.Constant {
		n = 1
	}
	var out Operand
	switch at, bt := a.Vector.Type, b.Vector.Type; {
	case b.re != nil:
		if at != model.String || (op != influxql.EQREGEX && op != influxql.NEQREGEX) {
			return incomparable(op)
		}
		out.Vector = matchRegex(a, b.re, op == influxql.NEQREGEX, n)
	case a.re != nil:
		return incomparable(op)
	case at == model.Boolean || bt == model.Boolean:
		if (at != model.Boolean && at != model.Unknown) || (bt != model.Boolean && bt != model.Unknown) {
			return mixedBool(op)
		}
		if IsComparison(op) && at != bt { // with a name that nothing has
			return incomparable(op)
		}
		v, ok := boolOp(op, a, b, n)
		if !ok {
			return Null()
		}
		out.Vector = v
	case at == model.Unknown || bt == model.Unknown:
		return incomparable(op)
	case at == model.String && bt == model.String:
		switch op {
		case influxql.EQ, influxql.NEQ:
			out.Vector = compareOp(op, a.Vector.Strings, b.Vector.Strings, a, b, n)
		default:
			return incomparable(op)
		}
	case at == model.String || bt == model.String:
		return incomparable(op)
	default:
		v, ok := ev.numeric(op, a, b, n)
		if !ok {
			return Null()
		}
		out.Vector = v
	}
	out.Constant = a.Constant && b.Constant
	return out
}

// sameTags compares two tags of a series: a tag that is missing equals none.
func sameTags(op influxql.Token, a, b Operand) Operand {
	same := a.Constant && b.Constant && a.Vector.Type == model.String && b.Vector.Type == model.String &&
		a.Vector.Strings[0] == b.Vector.Strings[0] && a.Vector.Strings[0] != ""
	return constant(column.Vector{Type: model.Boolean, Bools: []bool{same == (op == influxql.EQ)}})
}

// nullIfTagMissing returns the operand o of ref. If the other side of the operator is
// a field, a tag that the series lacks is null.
func nullIfTagMissing(ref *influxql.VarRef, o Operand, other *influxql.VarRef) Operand {
	if !IsFieldRef(ref) && IsFieldRef(other) && o.Constant && o.Vector.Type == model.String && o.Vector.Strings[0] == "" {
		return Null()
	}
	return o
}

// IsComparison reports whether op compares two values by order or equality.
func IsComparison(op influxql.Token) bool {
	switch op {
	case influxql.EQ, influxql.NEQ, influxql.LT, influxql.LTE, influxql.GT, influxql.GTE:
		return true
	}
	return false
}

// never is false in every row.
func never() Operand { return constant(column.Vector{Type: model.Boolean, Bools: []bool{false}}) }

// constant has the only value of v in every row.
func constant(v column.Vector) Operand { return Operand{Constant: true, Vector: v} }

// incomparable is the result for operands the operator has no rule for.
func incomparable(op influxql.Token) Operand {
	switch op {
	case influxql.EQ, influxql.NEQ, influxql.LT, influxql.LTE, influxql.GT, influxql.GTE, influxql.EQREGEX, influxql.NEQREGEX:
		return never()
	}
	return Null()
}

// mixedBool is the result for a boolean and a number or a string.
func mixedBool(op influxql.Token) Operand {
	switch op {
	case influxql.AND, influxql.OR, influxql.BITWISE_AND, influxql.BITWISE_OR, influxql.BITWISE_XOR:
		return never()
	}
	return incomparable(op)
}

func matchRegex(a Operand, re *regexp.Regexp, negate bool, n int) column.Vector {
	out := make([]bool, n)
	m := a.mask()
	for i := range out {
		if !a.IsNull(i) {
			out[i] = re.MatchString(a.Vector.Strings[i&m]) != negate
		}
	}
	return column.Vector{Type: model.Boolean, Bools: out}
}

func boolOp(op influxql.Token, a, b Operand, n int) (column.Vector, bool) {
	at, bt := a.Vector.Type == model.Boolean, b.Vector.Type == model.Boolean
	am, bm := a.mask(), b.mask()
	out := make([]bool, n)
	var valid column.Bitmap
	for i := range out {
		an, bn := a.IsNull(i), b.IsNull(i)
		if bn && !an && b.Stored {
			continue // boolean op nothing is false
		}
		if an && (bn || a.Stored) {
			// null op null, nothing op boolean: comparisons are false, the rest has no value.
			if !IsComparison(op) {
				if valid == nil {
					valid = allValid(n)
				}
				valid.Clear(i)
			}
			continue
		}
		x := at && !an && a.Vector.Bools[i&am]
		y := bt && !bn && b.Vector.Bools[i&bm]
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

func compareOp[T cmp.Ordered](op influxql.Token, x, y []T, a, b Operand, n int) column.Vector {
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
	if a.Vector.Valid != nil || b.Vector.Valid != nil {
		for i := range out {
			if a.IsNull(i) || b.IsNull(i) {
				out[i] = false
			}
		}
	}
	return column.Vector{Type: model.Boolean, Bools: out}
}

// numeric computes an operator over two numeric columns.
func (ev *Evaluator) numeric(op influxql.Token, a, b Operand, n int) (column.Vector, bool) {
	at, bt := a.Vector.Type, b.Vector.Type
	if IsComparison(op) {
		switch {
		case at == model.Float || bt == model.Float:
			return compareOp(op, a.Floats(), b.Floats(), a, b, n), true
		case at == bt && at == model.Integer:
			return compareOp(op, a.Vector.Ints, b.Vector.Ints, a, b, n), true
		case at == bt:
			return compareOp(op, a.Vector.Uints, b.Vector.Uints, a, b, n), true
		}
		return compareMixed(op, a, b, n), true
	}
	out := column.Vector{Valid: bothValid(a, b, n)}
	switch {
	case at == model.Float || bt == model.Float || (ev.FloatDivision && op == influxql.DIV && at == model.Integer && bt == model.Integer):
		out.Type, out.Floats = model.Float, ev.Scratch.floats(n)
		return out, floatOp(op, a.floats(ev.Scratch), b.floats(ev.Scratch), a.mask(), b.mask(), out.Floats)
	case at == model.Integer && bt == model.Integer:
		out.Type, out.Ints = model.Integer, make([]int64, n)
		return out, integerOp(op, a.Vector.Ints, b.Vector.Ints, a.mask(), b.mask(), out.Ints)
	}
	out.Type, out.Uints = model.Unsigned, make([]uint64, n)
	return out, integerOp(op, a.uints(), b.uints(), a.mask(), b.mask(), out.Uints)
}

// constantRows is for how many rows a constant operand is repeated.
const constantRows = 256

// arithmetic computes what all numbers have: a division by 0 is 0. A constant is
// repeated for some rows at a time, so that there is one loop for each operator.
func arithmetic[T int64 | uint64 | float64](op influxql.Token, x, y []T, am, bm int, out []T) bool {
	if am == bm {
		return arithmeticRows(op, x, y, out) // of two constants there is one row
	}
	var same [constantRows]T
	for i := range min(len(out), len(same)) {
		if same[i] = y[0]; am == 0 {
			same[i] = x[0]
		}
	}
	for lo := 0; lo < len(out); lo += len(same) {
		hi := min(lo+len(same), len(out))
		a, b := same[:hi-lo], same[:hi-lo]
		if am == 0 {
			b = y[lo:hi]
		} else {
			a = x[lo:hi]
		}
		if !arithmeticRows(op, a, b, out[lo:hi]) {
			return false
		}
	}
	return true
}

func arithmeticRows[T int64 | uint64 | float64](op influxql.Token, x, y, out []T) bool {
	x, y = x[:len(out)], y[:len(out)]
	switch op {
	case influxql.ADD:
		for i := range out {
			out[i] = x[i] + y[i]
		}
	case influxql.SUB:
		for i := range out {
			out[i] = x[i] - y[i]
		}
	case influxql.MUL:
		for i := range out {
			out[i] = x[i] * y[i]
		}
	case influxql.DIV:
		for i, d := range y {
			if d != 0 {
				out[i] = x[i] / d
			}
		}
	default:
		return false
	}
	return true
}

func floatOp(op influxql.Token, x, y []float64, am, bm int, out []float64) bool {
	if op != influxql.MOD {
		return arithmetic(op, x, y, am, bm, out)
	}
	for i := range out {
		out[i] = math.Mod(x[i&am], y[i&bm])
	}
	return true
}

func integerOp[T int64 | uint64](op influxql.Token, x, y []T, am, bm int, out []T) bool {
	switch op {
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
		return arithmetic(op, x, y, am, bm, out)
	}
	return true
}

// compareMixed compares integers with unsigned integers: a negative number is
// below all of them, equality goes by the bits.
func compareMixed(op influxql.Token, a, b Operand, n int) column.Vector {
	x, y := a.uints(), b.uints()
	am, bm := a.mask(), b.mask()
	signs := Operand{Vector: column.Vector{Type: model.Integer, Ints: make([]int64, n), Valid: bothValid(a, b, n)}}
	for i := range signs.Vector.Ints {
		c := cmp.Compare(x[i&am], y[i&bm])
		if op != influxql.EQ && op != influxql.NEQ {
			if a.Vector.Type == model.Integer && a.Vector.Ints[i&am] < 0 {
				c = -1
			} else if b.Vector.Type == model.Integer && b.Vector.Ints[i&bm] < 0 {
				c = 1
			}
		}
		signs.Vector.Ints[i] = int64(c)
	}
	zero := constant(column.Vector{Type: model.Integer, Ints: []int64{0}})
	return compareOp(op, signs.Vector.Ints, zero.Vector.Ints, signs, zero, n)
}

// SelectRows appends to dst the rows for which the condition holds. all
// reports that every row does, then dst is untouched.
func (ev *Evaluator) SelectRows(cond influxql.Expr, dst []int32) (rows []int32, all bool) {
	o := ev.Eval(cond)
	if o.Vector.Type != model.Boolean {
		return dst, false
	}
	if o.Constant {
		return dst, o.Vector.IsValid(0) && o.Vector.Bools[0]
	}
	for i, ok := range o.Vector.Bools {
		if ok && o.Vector.IsValid(i) {
			dst = append(dst, int32(i))
		}
	}
	return dst, len(dst) == ev.Rows
}

// Expand turns an operand into a column of n rows.
func (o *Operand) Expand(n int) column.Vector {
	if !o.Constant || o.Vector.Type == model.Unknown {
		if o.Constant {
			return column.Vector{}
		}
		return o.Vector
	}
	out := column.Vector{Type: o.Vector.Type}
	if !o.Vector.IsValid(0) {
		return column.Vector{}
	}
	switch o.Vector.Type {
	case model.Float:
		out.Floats = slices.Repeat(o.Vector.Floats[:1], n)
	case model.Integer:
		out.Ints = slices.Repeat(o.Vector.Ints[:1], n)
	case model.Unsigned:
		out.Uints = slices.Repeat(o.Vector.Uints[:1], n)
	case model.String:
		out.Strings = slices.Repeat(o.Vector.Strings[:1], n)
	case model.Boolean:
		out.Bools = slices.Repeat(o.Vector.Bools[:1], n)
	}
	return out
}

// ScalarOperand returns an operand that has the value in every row.
func ScalarOperand(s Scalar) Operand {
	v := column.Vector{Type: s.Type}
	if s.Type == model.Unknown {
		return Null()
	}
	AppendScalar(&v, s)
	return Operand{Constant: true, Vector: v}
}
