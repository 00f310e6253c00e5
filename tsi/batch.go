package tsi

import (
	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
)

// Batch is series on their way into an Index, already indexed among themselves. It is for
// one goroutine, and no index knows it before AddBatch.
type Batch struct{ memtable *memtable }

// NewBatch returns an empty batch.
func NewBatch() *Batch { return &Batch{newMemtable()} }

// Add adds a series by its canonical key. It keeps no part of the key.
func (b *Batch) Add(id model.SeriesID, key string) { b.memtable.add(uint32(id), key) }

// Bytes estimates the memory of the batch, which becomes that of the index.
func (b *Batch) Bytes() int64 { return b.memtable.bytes.Load() }

// keysAtOnce is how many keys Prepare asks for at once.
const keysAtOnce = 4096

// Prepare returns a batch of the series of a set that the index does not have. Its errors
// are those of reading their keys. before is an earlier batch or nil: if it has no series
// that is not in the set, Prepare adds what it lacks and returns it.
func (x *Index) Prepare(set *roaring.Bitmap, before *Batch) (*Batch, error) {
	x.mu.RLock()
	missing := roaring.AndNot(set, x.mu.alive)
	x.mu.RUnlock()
	b := before
	if b == nil || set.AndCardinality(b.memtable.series) < b.memtable.series.GetCardinality() {
		b = NewBatch()
	}
	missing.AndNot(b.memtable.series)
	all := seriesIDs(missing)
	for len(all) > 0 {
		ids := all[:min(len(all), keysAtOnce)]
		all = all[len(ids):]
		err := x.opt.Keys(ids, func(i int, key string) error {
			b.Add(ids[i], key)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// largeBatch is from how many series on an index keeps the memtable of a batch. Fewer are
// copied, for each memtable costs every reader.
const largeBatch = 4096

// AddBatch is AddSeries of all series of a batch. It is the end of the batch. A large one
// costs next to nothing. Only the writer calls it.
func (x *Index) AddBatch(b *Batch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if b.memtable.n == 0 {
		return
	}
	x.mu.alive.Or(b.memtable.series)
	x.mu.removed.AndNot(b.memtable.series)
	x.staleLocked()
	for _, name := range b.memtable.names() {
		x.hasSeriesLocked(name)
	}
	switch {
	case x.mu.mutable.n == 0:
		x.mu.mutable = b.memtable
	case b.memtable.n < x.large:
		x.mu.mutable.take(b.memtable)
	default:
		x.mu.sealed = append(x.mu.sealed, b.memtable)
	}
}
