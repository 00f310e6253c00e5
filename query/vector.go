package query

import (
	"math"
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
)

// castVector returns v as a column of type t. Numbers turn into one another
// (floats are cut, signs wrap); other types have no conversion and give null.
func castVector(v *column.Vector, t model.FieldType) column.Vector {
	if v.Type == t {
		return *v
	}
	if !v.Type.Numeric() || !t.Numeric() {
		return column.Vector{}
	}
	o := operand{v: *v}
	out := column.Vector{Type: t, Valid: v.Valid}
	switch t {
	case model.Float:
		out.Floats = o.floats()
	case model.Integer:
		if v.Type == model.Float {
			out.Ints = make([]int64, len(v.Floats))
			for i, x := range v.Floats {
				out.Ints[i] = int64(x)
			}
		} else {
			out.Ints = o.ints()
		}
	case model.Unsigned:
		if v.Type == model.Float {
			out.Uints = make([]uint64, len(v.Floats))
			for i, x := range v.Floats {
				out.Uints[i] = uint64(x)
			}
		} else {
			out.Uints = o.uints()
		}
	}
	return out
}

// castable reports whether a field stored as from can be read as to.
func castable(from, to model.FieldType) bool {
	return from == to || from.Numeric() && to.Numeric()
}

// appendRows appends rows [lo, hi) of src, or with rows the ones it lists, to
// dst. A src of type Unknown appends nulls. dst of type Unknown takes src's
// type; it must then be empty.
func appendRows(dst *column.Vector, src *column.Vector, lo, hi int, rows []int32) {
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
		dst.Floats = take(dst.Floats, src.Floats, lo, hi, rows)
	case model.Integer:
		dst.Ints = take(dst.Ints, src.Ints, lo, hi, rows)
	case model.Unsigned:
		dst.Uints = take(dst.Uints, src.Uints, lo, hi, rows)
	case model.String:
		dst.Strings = take(dst.Strings, src.Strings, lo, hi, rows)
	case model.Boolean:
		dst.Bools = take(dst.Bools, src.Bools, lo, hi, rows)
	}
}

func take[T any](dst, src []T, lo, hi int, rows []int32) []T {
	if rows == nil {
		return append(dst, src[lo:hi]...)
	}
	dst = slices.Grow(dst, len(rows))
	for _, r := range rows {
		dst = append(dst, src[r])
	}
	return dst
}

// gather returns the rows of v that perm lists.
func gather(v *column.Vector, perm []int32) column.Vector {
	out := column.Vector{Type: v.Type}
	if v.Type == model.Unknown {
		return out
	}
	appendRows(&out, v, 0, 0, perm)
	return out
}

// reverseRows turns the rows of v around in place.
func reverseRows(v *column.Vector, n int) {
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

// scalar is one value of any type; the zero value is null.
type scalar struct {
	typ  model.FieldType
	bits uint64
	str  string
}

func scalarAt(v *column.Vector, i int) scalar {
	if v.Type == model.Unknown || !v.IsValid(i) {
		return scalar{}
	}
	switch v.Type {
	case model.Float:
		return scalar{typ: model.Float, bits: math.Float64bits(v.Floats[i])}
	case model.Integer:
		return scalar{typ: model.Integer, bits: uint64(v.Ints[i])}
	case model.Unsigned:
		return scalar{typ: model.Unsigned, bits: v.Uints[i]}
	case model.String:
		return scalar{typ: model.String, str: v.Strings[i]}
	case model.Boolean:
		if v.Bools[i] {
			return scalar{typ: model.Boolean, bits: 1}
		}
		return scalar{typ: model.Boolean}
	}
	return scalar{}
}

// appendScalar appends s, or null if it has another type than v.
func appendScalar(v *column.Vector, s scalar) {
	if s.typ == model.Unknown || s.typ != v.Type {
		v.AppendNull()
		return
	}
	if s.typ == model.String {
		var one column.Vector
		one.Type, one.Strings = model.String, []string{s.str}
		v.AppendFrom(&one, 0)
		return
	}
	v.AppendWord(s.bits, nil)
}

// castScalar converts s as castVector does, keeping what has no conversion.
func castScalar(s scalar, t model.FieldType) scalar {
	if s.typ == t || !s.typ.Numeric() || !t.Numeric() {
		return s
	}
	var f float64
	switch s.typ {
	case model.Float:
		f = math.Float64frombits(s.bits)
		if t == model.Integer {
			return scalar{typ: t, bits: uint64(int64(f))}
		}
		return scalar{typ: t, bits: uint64(f)}
	case model.Integer:
		if t == model.Float {
			return scalar{typ: t, bits: math.Float64bits(float64(int64(s.bits)))}
		}
	case model.Unsigned:
		if t == model.Float {
			return scalar{typ: t, bits: math.Float64bits(float64(s.bits))}
		}
	}
	return scalar{typ: t, bits: s.bits}
}

// vectorBytes is the memory n rows of type t take, roughly, without the bytes of
// strings.
func vectorBytes(t model.FieldType, n int) int64 {
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

// textBytes returns the bytes of the strings in rows [lo, hi) of v.
func textBytes(v *column.Vector, lo, hi int) (n int64) {
	if v.Type != model.String {
		return 0
	}
	for _, text := range v.Strings[lo:hi] {
		n += int64(len(text))
	}
	return n
}

// literalScalar returns the value of a literal, null for what is no number.
func literalScalar(v any) scalar {
	switch v := v.(type) {
	case float64:
		return floatScalar(v)
	case int64:
		return scalar{typ: model.Integer, bits: uint64(v)}
	case int:
		return scalar{typ: model.Integer, bits: uint64(int64(v))}
	case uint64:
		return scalar{typ: model.Unsigned, bits: v}
	}
	return scalar{}
}

func floatScalar(f float64) scalar {
	return scalar{typ: model.Float, bits: math.Float64bits(f)}
}
