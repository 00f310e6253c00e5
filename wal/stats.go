package wal

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// GroupBuckets is the number of buckets in Stats.GroupSizes.
const GroupBuckets = 13

// Stats counts what a log did since it was opened, and what it holds.
type Stats struct {
	Entries      uint64 // entries written
	Groups       uint64 // writes, each of one or more entries
	BytesWritten uint64 // bytes of records
	Syncs        uint64
	WriteTime    time.Duration // spent writing records
	SyncTime     time.Duration // spent syncing them
	Refused      uint64        // entries refused for lack of space or of a new segment
	Rotations    uint64
	// GroupSizes counts the groups of up to 1, 2, 4, ... 4096 entries.
	GroupSizes [GroupBuckets]uint64
	Segments   int   // segment files, the active one included
	Spares     int   // files kept for reuse
	DiskBytes  int64 // bytes of both, as allocated by the log
	Queued     int   // entries waiting to be written
	// Hangs is for how long the write or sync under way has lasted.
	Hangs time.Duration
}

type counters struct {
	entries, groups, bytes, syncs, refused, rotations atomic.Uint64
	writeTime, syncTime                               atomic.Int64
	sizes                                             [GroupBuckets]atomic.Uint64
}

func (c *counters) group(entries, bytes int) {
	c.entries.Add(uint64(entries))
	c.groups.Add(1)
	c.bytes.Add(uint64(bytes))
	c.sizes[min(bits.Len(uint(entries-1)), GroupBuckets-1)].Add(1)
}

// Stats returns the log's counters.
func (l *Log) Stats() Stats {
	c := &l.counters
	s := Stats{
		Entries: c.entries.Load(), Groups: c.groups.Load(), BytesWritten: c.bytes.Load(),
		Syncs: c.syncs.Load(), Refused: c.refused.Load(), Rotations: c.rotations.Load(),
		WriteTime: time.Duration(c.writeTime.Load()), SyncTime: time.Duration(c.syncTime.Load()),
		Hangs: max(l.committing.Lasts(), l.intervalSync.Lasts()),
	}
	for i := range s.GroupSizes {
		s.GroupSizes[i] = c.sizes[i].Load()
	}
	l.queue.Lock()
	s.Queued = len(l.queue.requests)
	l.queue.Unlock()
	l.files.Lock()
	defer l.files.Unlock()
	s.Segments, s.Spares = len(l.files.closed), len(l.files.spares)
	for i := range l.files.closed {
		s.DiskBytes += l.files.closed[i].Bytes
	}
	for i := range l.files.spares {
		s.DiskBytes += l.files.spares[i].size
	}
	if l.files.active != nil {
		s.Segments++
		s.DiskBytes += l.files.activeSize
	}
	if l.files.next != nil {
		s.Spares++
		s.DiskBytes += l.files.next.size
	}
	return s
}
