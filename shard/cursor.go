package shard

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/shard/rows"
)

// cursor hands out what files and caches hold of each series. A piece that
// overlaps no other is handed out as it lies and decodes lazily. Pieces that
// overlap are read and merged, some pieces' worth of time after another.
type cursor struct {
	merging
	walk
	view   *View
	within model.TimeRange // the times of the requests
	absent []bool          // fields that the shard lacks, their type is made up
	steps  int
	err    error

	at    int        // cluster to come
	ahead scan.Chunk // the series' first, found by NextSeries

	direct fileChunk
	mem    rows.Chunk
}

// Scan opens a cursor over the series of req.
func (v *View) Scan(ctx context.Context, req scan.Request) (scan.Cursor, error) {
	c := &cursor{view: v, within: req.Range}
	c.pieces = v.pieces(ctx, req.Range)
	c.texts.charge, c.charge, c.descending = req.Charge, req.Hold, req.Descending
	c.asked = func(int) error { return ctx.Err() }
	c.Again(req)
	return c, nil
}

// Again implements scan.Cursor.
func (c *cursor) Again(req scan.Request) {
	c.texts.giveBack()
	c.clusters, c.at, c.ahead, c.crowded, c.times = c.clusters[:0], 0, nil, false, c.within
	c.unload()
	c.of(req.Measurement)
	have := c.view.index.Fields(req.Measurement)
	c.absent = c.absent[:0]
	fields := c.fields[:0]
	for _, key := range req.Fields {
		// A vector that grows by rows needs a type, also where the shard lacks
		// the field; what is handed out then is of no type.
		f, absent := column.Field{Key: key, Type: model.Float}, true
		if i, ok := column.FindField(have, key); ok {
			f.Type, absent = have[i].Type, false
		}
		fields = append(fields, f)
		c.absent = append(c.absent, absent)
	}
	c.want(fields)
	set := req.Series
	if set == nil {
		set = roaring.New()
	}
	c.walk = newWalk(set, &c.pieces)
	c.direct.absent, c.direct.shard, c.direct.texts = c.absent, c.view.shard, &c.texts
}

// Narrow implements scan.Cursor. collect asks times for each series again.
func (c *cursor) Narrow(r model.TimeRange) { c.times = c.times.Intersect(r) }

// NextSeries moves to the next series that has rows.
func (c *cursor) NextSeries() (model.SeriesID, bool) {
	for c.err == nil {
		if c.steps++; c.steps&255 == 0 {
			if c.err = c.ctx.Err(); c.err != nil {
				break
			}
		}
		var ok bool
		if ok, c.err = c.step(&c.pieces); !ok {
			break
		}
		c.at = 0
		if !c.collect() {
			continue
		}
		// Whether a cache or a masked chunk has a row shows when it is read.
		if c.ahead = c.nextChunk(); c.ahead != nil {
			return c.id, true
		}
	}
	c.clusters, c.at, c.ahead, c.crowded = c.clusters[:0], 0, nil, false
	return 0, false
}

// NextChunk returns the next chunk of the present series.
func (c *cursor) NextChunk() scan.Chunk {
	if ch := c.ahead; ch != nil {
		c.ahead = nil
		return ch
	}
	return c.nextChunk()
}

func (c *cursor) nextChunk() (out scan.Chunk) {
	c.texts.giveBack()
	for c.err == nil && out == nil && c.crowded && !c.rest.Empty() {
		var rows *column.Rows
		if rows, c.err = c.pass(); c.err == nil {
			out = c.memory(rows)
		}
	}
	for c.err == nil && out == nil && c.at < len(c.clusters) {
		if c.err = c.ctx.Err(); c.err != nil {
			return nil
		}
		cl := c.clusters[c.at]
		c.at++
		if c.alone(cl) {
			out, c.err = c.single(c.list[cl.lo])
			continue
		}
		var rows *column.Rows
		if rows, c.err = c.merge(cl); c.err == nil {
			out = c.memory(rows)
		}
	}
	return out
}

// memory returns a chunk of rows, or nil if there are none.
func (c *cursor) memory(merged *column.Rows) scan.Chunk {
	if merged.Len() == 0 {
		return nil
	}
	c.mem = rows.Chunk{Rows: merged, Absent: c.absent}
	return &c.mem
}

// single hands out a piece that overlaps no other, as it lies if possible.
func (c *cursor) single(p piece) (scan.Chunk, error) {
	s := &c.sources[p.source]
	if s.gather != nil {
		return c.memory(c.gather(p, model.TimeRange{Min: p.min, Max: p.max})), nil
	}
	if !p.masked {
		if err := s.file.reader.Chunk(&s.series, p.chunk, &s.chunk); err != nil {
			return nil, err
		}
		ok, err := c.direct.set(s, c.times, c.types)
		if err != nil {
			return nil, err
		}
		if ok {
			if c.direct.Len() == 0 {
				return nil, nil
			}
			return &c.direct, nil
		}
	}
	c.merged.Reset(c.types)
	if err := c.read(p.source, p.chunk, c.times, &c.merged); err != nil {
		return nil, err
	}
	return c.memory(&c.merged), nil
}

// Err returns the error that ended the walk.
func (c *cursor) Err() error {
	if c.err == nil {
		return nil
	}
	return c.view.shard.markDamaged(c.err, c.view.set.files)
}

// Close ends the cursor and what its chunks have handed out; the view stays.
func (c *cursor) Close() {
	c.texts.giveBack()
	for i := range c.parts {
		if g := c.parts[i].gather; g != nil {
			g.Release()
		}
	}
	for _, list := range [2][]source{c.parts, c.places} {
		for i := range list {
			if r := list[i].reading; r != nil {
				r.chunk.Release()
			}
		}
	}
	c.letGo()
}
