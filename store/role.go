package store

import (
	"errors"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/store/layout"
)

// A store opened as a Follower changes its role while it is open. Who leads appends
// to the log; who follows takes what comes by LogOptions.Follow and decides nothing.

// Lead lets writes, deletes and changes of the catalog in. Every entry of earlier
// leaders has been applied.
func (s *Store) Lead() {
	s.gate.Lock()
	defer s.gate.Unlock()
	s.following.Store(false)
}

// Retire refuses writes, deletes and changes of the catalog from now on, and waits
// for those under way: their Appends have failed or are about to. The store then
// forgets what only refused writes knew. None of their ids and fields is left, also if
// their entries come back by LogOptions.Follow.
func (s *Store) Retire() {
	s.following.Store(true)
	s.gate.Lock()
	defer s.gate.Unlock()
	for _, db := range s.allDatabases() {
		db.dropClaims() // fields are given back by each write, under the gate
		db.table.Store(point.NewTable(db.id))
	}
	s.forgetCardinality() // Follow counts nothing
}

// Applied returns the sequence of the last entry that was applied. After the
// opening of a Follower that is Options.LogAfter, though files may have more.
func (s *Store) Applied() uint64 {
	s.applying.Lock()
	defer s.applying.Unlock()
	return s.applying.sequence
}

// resolve is LogOptions.Resolve. Of a database that was dropped, or that does not
// open, every series has an empty key: its entries are left out.
func (s *Store) resolve(database uint32, id model.SeriesID) (string, bool) {
	db, err := s.openedDatabase(database)
	if err != nil {
		var refused *layout.RefusedError
		return "", errors.As(err, &refused) || errors.Is(err, meta.ErrDatabaseNotFound) && database <= s.catalog.Data().LastDatabaseID
	}
	if !db.acquire() {
		return "", false
	}
	defer func() { _ = db.release() }()
	key, err := db.file().Key(id)
	return key, err == nil
}
