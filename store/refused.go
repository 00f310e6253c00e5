package store

import (
	"errors"

	"tsdbd/store/layout"
)

// refuse takes note of a database that does not open.
func (s *Store) refuse(id uint32, name string, first uint64, err error) {
	s.logger.Error("database does not open, the others do", "db", name, "err", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.refused[id] = &refused{name: name, err: err, first: first}
}

// refusedLocked returns why a database does not open, nil if it does. s.mu is held.
func (s *Store) refusedLocked(id uint32) error {
	if r := s.mu.refused[id]; r != nil {
		return &layout.RefusedError{Database: r.name, Err: r.err}
	}
	return nil
}

// refusedErrors returns why databases do not open, in the catalog's order.
func (s *Store) refusedErrors() (out []error) {
	data := s.catalog.Data()
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, d := range data.Databases {
		if err := s.refusedLocked(d.ID); err != nil {
			out = append(out, err)
		}
	}
	return out
}

// pinnedLocked returns the sequence of the first entry of the log that a database
// needs which does not open, 0 if there is none. s.mu is held.
func (s *Store) pinnedLocked() (first uint64) {
	for _, r := range s.mu.refused {
		if r.first != 0 && (first == 0 || r.first < first) {
			first = r.first
		}
	}
	return first
}

// unload closes a database that turned out to contradict the log while that was
// replayed, without a change of its files.
func (s *Store) unload(db *database) error {
	var errs []error
	s.mu.Lock()
	delete(s.mu.databases, db.id)
	var shards []*shardEntry
	for id, e := range s.mu.shards {
		if e.db == db {
			delete(s.mu.shards, id)
			s.displaceLocked(e)
			shards = append(shards, e)
		}
	}
	s.mu.Unlock()
	for _, e := range shards {
		s.count(e, 0)
		errs = append(errs, e.Close())
	}
	db.series.Seal()
	return errors.Join(append(errs, db.release())...)
}
