// Package rows shows rows in memory as a chunk of a scan.
package rows

import (
	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// Chunk is a scan.Chunk of rows in memory.
type Chunk struct {
	Rows   *column.Rows // at least one
	Absent []bool       // columns without values
	null   column.Vector
}

// Len returns the number of rows.
func (c *Chunk) Len() int { return len(c.Rows.Times) }

// Min returns the time of the first row.
func (c *Chunk) Min() int64 { return c.Rows.Times[0] }

// Max returns the time of the last row.
func (c *Chunk) Max() int64 { return c.Rows.Times[len(c.Rows.Times)-1] }

// Step returns 0: nobody has looked whether the times are regular.
func (c *Chunk) Step() int64 { return 0 }

// Times returns the times of the rows.
func (c *Chunk) Times() ([]int64, error) { return c.Rows.Times, nil }

// Stats returns false: there are no statistics.
func (c *Chunk) Stats(int, *scan.Stats) bool { return false }

// Sum returns false: there are no statistics.
func (c *Chunk) Sum(int, *scan.Stats) bool { return false }

// Count returns false: there are no statistics.
func (c *Chunk) Count(int) (int, bool) { return 0, false }

// Column returns the values of column i.
func (c *Chunk) Column(i int) (*column.Vector, error) {
	if c.Absent[i] {
		c.null.Nulls(model.Unknown, c.Len())
		return &c.null, nil
	}
	return &c.Rows.Cols[i], nil
}

// MayHaveNaN reports whether column i has a NaN.
func (c *Chunk) MayHaveNaN(i int) bool {
	return !c.Absent[i] && vector.HasNaN(c.Rows.Cols[i].Floats)
}

// TextBytes returns the bytes of the texts of column i.
func (c *Chunk) TextBytes(i int) (n int64) {
	if !c.Absent[i] {
		for _, text := range c.Rows.Cols[i].Strings {
			n += int64(len(text))
		}
	}
	return n
}
