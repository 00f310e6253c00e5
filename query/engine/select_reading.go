package engine

import "tsdbd/query/engine/rowset"

// rows returns the rows of a group for a call, nil if there are none. Its
// columns are those that the call wants; the first has no null.
func (c *call) rows(g int32) *rowset.Set {
	rs := c.reader.of(g)
	if rs == nil {
		return nil
	}
	part := rs.Pick(c.columns)
	return part.DropNulls()
}

// ties returns the order of rows of equal time that the function sees.
func (c *call) ties() rowset.Ties {
	if c.TagOrder {
		return rowset.BySeries
	}
	return rowset.AsInflux
}
