package shard

import (
	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/tsm"
)

// rowsChunk is a scan.Chunk of rows in memory.
type rowsChunk struct {
	rows   *column.Rows // at least one
	absent []bool       // columns without values
	null   column.Vector
}

// Len returns the number of rows.
func (c *rowsChunk) Len() int { return len(c.rows.Times) }

// Min returns the time of the first row.
func (c *rowsChunk) Min() int64 { return c.rows.Times[0] }

// Max returns the time of the last row.
func (c *rowsChunk) Max() int64 { return c.rows.Times[len(c.rows.Times)-1] }

// Step returns 0: nobody has looked whether the times are regular.
func (c *rowsChunk) Step() int64 { return 0 }

// Times returns the times of the rows.
func (c *rowsChunk) Times() ([]int64, error) { return c.rows.Times, nil }

// Stats returns false: there are no statistics.
func (c *rowsChunk) Stats(int, *scan.Stats) bool { return false }

// Sum returns false: there are no statistics.
func (c *rowsChunk) Sum(int, *scan.Stats) bool { return false }

// Count returns false: there are no statistics.
func (c *rowsChunk) Count(int) (int, bool) { return 0, false }

// Column returns the values of column i.
func (c *rowsChunk) Column(i int) (*column.Vector, error) {
	if c.absent[i] {
		c.null.Nulls(model.Unknown, c.Len())
		return &c.null, nil
	}
	return &c.rows.Cols[i], nil
}

// MayHaveNaN reports whether column i has a NaN.
func (c *rowsChunk) MayHaveNaN(i int) bool {
	return !c.absent[i] && vector.HasNaN(c.rows.Cols[i].Floats)
}

// TextBytes returns the bytes of the texts of column i.
func (c *rowsChunk) TextBytes(i int) (n int64) {
	if !c.absent[i] {
		for _, text := range c.rows.Cols[i].Strings {
			n += int64(len(text))
		}
	}
	return n
}

// texts charges a reader for the texts of chunks before they are decoded (W9). A nil texts
// charges nobody.
type texts struct {
	charge func(bytes int64) error // nil: nobody is charged
	taken  int64                   // and not given back
}

// take charges for the texts of a field of a chunk.
func (t *texts) take(chunk *tsm.Chunk, field int) error {
	if t == nil || t.charge == nil {
		return nil
	}
	n, err := chunk.TextBytes(field)
	if err != nil || n == 0 {
		return err
	}
	t.taken += int64(n)
	return t.charge(int64(n))
}

// giveBack gives back what take has charged.
func (t *texts) giveBack() {
	if t.taken != 0 {
		_ = t.charge(-t.taken) // giving back does not fail
		t.taken = 0
	}
}
