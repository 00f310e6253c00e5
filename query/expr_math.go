package query

import (
	"math"

	"tsdbd/model"
	"tsdbd/model/column"
)

// mathFunction is a function of numbers, of one or of two.
type mathFunction struct {
	one       func(float64) float64
	two       func(x, y float64) float64
	keepsType bool // integers stay integers
}

// mathFunctions are the functions of single numbers, which conditions may use
// as well.
var mathFunctions = map[string]mathFunction{
	"abs": {one: math.Abs, keepsType: true}, "ceil": {one: math.Ceil, keepsType: true}, "floor": {one: math.Floor, keepsType: true},
	"round": {one: math.Round, keepsType: true},
	"sin":   {one: math.Sin}, "cos": {one: math.Cos}, "tan": {one: math.Tan}, "asin": {one: math.Asin}, "acos": {one: math.Acos}, "atan": {one: math.Atan},
	"exp": {one: math.Exp}, "ln": {one: math.Log}, "log2": {one: math.Log2}, "log10": {one: math.Log10}, "sqrt": {one: math.Sqrt},
	"atan2": {two: math.Atan2}, "pow": {two: math.Pow}, "log": {two: func(x, y float64) float64 { return math.Log(x) / math.Log(y) }},
}

// mathArgs returns the number of arguments of a math function, 0 if name is none.
func mathArgs(name string) int {
	switch m, ok := mathFunctions[name]; {
	case !ok:
		return 0
	case m.two != nil:
		return 2
	}
	return 1
}

func isMathFunction(name string) bool { return mathArgs(name) > 0 }

// evalMath applies a math function to whole columns. Strings and booleans give nulls.
func evalMath(name string, args []operand, n int) operand {
	a := args[0]
	if !a.v.Type.Numeric() {
		return null()
	}
	m := mathFunctions[name]
	if m.two != nil {
		return evalMath2(m.two, a, args[1], n)
	}
	if m.keepsType && a.v.Type != model.Float {
		if name != "abs" || a.v.Type == model.Unsigned {
			return a
		}
		out := a
		out.v.Ints = make([]int64, len(a.v.Ints))
		for i, x := range a.v.Ints {
			out.v.Ints[i] = abs(x)
		}
		return out
	}
	x := a.floats()
	out := operand{konst: a.konst, v: column.Vector{Type: model.Float, Floats: make([]float64, len(x)), Valid: a.v.Valid}}
	for i := range x {
		out.v.Floats[i] = m.one(x[i])
	}
	return out
}

func evalMath2(f func(x, y float64) float64, a, b operand, n int) operand {
	if !b.v.Type.Numeric() {
		return null()
	}
	x, y := a.floats(), b.floats()
	out := operand{konst: a.konst && b.konst, v: column.Vector{Type: model.Float}}
	m := n
	if out.konst {
		m = 1
	}
	out.v.Floats = make([]float64, m)
	xm, ym := a.mask(), b.mask()
	for i := range out.v.Floats {
		out.v.Floats[i] = f(x[i&xm], y[i&ym])
	}
	out.v.Valid = bothValid(a, b, m)
	return out
}

// constantMath folds math functions of constants when a select list is reduced.
// It knows no names.
type constantMath struct{}

// Value implements influxql.Valuer.
func (constantMath) Value(string) (any, bool) { return nil, false }

// Call implements influxql.CallValuer. What is not a number stays a call.
func (constantMath) Call(name string, args []any) (any, bool) {
	if !isMathFunction(name) || len(args) != mathArgs(name) {
		return nil, false
	}
	operands := make([]operand, len(args))
	for i, a := range args {
		operands[i] = scalarOperand(literalScalar(a))
	}
	out := evalMath(name, operands, 1)
	switch out.v.Type {
	case model.Float:
		return out.v.Floats[0], true
	case model.Integer:
		return out.v.Ints[0], true
	}
	return nil, false
}

func abs(x int64) int64 {
	if x < 0 {
		return -x
	}
	return x
}
