package store

import (
	"fmt"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/shard"
	"tsdbd/store/move"
)

// storeView is the shards of a retention policy as a query sees them: they stay as they are
// and readable until the view is released. It implements scan.View.
type storeView struct {
	store   *Store
	db      *database
	keys    move.Series
	catalog *meta.Data // when the view was taken
	held    []*shard.View
	shards  []scan.Shard // those of held, by time
}

func (v *storeView) Shards() []scan.Shard { return v.shards }

func (v *storeView) SeriesKey(id model.SeriesID) (string, error) { return v.keys.Key(id) }

func (v *storeView) Release() {
	for _, sh := range v.held {
		sh.Release()
	}
	_ = v.db.release()
}

// Losses returns what damage has taken from the view's shards and from the log.
func (v *storeView) Losses() []scan.Loss {
	out := v.store.logLosses()
	for _, sh := range v.held {
		out = append(out, sh.Losses()...)
	}
	for i := range out {
		out[i].Accepted = v.catalog.Accepted(out[i].Shard, out[i].ID)
	}
	return out
}

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
		for _, sh := range v.held {
			sh.LeaveDamagedOut()
		}
		return v, nil
	})
}

func (s *Store) view(database, policy string, r model.TimeRange) (*storeView, error) {
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
	v := &storeView{store: s, db: db, keys: db.file(), catalog: data}
	s.viewing.RLock() // a move is in all shards or in none
	defer s.viewing.RUnlock()
	for _, g := range rp.ShardGroupsIn(r) {
		for _, m := range g.Shards {
			if e := s.shard(m.ID); e != nil {
				if sv := e.View(); sv != nil {
					v.held, v.shards = append(v.held, sv), append(v.shards, sv)
				}
			}
		}
	}
	return v, nil
}
