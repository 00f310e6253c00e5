package shard

import (
	"context"

	"tsdbd/model"
	"tsdbd/model/scan"
)

// Cost returns what a request would touch: the values in caches, and the chunks
// and their bodies from the files' indexes alone. A chunk is one block per
// field that is wanted and in it; its bytes are those of the whole body, which
// holds all fields. Rows that tombstones hide count.
func (v *View) Cost(req scan.Request) (out scan.Cost, err error) {
	cur, err := v.Scan(context.Background(), req) // nothing is iterated: Cost is quick
	if err != nil {
		return out, err
	}
	c := cur.(*cursor)
	defer c.Close()
	read := map[*file]bool{}
	add := func(s *source) (bool, error) {
		if s.gather != nil {
			out.CachedValues += c.countCached(s)
			return true, nil
		}
		if !s.project(c.fields) {
			return true, nil
		}
		columns := int64(0)
		for _, p := range s.fields {
			if p >= 0 {
				columns++
			}
		}
		for k := range s.series.Chunks {
			if e := &s.series.Chunks[k]; e.Max >= c.times.Min && e.Min <= c.times.Max {
				read[s.file] = true
				out.Blocks += columns
				out.Bytes += int64(e.Bytes)
				out.Rows += c.times.Share(int64(e.Rows), model.TimeRange{Min: e.Min, Max: e.Max})
			}
		}
		return true, nil
	}
	for it := req.Series.Iterator(); it.HasNext(); {
		if err := c.find(model.SeriesID(it.Next())); err != nil {
			return out, err
		}
		if err := c.each(add); err != nil {
			return out, err
		}
	}
	out.Files = int64(len(read))
	return out, nil
}

// countCached returns how many wanted values a cache has of the present series.
func (c *cursor) countCached(s *source) (n int64) {
	for k := range c.cached(s, c.cells) {
		s.gather.Gather(&c.gathered, s.id, s.renames.Originals(c.fields), s.cached[k].times)
		for col := range c.gathered.Cols {
			if c.absent[col] {
				continue
			}
			for r := range c.gathered.Times {
				if c.gathered.Cols[col].IsValid(r) {
					n++
				}
			}
		}
	}
	return n
}
