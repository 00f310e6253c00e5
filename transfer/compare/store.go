package compare

import (
	"context"
	"math"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// Count counts what a retention policy of a store has within times. It reads a chunk
// only where the chunk has no statistics.
func Count(ctx context.Context, store scan.Storage, database, policy string, times model.TimeRange) (_ Totals, err error) {
	defer vfs.CatchFault(&err)()
	view, err := store.View(database, policy, times)
	if err != nil {
		return nil, err
	}
	defer view.Release()
	totals := Totals{}
	for _, sh := range view.Shards() {
		for _, name := range sh.Measurements() {
			m := totals.Of(Name{database, policy, name})
			if m.Set == nil {
				m.Set = roaring.New()
			}
			if err := m.count(ctx, sh, name, times); err != nil {
				return nil, err
			}
		}
	}
	for name, m := range totals {
		if m.Series = int64(m.Set.GetCardinality()); m.Series == 0 {
			delete(totals, name)
		}
	}
	return totals, nil
}

// count adds what a shard has of a measurement.
func (m *Measurement) count(ctx context.Context, sh scan.Shard, name string, times model.TimeRange) error {
	set, err := sh.Select(ctx, name, nil)
	if err != nil {
		return err
	}
	fields := sh.Fields(name)
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.Key
	}
	c, err := sh.Scan(ctx, scan.Request{Measurement: name, Series: set, Fields: keys, Range: times})
	if err != nil {
		return err
	}
	defer c.Close()
	for id, ok := c.NextSeries(); ok; id, ok = c.NextSeries() {
		for chunk := c.NextChunk(); chunk != nil; chunk = c.NextChunk() {
			m.Set.Add(uint32(id))
			for i := range fields {
				if err := m.addChunk(chunk, i, fields[i]); err != nil {
					return err
				}
			}
		}
	}
	return c.Err()
}

// addChunk adds a column of a chunk.
func (m *Measurement) addChunk(chunk scan.Chunk, i int, f column.Field) error {
	var st scan.Stats
	if chunk.Sum(i, &st) && !(f.Type == model.Float && math.IsNaN(math.Float64frombits(st.Sum))) {
		switch {
		case st.Count == 0:
		case f.Type == model.Float:
			m.field(f.Key).add(f.Type, int64(st.Count), 0, math.Float64frombits(st.Sum), st.SumError)
		case f.Type.Numeric():
			m.field(f.Key).add(f.Type, int64(st.Count), st.Sum, 0, 0)
		default: // the sum of booleans is none here
			m.field(f.Key).add(f.Type, int64(st.Count), 0, 0, 0)
		}
		return nil
	}
	v, err := chunk.Column(i)
	if err != nil {
		return err
	}
	if v.Type == f.Type { // another type: the series lacks the field
		m.addVector(f.Key, v, chunk.Len())
	}
	return nil
}
