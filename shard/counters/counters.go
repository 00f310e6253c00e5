// Package counters has the figures of flushes and merges.
package counters

import (
	"sync/atomic"

	"tsdbd/shard/plan"
)

// Levels is one more than the highest level of a file: 0 is a flush's, the
// highest that of a full compaction.
const Levels = plan.FullLevel + 1

// Counters are figures of flushes and merges; shards may share them. The zero
// value works.
type Counters struct {
	FlushBytes atomic.Int64         // of TSM files written by flushes
	ReadBytes  [Levels]atomic.Int64 // of chunks read by merges, by the level of their result
	WriteBytes [Levels]atomic.Int64 // written by merges, failed ones included
	Merges     [Levels]atomic.Int64 // published
}

// AddRead counts bytes that a merge to a level has read.
func (c *Counters) AddRead(level int, n int64) { c.ReadBytes[min(level, plan.FullLevel)].Add(n) }

// AddWritten counts bytes that a merge to a level has written.
func (c *Counters) AddWritten(level int, n int64) { c.WriteBytes[min(level, plan.FullLevel)].Add(n) }

// AddMerge counts a merge to a level.
func (c *Counters) AddMerge(level int) { c.Merges[min(level, plan.FullLevel)].Add(1) }

// Read returns the bytes that merges have read.
func (c *Counters) Read() int64 { return sum(&c.ReadBytes) }

// Written returns the bytes that merges have written.
func (c *Counters) Written() int64 { return sum(&c.WriteBytes) }

func sum(v *[Levels]atomic.Int64) (n int64) {
	for i := range v {
		n += v[i].Load()
	}
	return n
}
