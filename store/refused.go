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
	s.mu.refused[id] = &layout.RefusedError{Database: name, Err: err, First: first}
}

// unload closes a database that turned out to contradict the log while that was
// replayed, without a change of its files.
func (s *Store) unload(db *database) error {
	var errs []error
	shards := s.shardsOf(db)
	s.mu.Lock()
	delete(s.mu.databases, db.id)
	for _, e := range shards {
		delete(s.mu.shards, e.ID())
		delete(s.mu.unflushed, e)
	}
	s.mu.Unlock()
	for _, e := range shards {
		s.count(e, 0)
		errs = append(errs, e.Close())
	}
	db.series.Seal()
	return errors.Join(append(errs, db.release())...)
}
