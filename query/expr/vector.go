package expr

import (
	"math"
	"slices"

	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
)

// CastVector returns v as a column of type t. Numbers turn into one another
// (floats are cut, signs wrap); other types have no conversion and give null, as
// have NaN and infinities, which are no integers.
func CastVector(v *column.Vector, t model.FieldType) column.Vector {
	if v.Type == t {
		return *v
	}
	if !v.Type.Numeric() || !t.Numeric() {
		return column.Vector{}
	}
	out := column.Vector{Type: t, Valid: v.Valid}
	switch t {
	case model.Float:
		out.Floats = (&Operand{Vector: *v}).Floats()
	case model.Integer:
		if out.Ints = convert[int64](v.Uints); v.Type == model.Float {
			v := Finite(*v)
			out.Ints, out.Valid = convert[int64](v.Floats), v.Valid
		}
	case model.Unsigned:
		if out.Uints = convert[uint64](v.Ints); v.Type == model.Float {
			v := Finite(*v)
			out.Uints, out.Valid = convert[uint64](v.Floats), v.Valid
		}
	}
	return out
}

// Finite returns v with null for NaN and infinities.
func Finite(v column.Vector) column.Vector {
	no := func(x float64) bool { return x-x != 0 }
	if v.Type != model.Float || !slices.ContainsFunc(v.Floats, no) {
		return v
	}
	return nullIf(v, no)
}

// WithoutNaN returns v with null for NaN.
func WithoutNaN(v column.Vector) column.Vector {
	if v.Type != model.Float || !vector.HasNaN(v.Floats) {
		return v
	}
	return nullIf(v, func(x float64) bool { return x != x })
}

// nullIf returns a column of floats with null for some of them.
func nullIf(v column.Vector, no func(x float64) bool) column.Vector {
	valid, floats := column.NewBitmap(len(v.Floats)), slices.Clone(v.Floats)
	for i, x := range v.Floats {
		switch {
		case no(x):
			floats[i] = 0 // as in every null
		case v.IsValid(i):
			valid.Set(i)
		}
	}
	v.Floats, v.Valid = floats, valid
	return v
}

// convert turns numbers into numbers of another type: floats are cut, signs wrap.
func convert[U, T int64 | uint64 | float64](x []T) []U { return convertTo(make([]U, len(x)), x) }

func convertTo[U, T int64 | uint64 | float64](out []U, x []T) []U {
	out = out[:len(x)]
	for i, n := range x {
		out[i] = U(n)
	}
	return out
}

// Castable reports whether a field stored as from can be read as to.
func Castable(from, to model.FieldType) bool {
	return from == to || from.Numeric() && to.Numeric()
}

// AppendRows appends rows [lo, hi) of src, or with rows the ones it lists, to
// dst. A src of type Unknown appends nulls. dst of type Unknown takes src's
// type; it must then be empty.
func AppendRows(dst *column.Vector, src *column.Vector, lo, hi int, rows []int32) {
	n := hi - lo
	if rows != nil {
		n = len(rows)
	}
	if src.Type == model.Unknown || src.Type != dst.Type {
		for range n {
			dst.AppendNull()
		}
		return
	}
	if src.Valid != nil || dst.Valid != nil {
		if rows != nil {
			for _, r := range rows {
				dst.AppendFrom(src, int(r))
			}
			return
		}
		for i := lo; i < hi; i++ {
			dst.AppendFrom(src, i)
		}
		return
	}
	switch dst.Type {
	case model.Float:
		dst.Floats = AppendTaken(dst.Floats, src.Floats, lo, hi, rows)
	case model.Integer:
		dst.Ints = AppendTaken(dst.Ints, src.Ints, lo, hi, rows)
	case model.Unsigned:
		dst.Uints = AppendTaken(dst.Uints, src.Uints, lo, hi, rows)
	case model.String:
		dst.Strings = AppendTaken(dst.Strings, src.Strings, lo, hi, rows)
	case model.Boolean:
		dst.Bools = AppendTaken(dst.Bools, src.Bools, lo, hi, rows)
	}
}

// AppendTaken is AppendRows for slices.
func AppendTaken[T any](dst, src []T, lo, hi int, rows []int32) []T {
	if rows == nil {
		return append(dst, src[lo:hi]...)
	}
	dst = slices.Grow(dst, len(rows))
	for _, r := range rows {
		dst = append(dst, src[r])
	}
	return dst
}

