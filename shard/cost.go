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
func (v *View) Cost(req scan.Request) (scan.Cost, error) {
	var out scan.Cost
	cur, err := v.Scan(context.Background(), req) // nothing is iterated: Cost is quick
	if err != nil {
		return out, err
	}
	c := cur.(*cursor)
	defer c.Close()
	touched := map[*file]bool{}
	for it := req.Series.Iterator(); it.HasNext(); {
		if err := c.find(model.SeriesID(it.Next())); err != nil {
			return out, err
		}
		for i := c.firstSource; i < len(c.sources); i++ {
			s := &c.sources[i]
			if !s.loaded || !s.project(c.fields) {
				continue
			}
			columns := int64(0)
			for _, p := range s.fields {
				if p >= 0 {
					columns++
				}
			}
			for k := range s.series.Chunks {
				if e := &s.series.Chunks[k]; e.Max >= c.times.Min && e.Min <= c.times.Max {
					touched[s.file] = true
					out.Blocks += columns
					out.Bytes += int64(e.Bytes)
				}
			}
		}
		for i := c.firstCache; i < len(c.caches); i++ {
			s := &c.caches[i]
			for k := range c.cached(s) {
				times := s.parts[k].times
				rows := c.gather(piece{min: times.Min, max: times.Max, source: len(c.sources) + i, chunk: k}, times)
				for col := range rows.Cols {
					if c.absent[col] {
						continue
					}
					for r := range rows.Times {
						if rows.Cols[col].IsValid(r) {
							out.CachedValues++
						}
					}
				}
			}
		}
	}
	out.Files = int64(len(touched))
	return out, nil
}
