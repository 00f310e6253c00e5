package store

import (
	"tsdbd/model"
	"tsdbd/model/point"
)

// confirm makes the ids of rows final that are claims, from first on. Nobody but
// the applier calls it.
func (s *Store) confirm(db *database, first model.SeriesID, rows []point.Row) {
	ids := s.applying.ids[:0]
	for i := range rows {
		if id := rows[i].Series.ID(); id >= first && (len(ids) == 0 || ids[len(ids)-1] != id) {
			ids = append(ids, id)
		}
	}
	s.applying.ids = ids
	if len(ids) > 0 {
		db.series.Confirm(ids)
	}
}

// takeBack forgets claims of refused writes. It waits until no write is under way:
// others may have used the same ids, and confirmed them.
func (s *Store) takeBack(db *database) {
	s.gate.Lock()
	defer s.gate.Unlock()
	if s.log.Err() != nil {
		return // the next start may find the entry in the log
	}
	db.dropClaims()
}

// dropClaims forgets the ids that no row has, and takes them from the series of
// refused writes. No write is under way.
func (db *database) dropClaims() {
	db.series.DropClaims()
	for _, sr := range db.refused.list {
		id, _ := db.series.Lookup(sr.Key())
		sr.SetID(id)
	}
	db.refused.list = nil
}
