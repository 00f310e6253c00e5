package engine

import (
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query/expr"
)

// rowset is a table of rows of one group, in order of time.
type rowset struct {
	times []int64
	cols  []column.Vector // one per reference; Unknown is all null
	table []column.Vector // cols and a place before them, for the times; or nil
}

func (rs *rowset) slice(lo, hi int) rowset {
	out := rowset{times: rs.times[lo:hi], cols: make([]column.Vector, len(rs.cols))}
	for i := range rs.cols {
		if rs.cols[i].Type != model.Unknown {
			out.cols[i] = rs.cols[i].Slice(lo, hi)
		}
	}
	return out
}

func (rs *rowset) bytes() int64 {
	n := int64(8 * len(rs.times))
	for i := range rs.cols {
		n += expr.VectorBytes(rs.cols[i].Type, len(rs.times))
		n += expr.TextBytes(&rs.cols[i], 0, len(rs.times))
	}
	return n
}

// clone returns a copy that shares no memory with rs.
func (rs *rowset) clone() *rowset {
	out := &rowset{times: slices.Clone(rs.times), cols: make([]column.Vector, len(rs.cols))}
	for i := range rs.cols {
		expr.Extend(&out.cols[i], 0, &rs.cols[i], 0, len(rs.times))
	}
	return out
}

// append adds the rows of o, which has the same columns.
func (rs *rowset) append(o *rowset) {
	if len(rs.times) == 0 {
		*rs = *o
		return
	}
	n := len(rs.times)
	for i := range rs.cols {
		expr.Extend(&rs.cols[i], n, &o.cols[i], 0, len(o.times))
	}
	rs.times = append(rs.times, o.times...)
}

// slabRows is up to how many rows a group's columns of numbers are made in one
// piece of memory: many groups of few rows are mostly the price of allocating.
const slabRows = 16

// reserve makes room for n rows of numbers in an empty row set.
func (rs *rowset) reserve(n int) {
	ints, floats := n, 0
	for i := range rs.cols {
		switch rs.cols[i].Type {
		case model.Integer:
			ints += n
		case model.Float:
			floats += n
		}
	}
	i, f := make([]int64, ints), make([]float64, floats)
	rs.times, i = i[:0:n], i[n:]
	for k := range rs.cols {
		switch v := &rs.cols[k]; v.Type {
		case model.Integer:
			v.Ints, i = i[:0:n], i[n:]
		case model.Float:
			v.Floats, f = f[:0:n], f[n:]
		}
	}
}

// reverse turns the rows around.
func (rs *rowset) reverse() {
	slices.Reverse(rs.times)
	for i := range rs.cols {
		if rs.cols[i].Type != model.Unknown {
			expr.ReverseRows(&rs.cols[i], len(rs.times))
		}
	}
}

// permute returns the rows perm lists.
func (rs *rowset) permute(perm []int32) rowset {
	out := rowset{times: expr.AppendTaken(nil, rs.times, 0, 0, perm), cols: make([]column.Vector, len(rs.cols))}
	for i := range rs.cols {
		if rs.cols[i].Type != model.Unknown {
			out.cols[i] = expr.Gather(&rs.cols[i], perm)
		}
	}
	return out
}

// pick returns the rows with some of the columns.
func (rs *rowset) pick(columns []int) rowset {
	out := rowset{times: slices.Clip(rs.times), cols: make([]column.Vector, len(columns))}
	for i, k := range columns {
		out.cols[i] = rs.cols[k]
	}
	return out
}

// dropNulls removes the rows whose first column is null.
func (rs *rowset) dropNulls() *rowset {
	v := &rs.cols[0]
	if v.Type == model.Unknown {
		return &rowset{cols: rs.cols}
	}
	if v.Valid == nil {
		return rs
	}
	var rows []int32
	for i := range rs.times {
		if v.Valid.Get(i) {
			rows = append(rows, int32(i))
		}
	}
	if len(rows) == len(rs.times) {
		return rs
	}
	if rows == nil {
		rows = []int32{}
	}
	out := rs.permute(rows)
	out.cols[0].Valid = nil
	return &out
}
