package compare

import (
	"context"
	"math"
	"runtime"

	"github.com/RoaringBitmap/roaring/v2"
	"golang.org/x/sync/errgroup"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// Count counts what a retention policy of a store has within times of the measurements that
// are wanted; nil: all. It reads a chunk only where the chunk has no statistics.
func Count(ctx context.Context, store scan.Storage, database, policy string, times model.TimeRange, wanted func(measurement string) bool) (_ Totals, err error) {
	defer vfs.CatchFault(&err)()
	view, err := store.View(database, policy, times)
	if err != nil {
		return nil, err
	}
	defer view.Release()
	totals := Totals{}
	for _, sh := range view.Shards() {
		for _, name := range sh.Measurements() {
			if wanted != nil && !wanted(name) {
				continue
			}
			set, err := sh.Select(ctx, name, nil)
			if err != nil {
				return nil, err
			}
			parts, err := countParts(ctx, sh, name, set, times, countedSeries)
			if err != nil {
				return nil, err
			}
			for _, m := range parts {
				totals.Merge(Totals{Name{database, policy, name}: m})
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

// countedSeries is how many series of a measurement are counted by a goroutine of their
// own.
const countedSeries = 1 << 16

// countParts counts what series of a measurement have in a shard, in parts of so many at
// least.
func countParts(ctx context.Context, sh scan.Shard, name string, set *roaring.Bitmap, times model.TimeRange, least int) ([]*Measurement, error) {
	n := max(1, min(int(set.GetCardinality())/least, runtime.GOMAXPROCS(0)))
	parts := make([]*Measurement, n)
	it := set.ManyIterator()
	ids := make([]uint32, 4096)
	var work errgroup.Group
	for i := range parts {
		of := set
		if n > 1 {
			of = roaring.New()
			left := set.GetCardinality()/uint64(n) + 1
			for left > 0 {
				k := it.NextMany(ids[:min(left, uint64(len(ids)))])
				if k == 0 {
					break
				}
				of.AddMany(ids[:k])
				left -= uint64(k)
			}
		}
		parts[i] = &Measurement{Set: roaring.New(), Fields: map[string]*Field{}}
		work.Go(func() (err error) {
			defer vfs.CatchFault(&err)()
			return parts[i].count(ctx, sh, name, of, times)
		})
	}
	return parts, work.Wait()
}

// count adds what series of a measurement have in a shard.
func (m *Measurement) count(ctx context.Context, sh scan.Shard, name string, set *roaring.Bitmap, times model.TimeRange) error {
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
