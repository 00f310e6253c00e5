package raftlog

import (
	"sync/atomic"
	"time"
)

// Stats says what the log holds, and what a Store did since it was opened.
type Stats struct {
	First, Last uint64 // indexes of the entries; 0: there are none
	Segments    int
	Bytes       int64 // of the segments that batches have been written to

	Syncs    uint64 // of batches
	SyncTime time.Duration
}

type counters struct {
	syncs    atomic.Uint64
	syncTime atomic.Int64
}

// Stats returns the figures of the log.
func (s *Store) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := Stats{Segments: len(s.segments), Syncs: s.counters.syncs.Load(), SyncTime: time.Duration(s.counters.syncTime.Load())}
	if s.first < s.next {
		out.First, out.Last = s.first, s.next-1
	}
	for _, g := range s.segments {
		out.Bytes += g.end
	}
	return out
}
