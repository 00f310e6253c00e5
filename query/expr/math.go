package expr

import (
	"math"

	"tsdbd/model"
	"tsdbd/model/column"
)

// mathFunction is a function of numbers, of one or of two.
type mathFunction struct {
	one       func(float64) float64
	two       func(x, y float64) float64
	KeepsType bool // integers stay integers
}

// MathFunctions are the functions of single numbers, which conditions may use
// as well.
var MathFunctions = map[string]mathFunction{
	"abs": {one: math.Abs, KeepsType: true}, "ceil": {one: math.Ceil, KeepsType: true}, "floor": {one: math.Floor, KeepsType: true},
	"round": {one: math.Round, KeepsType: true},
	"sin":   {one: math.Sin}, "cos": {one: math.Cos}, "tan": {one: math.Tan}, "asin": {one: math.Asin}, "acos": {one: math.Acos}, "atan": {one: math.Atan},
	"exp": {one: math.Exp}, "ln": {one: math.Log}, "log2": {one: math.Log2}, "log10": {one: math.Log10}, "sqrt": {one: math.Sqrt},
	"atan2": {two: math.Atan2}, "pow": {two: math.Pow}, "log": {two: func(x, y float64) float64 { return math.Log(x) / math.Log(y) }},
}

// MathArgs returns the number of arguments of a math function, 0 if name is none.
func MathArgs(name string) int {
	switch m, ok := MathFunctions[name]; {
	case !ok:
		return 0
	case m.two != nil:
		return 2
	}
	return 1
}

// IsMathFunction reports whether name is a function of single numbers.
func IsMathFunction(name string) bool { return MathArgs(name) > 0 }

// evalMath applies a math function to whole columns. Strings and booleans give nulls.
func evalMath(name string, args []Operand, n int) Operand {
	a := args[0]
	if !a.Vector.Type.Numeric() {
		return Null()
	}
	m := MathFunctions[name]
	if m.two != nil {
		return evalMath2(m.two, a, args[1], n)
	}
	if m.KeepsType && a.Vector.Type != model.Float {
		if name != "abs" || a.Vector.Type == model.Unsigned {
			return a
		}
		out := a
		out.Vector.Ints = make([]int64, len(a.Vector.Ints))
		for i, x := range a.Vector.Ints {
			out.Vector.Ints[i] = Abs(x)
		}
		return out
	}
	x := a.Floats()
	out := Operand{Constant: a.Constant, Vector: column.Vector{Type: model.Float, Floats: make([]float64, len(x)), Valid: a.Vector.Valid}}
	for i := range x {
		out.Vector.Floats[i] = m.one(x[i])
	}
	return out
}

func evalMath2(f func(x, y float64) float64, a, b Operand, n int) Operand {
	if !b.Vector.Type.Numeric() {
		return Null()
	}
	x, y := a.Floats(), b.Floats()
	out := Operand{Constant: a.Constant && b.Constant, Vector: column.Vector{Type: model.Float}}
	m := n
	if out.Constant {
		m = 1
	}
	out.Vector.Floats = make([]float64, m)
	xm, ym := a.mask(), b.mask()
	for i := range out.Vector.Floats {
		out.Vector.Floats[i] = f(x[i&xm], y[i&ym])
	}
	out.Vector.Valid = bothValid(a, b, m)
	return out
}

// ConstantMath folds math functions of constants when a select list is reduced.
// It knows no names.
type ConstantMath struct{}

// Value implements influxql.Valuer.
func (ConstantMath) Value(string) (any, bool) { return nil, false }

// Call implements influxql.CallValuer. What is not a number stays a call.
func (ConstantMath) Call(name string, args []any) (any, bool) {
	if !IsMathFunction(name) || len(args) != MathArgs(name) {
		return nil, false
	}
	operands := make([]Operand, len(args))
	for i, a := range args {
		operands[i] = ScalarOperand(LiteralScalar(a))
	}
	out := evalMath(name, operands, 1)
	switch out.Vector.Type {
	case model.Float:
		return out.Vector.Floats[0], true
	case model.Integer:
		return out.Vector.Ints[0], true
	}
	return nil, false
}

// Abs returns the absolute value of x.
func Abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}
