package store

import (
	"maps"
	"slices"
)

// Which entries only the log keeps safe, and what memory a shard is counted with in
// Store.cached, change between two entries only (applying).

// dirty takes note that an entry was applied to a shard.
func (s *Store) dirty(e *shardEntry) {
	s.mu.RLock()
	_, known := s.mu.unflushed[e]
	s.mu.RUnlock()
	if !known { // else its first entry is still the first
		s.mu.Lock()
		defer s.mu.Unlock()
		s.noteLocked(e)
	}
}

func (s *Store) noteLocked(e *shardEntry) {
	if first, dirty := e.FirstUnflushed(); dirty {
		s.mu.unflushed[e] = first
	} else {
		delete(s.mu.unflushed, e)
	}
}

// updateUnflushed brings what is noted of a shard up to date after a flush of it.
func (s *Store) updateUnflushed(e *shardEntry) {
	s.ledger.Add(e.ID(), e.db.id, e.Known())
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.shards[e.ID()] != e {
		return // dropped meanwhile
	}
	s.noteLocked(e)
	s.count(e, e.Bytes())
}

// count sets what a shard is counted with.
func (s *Store) count(e *shardEntry, bytes int64) {
	s.memory.cached.Add(bytes - e.countedBytes)
	e.countedBytes = bytes
}

// flushedUpTo returns the sequence up to which every shard has the log in its
// files, limit at most. Shards of a database that does not open have none of it.
func (s *Store) flushedUpTo(limit uint64) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, since := range s.mu.unflushed {
		limit = min(limit, since-1)
	}
	if first := s.mu.refused.First(); first != 0 {
		limit = min(limit, first-1)
	}
	return limit
}

// dirtyShards returns the shards that have anything unflushed.
func (s *Store) dirtyShards() []*shardEntry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.mu.unflushed))
}
