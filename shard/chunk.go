package shard

import (
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// fileChunk is a chunk of a file, whole or cut to rows [lo, hi), decoded when
// asked.
type fileChunk struct {
	src    *source
	lo, hi int
	cut    bool
	min    int64
	max    int64
	col    []column.Vector
	nulls  []column.Vector
	types  []model.FieldType
	absent []bool
	shard  *Shard
	texts  *texts
}

// set positions c on the source's chunk, cut to times. It returns false when
// the rows must be read and filtered because some may have none of the wanted
// fields.
func (c *fileChunk) set(s *source, times model.TimeRange, types []model.FieldType) (bool, error) {
	if !s.full() {
		return false, nil
	}
	c.src, c.types, c.lo, c.hi, c.cut = s, types, 0, s.chunk.Len(), false
	c.min, c.max = s.chunk.Min(), s.chunk.Max()
	if c.min >= times.Min && c.max <= times.Max {
		return true, nil
	}
	c.cut = true
	if step := s.chunk.Step(); step > 0 {
		if times.Min > c.min {
			// Distances fit in uint64 even where they overflow int64.
			d := uint64(times.Min - c.min)
			if c.lo = int(d / uint64(step)); d%uint64(step) != 0 {
				c.lo++
			}
		}
		if times.Max < c.max {
			c.hi = int(uint64(times.Max-c.min)/uint64(step)) + 1
		}
		c.lo = min(c.lo, c.hi)
		c.max = c.min + int64(c.hi-1)*step
		c.min += int64(c.lo) * step
		return true, nil
	}
	ts, err := s.chunk.Times()
	if err != nil {
		return false, err
	}
	c.lo, c.hi = column.BoundsOf(ts, times)
	if c.lo < c.hi {
		c.min, c.max = ts[c.lo], ts[c.hi-1]
	}
	return true, nil
}

func (c *fileChunk) Len() int   { return c.hi - c.lo }
func (c *fileChunk) Min() int64 { return c.min }
func (c *fileChunk) Max() int64 { return c.max }
func (c *fileChunk) Step() int64 {
	if c.hi-c.lo < 2 {
		return 0
	}
	return c.src.chunk.Step()
}

func (c *fileChunk) Times() ([]int64, error) {
	ts, err := c.src.chunk.Times()
	if err != nil {
		return nil, c.damaged(err)
	}
	return ts[c.lo:c.hi], nil
}

func (c *fileChunk) Column(i int) (*column.Vector, error) {
	p := c.src.fields[i]
	// A merge may leave a field's empty column behind after the index forgot
	// the field with its last series.
	if p < 0 || c.absent[i] {
		for len(c.nulls) <= i {
			c.nulls = append(c.nulls, column.Vector{})
		}
		t := c.types[i]
		if c.absent[i] {
			t = model.Unknown
		}
		c.nulls[i].Nulls(t, c.Len())
		return &c.nulls[i], nil
	}
	if c.types[i] == model.String {
		if err := c.texts.take(&c.src.chunk, p); err != nil {
			return nil, c.damaged(err)
		}
	}
	v, err := c.src.chunk.Column(p)
	if err != nil {
		return nil, c.damaged(err)
	}
	if !c.cut {
		return v, nil
	}
	for len(c.col) <= i {
		c.col = append(c.col, column.Vector{})
	}
	c.col[i] = v.Slice(c.lo, c.hi)
	return &c.col[i], nil
}

// MayHaveNaN reports whether column i may have a NaN. Damage shows when the column
// is read.
func (c *fileChunk) MayHaveNaN(i int) bool {
	p := c.src.fields[i]
	return p >= 0 && !c.absent[i] && c.src.chunk.MayHaveNaN(p)
}

// TextBytes estimates the bytes of the texts of column i. Damage shows when the
// column is read.
func (c *fileChunk) TextBytes(i int) int64 {
	p := c.src.fields[i]
	if p < 0 || c.types[i] != model.String {
		return 0
	}
	n, _ := c.src.chunk.TextBytes(p)
	return int64(n) * int64(c.Len()) / int64(c.src.chunk.Len())
}

// damaged remembers damage of the chunk's file and returns the error for who reads.
func (c *fileChunk) damaged(err error) error {
	return c.shard.markDamaged(err, []*file{c.src.file})
}

func (c *fileChunk) Stats(i int, st *scan.Stats) bool {
	p := c.src.fields[i]
	if p < 0 {
		*st = scan.Stats{}
		return true
	}
	return !c.cut && c.src.chunk.Stats(p, st)
}

// Count returns the number of values of a column if that needs no decoding.
func (c *fileChunk) Count(i int) (int, bool) {
	if p := c.src.fields[i]; p >= 0 && c.src.chunk.AllValid(p) {
		return c.Len(), true
	}
	var st scan.Stats
	ok := c.Stats(i, &st)
	return st.Count, ok
}

// Sum is Stats for count and sum alone.
func (c *fileChunk) Sum(i int, st *scan.Stats) bool {
	p := c.src.fields[i]
	if p < 0 {
		st.Count = 0
		return true
	}
	return !c.cut && c.src.chunk.Sum(p, st)
}
