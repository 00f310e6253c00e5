package queryable

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/scan"
)

// presence says which series of a table have samples of which metric.
type presence struct {
	ids []*roaring.Bitmap // by metric
}

// present returns which series of parts of a table have samples between times.
func (q *querier) present(ctx context.Context, t *table, parts []part, times model.TimeRange) (*presence, error) {
	p := &presence{ids: make([]*roaring.Bitmap, len(t.metrics))}
	for i := range p.ids {
		p.ids[i] = roaring.New()
		if err := q.budget.take(int64(t.ids.GetSizeInBytes())); err != nil {
			return nil, err
		}
	}
	for _, part := range parts {
		req := scan.Request{Measurement: t.measurement, Series: part.ids, Range: times, Charge: q.budget.take, Hold: q.budget.take}
		var fields []field
		for _, f := range part.fields {
			if f.role != startRole {
				req.Fields, fields = append(req.Fields, f.key), append(fields, f)
			}
		}
		if err := p.scan(ctx, part.shard, req, fields); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// scan walks over the chunks of a shard. It decodes only what statistics do not tell.
func (p *presence) scan(ctx context.Context, sh scan.Shard, req scan.Request, fields []field) error {
	return each(ctx, sh, req, func(id model.SeriesID, cursor scan.Cursor) (err error) {
		for missing := true; missing; {
			chunk := cursor.NextChunk()
			if chunk == nil {
				break
			}
			missing = false
			for i, f := range fields {
				if p.ids[f.metric].Contains(uint32(id)) {
					continue
				}
				n, known := chunk.Count(i)
				if !known {
					if n, err = anyValue(chunk, i); err != nil {
						return err
					}
				}
				if n > 0 {
					p.ids[f.metric].Add(uint32(id))
				} else {
					missing = true
				}
			}
		}
		return nil
	})
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
