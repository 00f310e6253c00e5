package store

import "slices"

// The places of shards among those that have anything unflushed, and what memory each is
// counted with in Store.cached, change between two entries only (applying).

// dirty gives a shard its place after an entry was applied to it.
func (s *Store) dirty(e *shardEntry) {
	if e.place.Taken() {
		return // its first entry is still the first
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placeLocked(e)
}

// placeLocked puts a shard where its first unflushed entry belongs. s.mu is held.
func (s *Store) placeLocked(e *shardEntry) {
	if first, dirty := e.FirstUnflushed(); dirty {
		s.mu.unflushed.Put(e, &e.place, first)
	} else {
		s.mu.unflushed.Remove(&e.place)
	}
}

// updateUnflushed brings a shard's place and bytes up to date after a flush of it.
func (s *Store) updateUnflushed(e *shardEntry) {
	s.ledger.Add(e.ID(), e.db.id, e.Known())
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.shards[e.ID()] != e {
		return // dropped meanwhile
	}
	s.placeLocked(e)
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
	for e := range s.mu.unflushed.All() {
		limit = min(limit, e.place.Since-1)
		break
	}
	if first := s.mu.refused.First(); first != 0 {
		limit = min(limit, first-1)
	}
	return limit
}

func (s *Store) dirtyShards() []*shardEntry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(s.mu.unflushed.All())
}
