package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/meta"
	"tsdbd/wal/entry"
)

// applyDelete applies one logged delete.
func (s *Store) applyDelete(sequence uint64, d *entry.Delete) {
	sh := s.shard(d.Shard)
	if sh == nil {
		return
	}
	set := roaring.New()
	if err := set.UnmarshalBinary(d.Series); err != nil {
		// The log's checksum held, so this was written so: a bug of ours.
		s.logger.Error("delete in log unreadable", "shard", d.Shard, "err", err)
		return
	}
	err := sh.Delete(sequence, set, d.Range)
	s.dirty(sh)
	s.count(sh, sh.Bytes())
	sh.compactIdle.Store(false)
	if err != nil {
		s.logger.Error("delete applied, but the index may still list series without rows", "shard", d.Shard, "err", err)
	}
}

// expireShards drops shards of a database that retention has taken out of the
// catalog. Writes that found them in the catalog before are waited for, so that
// none opens one again.
func (s *Store) expireShards(database uint32, ids []uint64) error {
	s.gate.Lock()
	unopened := s.forgetShards(ids)
	s.gate.Unlock()
	return errors.Join(s.removeDropped(), s.removeUnopened(database, unopened))
}

// forgetShards takes shards that the catalog no longer has out of service, and
// returns those that were not open. The gate is held.
func (s *Store) forgetShards(ids []uint64) (unopened []uint64) {
	s.mu.Lock()
	for _, id := range ids {
		e := s.mu.shards[id]
		if e == nil {
			unopened = append(unopened, id)
			continue
		}
		delete(s.mu.shards, id)
		s.displaceLocked(e)
		s.mu.dropped[id] = e
	}
	s.mu.Unlock()
	s.forgetCardinality()
	return unopened
}

// removeUnopened has the catalog forget dropped shards that were not open. No
// point was ever written to them: there is no directory, or one that a failed
// opening has left. Groups that are made ahead and never used would otherwise
// stay in the catalog's record until the next start. The shards of a database
// that is not open may have files: the next start deals with these.
func (s *Store) removeUnopened(database uint32, ids []uint64) error {
	s.mu.RLock()
	db := s.mu.databases[database]
	ids = slices.DeleteFunc(ids, func(id uint64) bool { return s.mu.dropped[id] != nil })
	s.mu.RUnlock()
	if db == nil || len(ids) == 0 {
		return nil
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, s.fs.RemoveAll(path.Join(s.dir, ShardDir(database, id))))
	}
	if err := errors.Join(append(errs, s.fs.SyncDir(db.dir))...); err != nil {
		return fmt.Errorf("remove shards: %w", err)
	}
	s.catalog.Removed(meta.Dropped{Shards: ids})
	return nil
}

// removeDropped closes the shards that are out of service and removes their
// directories. What it cannot remove the next call tries again, and what a
// crash leaves of them the next Open removes.
func (s *Store) removeDropped() error {
	s.removing.Lock()
	defer s.removing.Unlock()
	s.mu.RLock()
	dropped := maps.Clone(s.mu.dropped)
	s.mu.RUnlock()
	var errs []error
	removed := map[*database][]uint64{}
	for id, e := range dropped {
		if err := e.Close(); err != nil {
			s.logger.Warn("dropped shard not closed", "shard", id, "err", err)
		}
		if err := s.fs.RemoveAll(path.Join(s.dir, ShardDir(e.db.id, id))); err != nil {
			errs = append(errs, fmt.Errorf("remove shard %d: %w", id, err))
			continue
		}
		removed[e.db] = append(removed[e.db], id)
		s.applying.Lock()
		s.count(e, 0)
		s.applying.Unlock()
		s.mu.Lock()
		delete(s.mu.dropped, id)
		s.mu.Unlock()
	}
	for db, ids := range removed {
		// The catalog forgets only what cannot come back.
		err := s.fs.SyncDir(db.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed with its database
			errs = append(errs, fmt.Errorf("remove shards: %w", err))
			continue
		}
		s.catalog.Removed(meta.Dropped{Shards: ids})
	}
	s.trim()
	return errors.Join(errs...)
}
