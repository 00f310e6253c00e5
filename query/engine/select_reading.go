package engine

import (
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
)

// rows returns the rows of a group for a call, nil if there are none. Its
// columns are those that the call wants; the first has no null.
func (c *call) rows(g int32) *rowset {
	rs := c.reader.of(g)
	if rs == nil {
		return nil
	}
	part := rs.pick(c.columns)
	return dropNulls(&part)
}

// pick returns the rows with some of the columns.
func (rs *rowset) pick(columns []int) rowset {
	out := rowset{times: slices.Clip(rs.times), cols: make([]column.Vector, len(columns))}
	for i, k := range columns {
		out.cols[i] = rs.cols[k]
	}
	return out
}

// ties returns the order of rows of equal time that the function sees.
func (c *call) ties() tieOrder {
	if c.tagOrder {
		return bySeries
	}
	return asInflux
}

// dropNulls removes the rows whose first column is null.
func dropNulls(rs *rowset) *rowset {
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
