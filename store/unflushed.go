package store

// The store keeps at hand what a flush asks of all shards, so that it costs the
// same with one shard and with thousands: which shards have anything that only
// the log keeps safe, by the first entry that has it, and what memory each is
// counted with in Store.cached. Both change between two entries only (applying).

// dirty gives a shard its place after an entry was applied to it.
func (s *Store) dirty(e *shardEntry) {
	if e.unflushedElem != nil {
		return // its first entry is still the first
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placeLocked(e)
}

// placeLocked puts a shard where its first unflushed entry belongs. s.mu is held.
func (s *Store) placeLocked(e *shardEntry) {
	first, dirty := e.FirstUnflushed()
	if e.unflushedElem != nil && dirty && first == e.unflushedSince {
		return
	}
	s.displaceLocked(e)
	if !dirty {
		return
	}
	// Few shards had their first entry since, most often none.
	at := s.mu.unflushed.Back()
	for at != nil && at.Value.(*shardEntry).unflushedSince > first {
		at = at.Prev()
	}
	e.unflushedSince = first
	if at == nil {
		e.unflushedElem = s.mu.unflushed.PushFront(e)
	} else {
		e.unflushedElem = s.mu.unflushed.InsertAfter(e, at)
	}
}

// displaceLocked takes a shard out of the list. s.mu is held.
func (s *Store) displaceLocked(e *shardEntry) {
	if e.unflushedElem != nil {
		s.mu.unflushed.Remove(e.unflushedElem)
		e.unflushedElem = nil
	}
}

// updateUnflushed brings a shard's element and bytes up to date after a flush of it.
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

// unflushedLocked calls f with the shards that have a place, the one that pins the
// oldest entry first, until f returns false. s.mu is held.
func (s *Store) unflushedLocked(f func(e *shardEntry) bool) {
	for at := s.mu.unflushed.Front(); at != nil && f(at.Value.(*shardEntry)); at = at.Next() {
	}
}

// flushedUpTo returns the sequence up to which every shard has the log in its
// files, limit at most. Shards of a database that does not open have none of it.
func (s *Store) flushedUpTo(limit uint64) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if at := s.mu.unflushed.Front(); at != nil {
		limit = min(limit, at.Value.(*shardEntry).unflushedSince-1)
	}
	if first := s.pinnedLocked(); first != 0 {
		limit = min(limit, first-1)
	}
	return limit
}

func (s *Store) dirtyShards() (dirty []*shardEntry) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.unflushedLocked(func(e *shardEntry) bool {
		dirty = append(dirty, e)
		return true
	})
	return dirty
}
