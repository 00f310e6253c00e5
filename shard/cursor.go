package shard

import (
	"context"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/cache"
	"tsdbd/column"
	"tsdbd/model"
	"tsdbd/scan"
)

// cursor merges what files and caches hold of each series.
//
// The pieces of a series, chunks of files and rows of caches, are sorted by
// time and cut into clusters: a piece that overlaps no other is handed out as
// it lies and decodes lazily; pieces that overlap are read and merged, newer
// source over older.
type cursor struct {
	ctx        context.Context
	view       *View
	set        *roaring.Bitmap
	fields     []column.Field
	absent     []bool // fields that the shard lacks, their type is made up
	times      model.TimeRange
	descending bool

	sources []source
	caches  []cacheSource
	err     error

	// Iteration over series: either by id through set, or, when one file holds
	// everything and the set is a good part of it, file order.
	next     roaring.IntPeekable
	sequence bool
	ordinal  int
	dense    []uint64 // bitset of set when sequence
	base     uint32
	steps    int

	id       model.SeriesID
	pieces   []piece
	clusters []cluster
	at       int

	direct fileChunk
	mem    rowsChunk
	merged column.Rows
	parts  []column.Rows
	ptrs   []*column.Rows
	types  []model.FieldType
}

// piece is a chunk of a file or the rows of a cache.
type piece struct {
	min, max int64
	source   int // index into sources; len(sources)+i: caches[i]
	chunk    int
	masked   bool
}

// cluster is a run of pieces[lo:hi] that overlap each other.
type cluster struct{ lo, hi int }

type cacheSource struct {
	gather *cache.Gatherer
	rows   column.Rows
}

// open returns a cursor for the looks of this package; Scan completes it.
func (v *View) open(set *roaring.Bitmap) *cursor {
	c := &cursor{ctx: context.Background(), view: v, set: set, times: model.AllTime}
	c.sources = make([]source, len(v.set.files))
	for i, f := range v.set.files {
		c.sources[i].file, c.sources[i].masks = f, v.masks[i]
	}
	c.caches = make([]cacheSource, len(v.caches))
	for i, ch := range v.caches {
		c.caches[i].gather = cache.NewGatherer(ch)
	}
	return c
}

// start drops sources that cannot have rows in range and chooses the walk.
func (c *cursor) start() {
	for _, f := range c.fields {
		c.types = append(c.types, f.Type)
	}
	c.direct.absent = c.absent
	c.sources = slices.DeleteFunc(c.sources, func(s source) bool {
		return !s.file.reader.Info().Range.Overlaps(c.times)
	})
	c.caches = slices.DeleteFunc(c.caches, func(s cacheSource) bool {
		return !s.gather.Cache().TimeRange().Overlaps(c.times)
	})
	if c.set == nil {
		c.set = roaring.New()
	}
	n := c.set.GetCardinality()
	if n > 0 && len(c.sources) == 1 && len(c.caches) == 0 && n >= uint64(c.sources[0].file.reader.Len())/8 {
		if span := uint64(c.set.Maximum()-c.set.Minimum()) + 1; span <= 64*n+1024 {
			c.sequence = true
			c.base = c.set.Minimum()
			c.dense = make([]uint64, (span+63)/64)
			it := c.set.ManyIterator()
			var buf [1024]uint32
			for k := it.NextMany(buf[:]); k > 0; k = it.NextMany(buf[:]) {
				for _, id := range buf[:k] {
					c.dense[(id-c.base)>>6] |= 1 << ((id - c.base) & 63)
				}
			}
			return
		}
	}
	c.next = c.set.Iterator()
}

// NextSeries moves to the next series that has rows.
func (c *cursor) NextSeries() (model.SeriesID, bool) {
	for c.err == nil {
		if c.steps++; c.steps&255 == 0 {
			if err := c.ctx.Err(); err != nil {
				c.err = err
				break
			}
		}
		id, ok := c.step()
		if !ok {
			break
		}
		c.id = id
		if c.collect() {
			return id, true
		}
	}
	c.clusters = c.clusters[:0]
	c.at = 0
	return 0, false
}

