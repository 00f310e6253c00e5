package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/shard/repair"
	"tsdbd/store/layout"
)

// clearance returns what decides about directories that the catalog does not name;
// those that nobody has dropped go to q.
func (s *Store) clearance(q *repair.Quarantine) *layout.Clearance {
	return &layout.Clearance{
		FS: s.fs, Dir: s.dir, Catalog: s.catalog.Data(), Later: s.opt.Follower, Logger: s.logger,
		SetAside: func(name string, why error) error { return s.setAside(q, name, why) },
		Skip:     s.catalog.Skip,
	}
}

// openDatabases opens what the saved catalog names. A database whose files belong
// elsewhere, or are gone, is refused; the others open.
func (s *Store) openDatabases() error {
	if err := s.quarantine.Read(); err != nil {
		return err
	}
	for _, d := range s.catalog.Data().Databases {
		err := s.openWhole(d)
		if layout.Refusable(err) {
			s.refuse(d.ID, d.Name, 0, err)
			continue
		}
		if vfs.IsFull(err) && !layout.HasShards(s.fs, s.databaseDir(d.ID)) {
			// Its first use tries again; a server that does not start could not be
			// told to drop anything.
			s.logger.Error("database not opened, the disk is full", "db", d.Name, "err", err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// clearDirectories opens what the log has added to the catalog and is there, and
// deals with what the catalog does not name.
func (s *Store) clearDirectories() error {
	if err := errors.Join(s.removeDropped(), s.catalog.Save()); vfs.IsFull(err) {
		// A server that does not start could not be told to drop anything.
		s.logger.Error("what was dropped is not removed, the disk is full", "err", err)
		return nil
	} else if err != nil {
		return err
	}
	names, err := s.fs.List(s.dir)
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	removed, err := s.clearance(s.quarantine).Databases(names)
	if err != nil {
		return err
	}
	s.catalog.Removed(removed)
	data := s.catalog.Data()
	dropped := map[uint64]bool{}
	for _, id := range data.Dropped.Shards {
		dropped[id] = true
	}
	whole := true
	for _, d := range data.Databases {
		wanted := maps.Collect(d.Shards())
		db := s.mu.databases[d.ID]
		if db == nil {
			whole = false // a dropped shard may be in it
			continue
		}
		names, err := s.fs.List(db.dir)
		if err != nil {
			return fmt.Errorf("open database %s: %w", d.Name, err)
		}
		if err := s.clearance(db.quarantine).Shards(db.dir, names, wanted, dropped); err != nil {
			return err
		}
		for _, id := range layout.Numbers(names, layout.ShardPrefix) {
			if wanted[id].Group == nil || s.mu.shards[id] != nil {
				continue
			}
			e, err := s.openShard(db, id, wanted[id].Group, nil)
			if err != nil {
				return err
			}
			s.opened(e)
			s.mu.shards[id] = e
		}
	}
	s.ledger.Prune(data)
	if whole {
		s.catalog.Removed(meta.Dropped{Shards: data.Dropped.Shards})
	}
	return nil
}

// opened takes note of a shard that has files. If the ledger knows all that they have
// flushed it stays: what merges have changed since is no loss.
func (s *Store) opened(e *shardEntry) {
	known, now := s.ledger.Known(e.ID()), e.Known()
	if e.Saved() && (known.Edition == 0 || now.Flushed > known.Flushed) {
		s.ledger.AddUnsure(e.ID(), e.db.id, now)
	}
}

// openWhole opens a database with those of its shards that have a directory. On an
// error nothing of it is open.
func (s *Store) openWhole(d *meta.Database) (err error) {
	wanted := maps.Collect(d.Shards())
	var ids []uint64 // those that have had files: their directories must be there
	for id := range wanted {
		if s.ledger.Known(id).Edition > 0 {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		if err := layout.CheckFiles(s.fs, s.databaseDir(d.ID), d.Name); err != nil {
			return err
		}
	}
	db, err := s.openDatabase(d)
	if err != nil {
		return err
	}
	var shards []*shardEntry
	defer func() {
		if err != nil {
			for _, e := range shards {
				err = errors.Join(err, e.Close())
			}
			err = errors.Join(err, db.release())
		}
	}()
	names, err := s.fs.List(db.dir)
	if err != nil {
		return fmt.Errorf("open database %s: %w", d.Name, err)
	}
	for _, id := range layout.Numbers(names, layout.ShardPrefix) {
		if wanted[id].Group != nil && s.ledger.Known(id).Edition == 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		e, err := s.openShard(db, id, wanted[id].Group, nil)
		if err != nil {
			return err
		}
		shards = append(shards, e)
		s.opened(e)
	}
	if err := s.repairSeries(db, shards); err != nil {
		return err
	}
	s.mu.databases[d.ID] = db
	for _, e := range shards {
		s.mu.shards[e.ID()] = e
	}
	return nil
}
