package queryable

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/scan"
)

// present calls found with each series of parts of a table and each metric of which the series
// has samples, once.
func (l *looker) present(ctx context.Context, t *table, parts []part, found func(id model.SeriesID, metric int) error) error {
	var seen []*roaring.Bitmap // by metric, if there are several parts
	if len(parts) > 1 {
		if err := l.budget.take(int64(len(t.metrics)) * int64(t.ids.GetSizeInBytes())); err != nil {
			return err
		}
		for range t.metrics {
			seen = append(seen, roaring.New())
		}
	}
	has := make([]bool, len(t.metrics))
	for _, part := range parts {
		if part.sole && l.covers(part.shard) {
			if err := l.allPresent(ctx, part, seen, found); err != nil {
				return err
			}
			continue
		}
		req := scan.Request{Measurement: t.measurement, Series: part.ids}
		var fields []field
		for _, f := range part.fields {
			if f.role != startRole {
				req.Fields, fields = append(req.Fields, f.key), append(fields, f)
			}
		}
		err := l.walks.each(ctx, part.shard, req, func(id model.SeriesID, cursor scan.Cursor) error {
			for metric := range has {
				has[metric] = seen != nil && seen[metric].Contains(uint32(id))
			}
			return existing(cursor, fields, has, func(metric int) error {
				if seen != nil {
					seen[metric].Add(uint32(id))
				}
				return found(id, metric)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// covers reports whether the times cover all rows of a shard. Then the series in its index have
// rows, and nothing needs to be read to know.
func (l *looker) covers(sh scan.Shard) bool {
	is, known := l.covered[sh.ID()]
	if !known {
		bounds, ok := sh.TimeBounds(nil)
		is = ok && l.times.Covers(bounds)
		l.covered[sh.ID()] = is
	}
	return is
}

// allPresent is present of a part with one field, all of whose series have samples.
func (l *looker) allPresent(ctx context.Context, p part, seen []*roaring.Bitmap, found func(id model.SeriesID, metric int) error) error {
	metric := p.fields[0].metric
	n := 0
	for ids := p.ids.Iterator(); ids.HasNext(); n++ {
		if n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		id := ids.Next()
		if seen != nil && !seen[metric].CheckedAdd(id) {
			continue
		}
		if err := found(model.SeriesID(id), metric); err != nil {
			return err
		}
	}
	return nil
}

// existing calls found with each metric of which the present series of a cursor has samples,
// and which it has not yet. It decodes only what statistics do not tell.
func existing(cursor scan.Cursor, fields []field, has []bool, found func(metric int) error) (err error) {
	for missing := true; missing; {
		chunk := cursor.NextChunk()
		if chunk == nil {
			break
		}
		missing = false
		for i, f := range fields {
			if has[f.metric] {
				continue
			}
			n, known := chunk.Count(i)
			if !known {
				if n, err = anyValue(chunk, i); err != nil {
					return err
				}
			}
			if n == 0 {
				missing = true
				continue
			}
			has[f.metric] = true
			if err := found(f.metric); err != nil {
				return err
			}
		}
	}
	return nil
}

// anyValue returns 1 if a column has a value.
func anyValue(chunk scan.Chunk, i int) (int, error) {
	v, err := chunk.Column(i)
	if err != nil || v.Type == model.Unknown {
		return 0, err
	}
	for row := range chunk.Len() {
		if v.IsValid(row) {
			return 1, nil
		}
	}
	return 0, nil
}