// step finds the next series id and, walking a file, loads its entry.
func (c *cursor) step() (model.SeriesID, bool) {
	if !c.sequence {
		if !c.next.HasNext() {
			return 0, false
		}
		id := model.SeriesID(c.next.Next())
		for i := range c.sources {
			if _, err := c.sources[i].find(id); err != nil {
				c.err = err
				return 0, false
			}
		}
		return id, true
	}
	s := &c.sources[0]
	for n := s.file.reader.Len(); c.ordinal < n; {
		i := c.ordinal
		c.ordinal++
		id, err := s.file.reader.ID(i)
		if err != nil {
			c.err = err
			return 0, false
		}
		off := uint32(id) - c.base
		if uint32(id) < c.base || uint64(off>>6) >= uint64(len(c.dense)) || c.dense[off>>6]>>(off&63)&1 == 0 {
			continue
		}
		if err := s.load(i); err != nil {
			c.err = err
			return 0, false
		}
		return id, true
	}
	return 0, false
}

// collect gathers the pieces of the present series and forms clusters.
func (c *cursor) collect() bool {
	c.pieces, c.clusters, c.at = c.pieces[:0], c.clusters[:0], 0
	used := 0
	for i := range c.sources {
		s := &c.sources[i]
		if !s.loaded || !s.project(c.fields) {
			continue
		}
		before := len(c.pieces)
		for k := range s.series.Chunks {
			e := &s.series.Chunks[k]
			if e.Max < c.times.Min || e.Min > c.times.Max {
				continue
			}
			var partly, wholly bool
			if len(s.masks) > 0 {
				partly, wholly = s.masked(c.id, e.Min, e.Max)
			}
			if !wholly {
				c.pieces = append(c.pieces, piece{e.Min, e.Max, i, k, partly})
			}
		}
		if len(c.pieces) > before {
			used++
		}
	}
	for i := range c.caches {
		s := &c.caches[i]
		if s.gather.Gather(&s.rows, c.id, c.fields, c.times) {
			n := len(s.rows.Times)
			c.pieces = append(c.pieces, piece{s.rows.Times[0], s.rows.Times[n-1], len(c.sources) + i, 0, false})
			used++
		}
	}
	if len(c.pieces) == 0 {
		return false
	}
	if used > 1 {
		slices.SortStableFunc(c.pieces, func(a, b piece) int {
			if a.min < b.min {
				return -1
			} else if a.min > b.min {
				return 1
			}
			return 0
		})
	}
	for lo := 0; lo < len(c.pieces); {
		hi, end := lo+1, c.pieces[lo].max
		for hi < len(c.pieces) && c.pieces[hi].min <= end {
			end = max(end, c.pieces[hi].max)
			hi++
		}
		c.clusters = append(c.clusters, cluster{lo, hi})
		lo = hi
	}
	if c.descending {
		slices.Reverse(c.clusters)
	}
	return true
}

// NextChunk returns the next chunk of the present series.
func (c *cursor) NextChunk() scan.Chunk {
	for c.err == nil && c.at < len(c.clusters) {
		if err := c.ctx.Err(); err != nil {
			c.err = err
			return nil
		}
		cl := c.clusters[c.at]
		c.at++
		if cl.hi-cl.lo == 1 {
			if ch := c.single(c.pieces[cl.lo]); ch != nil {
				return ch
			}
			continue
		}
		if rows := c.merge(c.pieces[cl.lo:cl.hi]); rows != nil && rows.Len() > 0 {
			return c.memory(rows)
		}
	}
	return nil
}

func (c *cursor) memory(rows *column.Rows) scan.Chunk {
	c.mem = rowsChunk{rows: rows, absent: c.absent}
	return &c.mem
}

