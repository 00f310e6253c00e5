package rowset

import (
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/expr"
)

// Set is a table of rows of one group, in order of time.
type Set struct {
	Times []int64
	Cols  []column.Vector // one per reference; Unknown is all null
	Table []column.Vector // cols and a place before them, for the times; or nil
}

// Slice returns the rows [lo, hi), which share the memory of rs.
func (rs *Set) Slice(lo, hi int) Set {
	out := Set{Times: rs.Times[lo:hi], Cols: make([]column.Vector, len(rs.Cols))}
	for i := range rs.Cols {
		if rs.Cols[i].Type != model.Unknown {
			out.Cols[i] = rs.Cols[i].Slice(lo, hi)
		}
	}
	return out
}

// Truncate drops the rows from n on. rs must own its memory.
func (rs *Set) Truncate(n int) {
	rs.Times = rs.Times[:n]
	for i := range rs.Cols {
		rs.Cols[i].Truncate(n)
	}
}

// Bytes returns the bytes that the rows hold.
func (rs *Set) Bytes() int64 {
	bytes, text := Bytes(rs.Cols, 0, len(rs.Times))
	return bytes + text
}

// Bytes returns the bytes that rows [lo, hi) of some columns and their times hold, and
// those of their strings.
func Bytes(cols []column.Vector, lo, hi int) (bytes, text int64) {
	bytes = 8 * int64(hi-lo)
	for i := range cols {
		bytes += expr.VectorBytes(cols[i].Type, hi-lo)
		text += expr.TextBytes(&cols[i], lo, hi)
	}
	return bytes, text
}

// Clone returns a copy that shares no memory with rs.
func (rs *Set) Clone() *Set {
	out := &Set{Times: slices.Clone(rs.Times), Cols: make([]column.Vector, len(rs.Cols))}
	for i := range rs.Cols {
		expr.Extend(&out.Cols[i], 0, &rs.Cols[i], 0, len(rs.Times))
	}
	return out
}

// Append adds the rows of o, which has the same columns.
func (rs *Set) Append(o *Set) {
	if len(rs.Times) == 0 {
		*rs = *o
		return
	}
	n := len(rs.Times)
	for i := range rs.Cols {
		expr.Extend(&rs.Cols[i], n, &o.Cols[i], 0, len(o.Times))
	}
	rs.Times = append(rs.Times, o.Times...)
}

// SlabRows is up to how many rows a group's columns of numbers are made in one
// piece of memory: many groups of few rows are mostly the price of allocating.
const SlabRows = 16

// Reserve makes room for n rows of numbers in an empty row set.
func (rs *Set) Reserve(n int) {
	ints, floats := n, 0
	for i := range rs.Cols {
		switch rs.Cols[i].Type {
		case model.Integer:
			ints += n
		case model.Float:
			floats += n
		}
	}
	i, f := make([]int64, ints), make([]float64, floats)
	rs.Times, i = i[:0:n], i[n:]
	for k := range rs.Cols {
		switch v := &rs.Cols[k]; v.Type {
		case model.Integer:
			v.Ints, i = i[:0:n], i[n:]
		case model.Float:
			v.Floats, f = f[:0:n], f[n:]
		}
	}
}

// Reverse turns the rows around.
func (rs *Set) Reverse() {
	slices.Reverse(rs.Times)
	for i := range rs.Cols {
		if rs.Cols[i].Type != model.Unknown {
			expr.ReverseRows(&rs.Cols[i], len(rs.Times))
		}
	}
}

// Permute returns the rows perm lists.
func (rs *Set) Permute(perm []int32) Set {
	out := Set{Times: expr.AppendTaken(nil, rs.Times, 0, 0, perm), Cols: make([]column.Vector, len(rs.Cols))}
	for i := range rs.Cols {
		if rs.Cols[i].Type != model.Unknown {
			out.Cols[i] = expr.Gather(&rs.Cols[i], perm)
		}
	}
	return out
}

// Pick returns the rows with some of the columns.
func (rs *Set) Pick(columns []int) Set {
	out := Set{Times: slices.Clip(rs.Times), Cols: make([]column.Vector, len(columns))}
	for i, k := range columns {
		out.Cols[i] = rs.Cols[k]
	}
	return out
}

// DropNulls removes the rows whose first column is null.
func (rs *Set) DropNulls() *Set {
	v := &rs.Cols[0]
	if v.Type == model.Unknown {
		return &Set{Cols: rs.Cols}
	}
	if v.Valid == nil {
		return rs
	}
	rows := []int32{} // not nil, which would be all
	for i := range rs.Times {
		if v.Valid.Get(i) {
			rows = append(rows, int32(i))
		}
	}
	if len(rows) == len(rs.Times) {
		return rs
	}
	out := rs.Permute(rows)
	out.Cols[0].Valid = nil
	return &out
}
