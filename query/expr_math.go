package query

import (
	"math"

	"tsdbd/model"
	"tsdbd/model/column"
)

// mathArgs returns the number of arguments of a math function, 0 if name is none.
func mathArgs(name string) int {
	switch name {
	case "abs", "sin", "cos", "tan", "asin", "acos", "atan", "exp", "ln", "log2", "log10", "sqrt", "floor", "ceil", "round":
		return 1
	case "atan2", "pow", "log":
		return 2
	}
	return 0
}

func isMathFunction(name string) bool { return mathArgs(name) > 0 }

var floatFuncs = map[string]func(float64) float64{
	"abs": math.Abs, "sin": math.Sin, "cos": math.Cos, "tan": math.Tan, "asin": math.Asin, "acos": math.Acos,
	"atan": math.Atan, "exp": math.Exp, "ln": math.Log, "log2": math.Log2, "log10": math.Log10, "sqrt": math.Sqrt,
	"floor": math.Floor, "ceil": math.Ceil, "round": math.Round,
}

// evalMath applies a math function to whole columns. Strings and booleans give nulls.
func evalMath(name string, args []operand, n int) operand {
	a := args[0]
	if !a.v.Type.Numeric() {
		return null()
	}
	if len(args) == 2 {
		return evalMath2(name, a, args[1], n)
	}
	switch name {
	case "floor", "ceil", "round":
		if a.v.Type != model.Float {
			return a
		}
	case "abs":
		switch a.v.Type {
		case model.Unsigned:
			return a
		case model.Integer:
			out := a
			out.v.Ints = make([]int64, len(a.v.Ints))
			for i, x := range a.v.Ints {
				if x < 0 {
					x = -x
				}
				out.v.Ints[i] = x
			}
			return out
		}
	}
	f := floatFuncs[name]
	x := a.floats()
	out := operand{konst: a.konst, v: column.Vector{Type: model.Float, Floats: make([]float64, len(x)), Valid: a.v.Valid}}
	for i := range x {
		out.v.Floats[i] = f(x[i])
	}
	return out
}

func evalMath2(name string, a, b operand, n int) operand {
	if !b.v.Type.Numeric() {
		return null()
	}
	var f func(x, y float64) float64
	switch name {
	case "atan2":
		f = math.Atan2
	case "pow":
		f = math.Pow
	case "log":
		f = func(x, y float64) float64 { return math.Log(x) / math.Log(y) }
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