// single hands out a piece that overlaps no other, as it lies if possible.
func (c *cursor) single(p piece) scan.Chunk {
	if p.source >= len(c.sources) {
		return c.memory(&c.caches[p.source-len(c.sources)].rows)
	}
	s := &c.sources[p.source]
	if !p.masked {
		if err := s.file.reader.Chunk(&s.series, p.chunk, &s.chunk); err != nil {
			c.err = err
			return nil
		}
		ok, err := c.direct.set(s, c.times, c.types)
		if err != nil {
			c.err = err
			return nil
		}
		if ok {
			if c.direct.Len() == 0 {
				return nil
			}
			return &c.direct
		}
	}
	c.merged.Reset(c.types)
	if err := s.read(c.id, p.chunk, c.times, &c.merged); err != nil {
		c.err = err
		return nil
	}
	if c.merged.Len() == 0 {
		return nil
	}
	return c.memory(&c.merged)
}

// merge reads overlapping pieces and merges them, newer source over older.
func (c *cursor) merge(pieces []piece) *column.Rows {
	c.ptrs = c.ptrs[:0]
	used := 0
	for src := range len(c.sources) + len(c.caches) {
		if src >= len(c.sources) {
			if slices.ContainsFunc(pieces, func(p piece) bool { return p.source == src }) {
				c.ptrs = append(c.ptrs, &c.caches[src-len(c.sources)].rows)
			}
			continue
		}
		var rows *column.Rows
		for _, p := range pieces {
			if p.source != src {
				continue
			}
			if rows == nil {
				if c.parts == nil {
					c.parts = make([]column.Rows, len(c.sources))
				}
				rows = &c.parts[used]
				used++
				rows.Reset(c.types)
			}
			if err := c.sources[src].read(c.id, p.chunk, c.times, rows); err != nil {
				c.err = err
				return nil
			}
		}
		if rows != nil && rows.Len() > 0 {
			c.ptrs = append(c.ptrs, rows)
		}
	}
	c.merged.Reset(c.types)
	column.Merge(&c.merged, c.ptrs)
	return &c.merged
}

// Err returns the error that ended the walk.
func (c *cursor) Err() error { return c.err }

// Close ends the cursor; the view stays.
func (c *cursor) Close() {}

// bounds returns a range that holds the rows of one series.
func (c *cursor) bounds(id model.SeriesID) (model.TimeRange, bool, error) {
	r := model.TimeRange{Min: math.MaxInt64, Max: math.MinInt64}
	for i := range c.sources {
		s := &c.sources[i]
		ok, err := s.find(id)
		if err != nil {
			return r, false, err
		}
		if ok {
			for _, e := range s.series.Chunks {
				if _, wholly := s.masked(id, e.Min, e.Max); !wholly {
					r = r.Union(model.TimeRange{Min: e.Min, Max: e.Max})
				}
			}
		}
	}
	for i := range c.caches {
		if t, ok := c.caches[i].gather.Range(id); ok {
			r = r.Union(t)
		}
	}
	return r, !r.Empty(), nil
}

// hasRows reports whether a series has a living row.
func (c *cursor) hasRows(id model.SeriesID) (bool, error) {
	for i := range c.caches {
		if c.caches[i].gather.HasRows(id) {
			return true, nil
		}
	}
	for i := range c.sources {
		s := &c.sources[i]
		ok, err := s.find(id)
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		for k, e := range s.series.Chunks {
			partly, wholly := s.masked(id, e.Min, e.Max)
			if wholly {
				continue
			}
			if !partly {
				return true, nil
			}
			if err := s.file.reader.Chunk(&s.series, k, &s.chunk); err != nil {
				return false, err
			}
			times, err := s.chunk.Times()
			if err != nil {
				return false, err
			}
			for _, t := range times {
				if !s.hidden(id, t) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}
