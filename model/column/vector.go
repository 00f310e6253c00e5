package column

import (
	"math"
	"strings"

	"tsdbd/model"
)

// Vector is a column of values of one type. Only the slice that belongs to
// Type is used; it has a slot for every row. Where Valid is not nil, rows whose
// bit is clear hold no value (null) and their slot is the zero value.
type Vector struct {
	Type    model.FieldType
	Floats  []float64
	Ints    []int64
	Uints   []uint64
	Strings []string
	Bools   []bool
	Valid   Bitmap
}

// Len returns the number of rows.
func (v *Vector) Len() int {
	switch v.Type {
	case model.Float:
		return len(v.Floats)
	case model.Integer:
		return len(v.Ints)
	case model.Unsigned:
		return len(v.Uints)
	case model.String:
		return len(v.Strings)
	case model.Boolean:
		return len(v.Bools)
	}
	return 0
}

// IsValid reports whether row i holds a value.
func (v *Vector) IsValid(i int) bool { return v.Valid == nil || v.Valid.Get(i) }

// Reset empties v, keeps its memory and sets its type.
func (v *Vector) Reset(t model.FieldType) {
	v.Type = t
	v.Floats, v.Ints, v.Uints, v.Strings, v.Bools = v.Floats[:0], v.Ints[:0], v.Uints[:0], v.Strings[:0], v.Bools[:0]
	v.Valid = nil
}

// Resize sets the number of rows to n, keeping what fits; slots that appear
// hold unspecified values. Valid is not touched.
func (v *Vector) Resize(n int) {
	switch v.Type {
	case model.Float:
		v.Floats = resize(v.Floats, n)
	case model.Integer:
		v.Ints = resize(v.Ints, n)
	case model.Unsigned:
		v.Uints = resize(v.Uints, n)
	case model.String:
		v.Strings = resize(v.Strings, n)
	case model.Boolean:
		v.Bools = resize(v.Bools, n)
	}
}

// Truncate drops the rows from n on. v must own its memory.
func (v *Vector) Truncate(n int) {
	v.Resize(n)
	v.trimValid(n)
}

func resize[T any](s []T, n int) []T {
	if cap(s) >= n {
		return s[:n]
	}
	return append(s[:cap(s)], make([]T, n-cap(s))...)
}

// Slice returns rows [lo, hi) of v, sharing its memory. Valid is copied if lo is not a
// multiple of 64.
func (v *Vector) Slice(lo, hi int) Vector {
	w := Vector{Type: v.Type}
	switch v.Type {
	case model.Float:
		w.Floats = v.Floats[lo:hi]
	case model.Integer:
		w.Ints = v.Ints[lo:hi]
	case model.Unsigned:
		w.Uints = v.Uints[lo:hi]
	case model.String:
		w.Strings = v.Strings[lo:hi]
	case model.Boolean:
		w.Bools = v.Bools[lo:hi]
	}
	if v.Valid != nil {
		w.Valid = v.Valid.slice(lo, hi)
	}
	return w
}

func (b Bitmap) slice(lo, hi int) Bitmap {
	if lo&63 == 0 {
		return b[lo>>6 : (hi+63)>>6]
	}
	out := NewBitmap(hi - lo)
	for i := lo; i < hi; i++ {
		if b.Get(i) {
			out.Set(i - lo)
		}
	}
	return out
}

// AppendNull appends a row without a value.
func (v *Vector) AppendNull() {
	n := v.Len()
	v.needValid(n)
	v.growValid(n + 1)
	v.Resize(n + 1)
	v.setZero(n)
}

// AppendFrom appends row i of w, which must have the same type.
func (v *Vector) AppendFrom(w *Vector, i int) {
	if !w.IsValid(i) {
		v.AppendNull()
		return
	}
	n := v.Len()
	switch v.Type {
	case model.Float:
		v.Floats = append(v.Floats, w.Floats[i])
	case model.Integer:
		v.Ints = append(v.Ints, w.Ints[i])
	case model.Unsigned:
		v.Uints = append(v.Uints, w.Uints[i])
	case model.String:
		v.Strings = append(v.Strings, w.Strings[i])
	case model.Boolean:
		v.Bools = append(v.Bools, w.Bools[i])
	}
	if v.Valid != nil {
		v.growValid(n + 1)
		v.Valid.Set(n)
	}
}

// Word returns the bits of a value as a word, 0 of a string.
func (v *Vector) Word(i int) uint64 {
	switch v.Type {
	case model.Float:
		return math.Float64bits(v.Floats[i])
	case model.Integer:
		return uint64(v.Ints[i])
	case model.Unsigned:
		return v.Uints[i]
	case model.Boolean:
		if v.Bools[i] {
			return 1
		}
	}
	return 0
}

// AppendWord appends a value given as a raw word (see point.Batch); for
// strings the text comes from strings.
func (v *Vector) AppendWord(w uint64, strings []byte) {
	n := v.Len()
	switch v.Type {
	case model.Float:
		v.Floats = append(v.Floats, math.Float64frombits(w))
	case model.Integer:
		v.Ints = append(v.Ints, int64(w))
	case model.Unsigned:
		v.Uints = append(v.Uints, w)
	case model.String:
		v.Strings = append(v.Strings, string(StringAt(w, strings)))
	case model.Boolean:
		v.Bools = append(v.Bools, w != 0)
	}
	if v.Valid != nil {
		v.growValid(n + 1)
		v.Valid.Set(n)
	}
}

// needValid makes Valid explicit, with the first n rows valid.
func (v *Vector) needValid(n int) {
	if v.Valid != nil {
		return
	}
	v.Valid = make(Bitmap, (n+63)/64, (n+64)/64+1)
	for i := 0; i < n>>6; i++ {
		v.Valid[i] = ^uint64(0)
	}
	if r := uint(n) & 63; r != 0 {
		v.Valid[n>>6] = 1<<r - 1
	}
}

func (v *Vector) growValid(n int) {
	for len(v.Valid) < (n+63)/64 {
		v.Valid = append(v.Valid, 0)
	}
}

func (v *Vector) setZero(i int) {
	switch v.Type {
	case model.Float:
		v.Floats[i] = 0
	case model.Integer:
		v.Ints[i] = 0
	case model.Unsigned:
		v.Uints[i] = 0
	case model.String:
		v.Strings[i] = ""
	case model.Boolean:
		v.Bools[i] = false
	}
}

// OwnStrings copies the texts from row lo on to memory of their own, all at once.
func (v *Vector) OwnStrings(lo int) {
	if v.Type != model.String || len(v.Strings) <= lo {
		return
	}
	texts, n := v.Strings[lo:], 0
	for _, s := range texts {
		n += len(s)
	}
	var all strings.Builder
	all.Grow(n)
	for _, s := range texts {
		all.WriteString(s)
	}
	rest := all.String()
	for i, s := range texts {
		texts[i], rest = rest[:len(s)], rest[len(s):]
	}
}
