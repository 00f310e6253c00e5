package store

import (
	"errors"
	"fmt"

	"tsdbd/meta"
	"tsdbd/shard/build"
	"tsdbd/wal"
)

// Build returns a builder of the files of a shard that has nothing. Its rows count as
// written now. They do not go through the log, and nobody sees them before Adopt. A
// shard that has points is a shard.ErrNotEmpty.
func (s *Store) Build(id uint64) (*build.Builder, error) {
	s.gate.Lock()
	defer s.gate.Unlock()
	e, err := s.buildable(id)
	if err != nil {
		return nil, err
	}
	if err := s.catalog.Save(); err != nil { // files that no catalog names would be nobody's
		return nil, err
	}
	return e.Build(s.Applied())
}

// Adopt gives a shard the files that were built for it. When it returns, all their rows
// are durable and readable. After an error the builder must be aborted, which leaves the
// files that a manifest names or may name. Views of the shard that are held see it empty.
func (s *Store) Adopt(id uint64, f *build.Files) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	e, err := s.buildable(id)
	if err != nil {
		return err
	}
	// Windows that are being computed from the entries so far do not have the rows.
	s.touched.Shard(s.Applied()+1, id, "")
	if err := s.saveTouched(); err != nil { // the log does not have the rows
		return err
	}
	if err := e.Adopt(f); err != nil {
		return err
	}
	if _, err := s.openAgain(e, nil); err != nil {
		s.mu.Lock()
		delete(s.mu.shards, id) // its next use opens it
		s.mu.Unlock()
		return err
	}
	wake(s.wakeCompact)
	// The log does not have the rows: the ledger must not wait for its next trim.
	return s.ledger.SetLog(func(*wal.Known, *bool) {})
}

// buildable returns a shard that can get files without the log. The gate is held.
func (s *Store) buildable(id uint64) (*shardEntry, error) {
	if err := s.writable(); err != nil {
		return nil, err
	}
	at, ok := s.catalog.Data().Shard(id)
	switch {
	case s.opt.OpenLog != nil:
		return nil, errors.New("a node of a cluster takes no files: all nodes apply one log")
	case !ok:
		return nil, fmt.Errorf("%w: %d", meta.ErrShardNotFound, id)
	}
	db, err := s.openedDatabase(at.Database.ID)
	if err != nil {
		return nil, err
	}
	return s.shardOf(db, at.Group)
}
