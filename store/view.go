package store

import (
	"fmt"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/store/view"
)

// View references the shards of a retention policy that overlap r; policy ""
// is the database's default. It is the place that refuses an answer with holes.
func (s *Store) View(database, policy string, r model.TimeRange) (scan.View, error) {
	v, err := s.view(database, policy, r)
	if err != nil {
		return nil, err
	}
	return scan.Whole(v, r)
}

// Partial implements scan.Storage.
func (s *Store) Partial() scan.Storage {
	return scan.PartialViews(func(database, policy string, r model.TimeRange) (scan.View, error) {
		v, err := s.view(database, policy, r)
		if err != nil {
			return nil, err
		}
		return v.LeaveDamagedOut(), nil
	})
}

func (s *Store) view(database, policy string, r model.TimeRange) (*view.View, error) {
	db, err := s.database(database)
	if err != nil {
		return nil, err
	}
	data := s.catalog.Data()
	rp, err := data.RetentionPolicy(database, policy)
	if err != nil {
		return nil, err
	}
	// It may have been dropped since, and made again.
	if data.Database(database).ID != db.id || !db.acquire() {
		if err := s.errClosed(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, database)
	}
	v := &view.View{
		Key:  db.file().Key,
		Lost: s.logLost.List,
		Done: func() { _ = db.release() }, Accepted: data.Accepted,
	}
	s.viewing.RLock() // a move is in all shards or in none
	defer s.viewing.RUnlock()
	for _, g := range rp.ShardGroupsIn(r) {
		for _, m := range g.Shards {
			if e := s.shard(m.ID); e != nil {
				if sv := e.View(); sv != nil {
					v.Add(sv)
				}
			}
		}
	}
	return v, nil
}