// Extend appends rows of src to a column that has n rows. Either may be of
// type Unknown; columns of different types become the wider one if both are
// numbers, else what does not fit is null.
func Extend(dst *column.Vector, n int, src *column.Vector, lo, hi int) {
	switch {
	case src.Type == model.Unknown && dst.Type == model.Unknown:
		return
	case src.Type == model.Unknown:
		for range hi - lo {
			dst.AppendNull()
		}
		return
	case dst.Type == model.Unknown:
		dst.Type = src.Type
		for range n {
			dst.AppendNull()
		}
	case src.Type != dst.Type && src.Type.Numeric() && dst.Type == model.Float:
		v := CastVector(src, model.Float)
		src = &v
	case src.Type == model.Float && dst.Type.Numeric():
		*dst = CastVector(dst, model.Float)
	}
	AppendRows(dst, src, lo, hi, nil)
}

// Reserve makes room for n rows in an empty column.
func Reserve(v *column.Vector, n int) {
	v.Resize(n)
	v.Resize(0)
}

// Gather returns the rows of v that perm lists.
func Gather(v *column.Vector, perm []int32) column.Vector {
	out := column.Vector{Type: v.Type}
	if v.Type == model.Unknown {
		return out
	}
	AppendRows(&out, v, 0, 0, perm)
	return out
}

// ReverseRows turns the rows of v around in place.
func ReverseRows(v *column.Vector, n int) {
	slices.Reverse(v.Floats)
	slices.Reverse(v.Ints)
	slices.Reverse(v.Uints)
	slices.Reverse(v.Strings)
	slices.Reverse(v.Bools)
	if v.Valid != nil {
		old := v.Valid
		v.Valid = column.NewBitmap(n)
		for i := range n {
			if old.Get(i) {
				v.Valid.Set(n - 1 - i)
			}
		}
	}
}

// Scalar is one value of any type; the zero value is null.
type Scalar struct {
	Type model.FieldType
	Bits uint64
	Text string
}

// ScalarAt returns the value of v in row i.
func ScalarAt(v *column.Vector, i int) Scalar {
	if v.Type == model.Unknown || !v.IsValid(i) {
		return Scalar{}
	}
	if v.Type == model.String {
		return Scalar{Type: model.String, Text: v.Strings[i]}
	}
	return Scalar{Type: v.Type, Bits: v.Word(i)}
}

// AppendScalar appends s, or null if it has another type than v.
func AppendScalar(v *column.Vector, s Scalar) {
	if s.Type == model.Unknown || s.Type != v.Type {
		v.AppendNull()
		return
	}
	if s.Type == model.String {
		var one column.Vector
		one.Type, one.Strings = model.String, []string{s.Text}
		v.AppendFrom(&one, 0)
		return
	}
	v.AppendWord(s.Bits, nil)
}

// CastScalar converts s as CastVector does, keeping what has no conversion.
func CastScalar(s Scalar, t model.FieldType) Scalar {
	if s.Type == t || !s.Type.Numeric() || !t.Numeric() {
		return s
	}
	v := ScalarOperand(s).Vector
	v = CastVector(&v, t)
	return ScalarAt(&v, 0)
}

// VectorBytes is the memory n rows of type t take, roughly, without the bytes of
// strings.
func VectorBytes(t model.FieldType, n int) int64 {
	switch t {
	case model.Unknown:
		return 0
	case model.String:
		return 16 * int64(n)
	case model.Boolean:
		return int64(n)
	}
	return 8 * int64(n)
}

// TextBytes returns the bytes of the strings in rows [lo, hi) of v.
func TextBytes(v *column.Vector, lo, hi int) (n int64) {
	if v.Type != model.String {
		return 0
	}
	for _, text := range v.Strings[lo:hi] {
		n += int64(len(text))
	}
	return n
}

// LiteralScalar returns the value of a literal, null for what is no number.
func LiteralScalar(v any) Scalar {
	switch v := v.(type) {
	case float64:
		return FloatScalar(v)
	case int64:
		return Scalar{Type: model.Integer, Bits: uint64(v)}
	case int:
		return Scalar{Type: model.Integer, Bits: uint64(int64(v))}
	case uint64:
		return Scalar{Type: model.Unsigned, Bits: v}
	}
	return Scalar{}
}

// FloatScalar returns f as a Scalar.
func FloatScalar(f float64) Scalar {
	return Scalar{Type: model.Float, Bits: math.Float64bits(f)}
}
