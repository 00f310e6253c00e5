package store

import (
	"fmt"
	"slices"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/shard"
)

// view implements scan.View.
type view struct {
	store  *Store
	db     *database
	shards []scan.Shard
	held   []*shard.View
}

// View references the shards of a retention policy that overlap r; policy ""
// is the database's default.
func (s *Store) View(database, policy string, r model.TimeRange) (scan.View, error) {
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
	v := &view{store: s, db: db}
	for _, g := range rp.ShardGroupsIn(r) {
		for _, m := range g.Shards {
			if e := s.shard(m.ID); e != nil {
				if sv := e.View(); sv != nil {
					v.held = append(v.held, sv)
					v.shards = append(v.shards, sv)
				}
			}
		}
	}
	return v, nil
}

// Shards returns the shards by time.
func (v *view) Shards() []scan.Shard { return v.shards }

// SeriesKey returns the canonical key of a series.
func (v *view) SeriesKey(id model.SeriesID) (string, error) {
	key, err := v.db.series.Key(id)
	return key, v.db.seriesError(err)
}

// Release gives the references back.
func (v *view) Release() {
	for _, sv := range v.held {
		sv.Release()
	}
	_ = v.db.release()
}

// Losses returns what damage has taken from the view's shards and from the log.
func (v *view) Losses() []scan.Loss {
	out := slices.Clone(*v.store.logLosses.Load())
	for _, sv := range v.held {
		out = append(out, sv.Losses()...)
	}
	return out
}
