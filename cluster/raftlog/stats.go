package raftlog

import (
	"sync/atomic"
	"time"
)

// Stats counts what a Store did since it was opened, and what the log holds.
type Stats struct {
	First, Last uint64 // indexes of the entries; 0: there are none
	Segments    int
	Bytes       int64 // of the segments that batches have been written to
	DiskBytes   int64 // of the files of the segments

	Appends      uint64 // calls of StoreLogs
	Entries      uint64 // in them
	Truncations  uint64 // calls of DeleteRange that deleted entries
	BytesWritten uint64
	Syncs        uint64 // of batches
	WriteTime    time.Duration
	SyncTime     time.Duration
	Torn         bool // Open found the rest of an unfinished write
}

type counters struct {
	appends, entries, truncations, bytes, syncs atomic.Uint64
	writeTime, syncTime                         atomic.Int64
	torn                                        bool
}

func (c *counters) wrote(bytes int, write, sync time.Duration) {
	c.bytes.Add(uint64(bytes))
	c.syncs.Add(1)
	c.writeTime.Add(int64(write))
	c.syncTime.Add(int64(sync))
}

// Stats returns the figures of the log.
func (s *Store) Stats() Stats {
	c := &s.counters
	out := Stats{
		Appends: c.appends.Load(), Entries: c.entries.Load(), Truncations: c.truncations.Load(), BytesWritten: c.bytes.Load(),
		Syncs: c.syncs.Load(), WriteTime: time.Duration(c.writeTime.Load()), SyncTime: time.Duration(c.syncTime.Load()), Torn: c.torn,
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.first < s.next {
		out.First, out.Last = s.first, s.next-1
	}
	out.Segments = len(s.segments)
	for _, g := range s.segments {
		out.Bytes += g.end
		out.DiskBytes += g.size
	}
	return out
}
