package read

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// StorageCounts is what cursors gave, by shard.
type StorageCounts struct {
	mu     sync.Mutex
	Shards []*ShardCounts // in order of their first cursors
}

// ShardCounts is what cursors over one shard gave.
type ShardCounts struct {
	ID    uint64
	Times model.TimeRange
	Counts
}

// Counts counts what cursors gave.
type Counts struct {
	series  atomic.Int64
	Chunks  atomic.Int64
	Decoded atomic.Int64 // chunks whose times or values were decoded
	rows    atomic.Int64 // of all chunks
	values  atomic.Int64 // decoded
	nanos   atomic.Int64 // in storage, of all workers together

	mu   sync.Mutex
	cost scan.Cost // of the requests
}

// shard returns the counts of a shard.
func (p *StorageCounts) shard(s scan.Shard) *Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sp := range p.Shards {
		if sp.ID == s.ID() {
			return &sp.Counts
		}
	}
	sp := &ShardCounts{ID: s.ID(), Times: s.TimeRange()}
	p.Shards = append(p.Shards, sp)
	return &sp.Counts
}

// Open opens a cursor, which charges the statement for the memory of its merges. Under
// EXPLAIN ANALYZE it counts for an operator, and for the shard.
func (b *Budget) Open(s scan.Shard, req scan.Request, of *Counts) (scan.Cursor, error) {
	req.Hold = b.decode
	if b.Counts == nil {
		return s.Scan(b.Ctx, req)
	}
	cost, err := s.Cost(req)
	if err != nil {
		return nil, err
	}
	cur := &countedCursor{of: [2]*Counts{of, b.Counts.shard(s)}}
	for _, c := range cur.of {
		c.mu.Lock()
		c.cost.Add(cost)
		c.mu.Unlock()
	}
	defer cur.spent(time.Now())
	cur.Cursor, err = s.Scan(b.Ctx, req)
	return cur, err
}

// countedCursor counts what a cursor returns. Only EXPLAIN ANALYZE uses it.
type countedCursor struct {
	scan.Cursor
	of    [2]*Counts
	chunk countedChunk
}

func (c *countedCursor) spent(start time.Time) {
	took := int64(time.Since(start))
	for _, of := range c.of {
		of.nanos.Add(took)
	}
}

func (c *countedCursor) NextSeries() (model.SeriesID, bool) {
	defer c.spent(time.Now())
	id, ok := c.Cursor.NextSeries()
	if ok {
		for _, of := range c.of {
			of.series.Add(1)
		}
	}
	return id, ok
}

func (c *countedCursor) NextChunk() scan.Chunk {
	defer c.spent(time.Now())
	chunk := c.Cursor.NextChunk()
	if chunk == nil {
		return nil
	}
	for _, of := range c.of {
		of.Chunks.Add(1)
		of.rows.Add(int64(chunk.Len()))
	}
	c.chunk = countedChunk{Chunk: chunk, cursor: c}
	return &c.chunk
}

type countedChunk struct {
	scan.Chunk
	cursor  *countedCursor
	decoded bool
}

func (c *countedChunk) decode() {
	for _, of := range c.cursor.of {
		if !c.decoded {
			of.Decoded.Add(1)
		}
		of.values.Add(int64(c.Len()))
	}
	c.decoded = true
}

func (c *countedChunk) Times() ([]int64, error) {
	defer c.cursor.spent(time.Now())
	if c.Step() == 0 && c.Len() > 1 {
		c.decode()
	}
	return c.Chunk.Times()
}

func (c *countedChunk) Column(i int) (*column.Vector, error) {
	defer c.cursor.spent(time.Now())
	c.decode()
	return c.Chunk.Column(i)
}

// Add adds the counts of o, whose cursors are closed.
func (c *Counts) Add(o *Counts) {
	c.series.Add(o.series.Load())
	c.Chunks.Add(o.Chunks.Load())
	c.Decoded.Add(o.Decoded.Load())
	c.rows.Add(o.rows.Load())
	c.values.Add(o.values.Load())
	c.nanos.Add(o.nanos.Load())
	c.cost.Add(o.cost)
}

// String returns the counts on one line.
func (c *Counts) String() string {
	chunks, decoded := c.Chunks.Load(), c.Decoded.Load()
	return fmt.Sprintf("%d series, %d chunks (%d decoded, %d by statistics), %d rows, %d values decoded, %d blocks of %d bytes in %d files, %d cached values, %s in storage",
		c.series.Load(), chunks, decoded, chunks-decoded, c.rows.Load(), c.values.Load(),
		c.cost.Blocks, c.cost.Bytes, c.cost.Files, c.cost.CachedValues, ShortTime(time.Duration(c.nanos.Load())))
}

// ShortTime leaves three digits or so of a duration.
func ShortTime(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(time.Microsecond)
	}
	return d
}
