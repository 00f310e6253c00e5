package scan

import (
	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
)

// RowsChunk is a Chunk of rows in memory.
type RowsChunk struct {
	Rows   *column.Rows // at least one
	Absent []bool       // columns without values
	null   column.Vector
}

// Len returns the number of rows.
func (c *RowsChunk) Len() int { return len(c.Rows.Times) }

// Min returns the time of the first row.
func (c *RowsChunk) Min() int64 { return c.Rows.Times[0] }

// Max returns the time of the last row.
func (c *RowsChunk) Max() int64 { return c.Rows.Times[len(c.Rows.Times)-1] }

// Step returns 0: nobody has looked whether the times are regular.
func (c *RowsChunk) Step() int64 { return 0 }

// Times returns the times of the rows.
func (c *RowsChunk) Times() ([]int64, error) { return c.Rows.Times, nil }

// Stats returns false: there are no statistics.
func (c *RowsChunk) Stats(int, *Stats) bool { return false }

// Sum returns false: there are no statistics.
func (c *RowsChunk) Sum(int, *Stats) bool { return false }

// Count returns false: there are no statistics.
func (c *RowsChunk) Count(int) (int, bool) { return 0, false }

// Column returns the values of column i.
func (c *RowsChunk) Column(i int) (*column.Vector, error) {
	if c.Absent[i] {
		c.null.Nulls(model.Unknown, c.Len())
		return &c.null, nil
	}
	return &c.Rows.Cols[i], nil
}

// MayHaveNaN reports whether column i has a NaN.
func (c *RowsChunk) MayHaveNaN(i int) bool {
	return !c.Absent[i] && vector.HasNaN(c.Rows.Cols[i].Floats)
}

// TextBytes returns the bytes of the texts of column i.
func (c *RowsChunk) TextBytes(i int) (n int64) {
	if !c.Absent[i] {
		for _, text := range c.Rows.Cols[i].Strings {
			n += int64(len(text))
		}
	}
	return n
}
