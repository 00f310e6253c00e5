package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/store/layout"
)

// olderCatalog refuses data that the catalog has never named: it was not
// dropped, and removing it, or giving its number again, would lose it.
func olderCatalog(dir string) error {
	return fmt.Errorf("open store: %s: %w", dir, ErrOlderCatalog)
}

// checkCatalog refuses a catalog that stands alone: database directories and the
// log name other data directories, and none the catalog's. logs are the lineages
// of the log's segments.
func (s *Store) checkCatalog(names []string, logs []identity.Lineage) error {
	lineage := s.catalog.Data().Lineage
	if foreign := layout.Foreign(s.fs, s.dir, names, lineage, logs); foreign != "" {
		return fmt.Errorf("open store: %s, the catalog to %s: %w", foreign, lineage, ErrForeignCatalog)
	}
	return nil
}

// clearDatabases deals with directories of databases that the catalog does not
// name. It removes those whose drop the catalog has recorded, for a crash came
// before their removal. The others nobody has dropped: they are set aside.
func (s *Store) clearDatabases(names []string) error {
	data := s.catalog.Data()
	removed := slices.Clone(data.Dropped.Databases) // what is recorded and not there is removed too
	any := false
	for _, name := range names {
		id, ok := layout.Number(name, layout.DatabasePrefix)
		if !ok {
			continue
		}
		dir := path.Join(s.dir, name)
		if id > uint64(data.LastDatabaseID) {
			return olderCatalog(dir)
		}
		if data.DatabaseByID(uint32(id)) != nil {
			continue
		}
		why := fmt.Errorf("the catalog does not name %s, and has no record of a drop", dir)
		if slices.Contains(data.Dropped.Databases, uint32(id)) {
			why = layout.NotOfDatabase(s.fs, dir, identity.Database{Lineage: data.Lineage, ID: uint32(id)})
		}
		if why != nil {
			if err := s.setAside(s.quarantine, name, why); err != nil {
				return err
			}
			continue
		}
		s.logger.Info("dropped database removed", "path", dir)
		if err := s.fs.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove dropped database: %w", err)
		}
		any = true
	}
	if any {
		if err := s.fs.SyncDir(s.dir); err != nil {
			return fmt.Errorf("remove dropped database: %w", err)
		}
	}
	s.catalog.Removed(meta.Dropped{Databases: removed})
	return nil
}

// clearShards does for the directories of shards in a database's what
// clearDatabases does for those of databases. wanted has the shards that the
// catalog names, dropped those whose drop it has recorded.
func (s *Store) clearShards(db *database, names []string, wanted map[uint64]meta.ShardLocation, dropped map[uint64]bool) error {
	data := s.catalog.Data()
	for _, name := range names {
		id, ok := layout.Number(name, layout.ShardPrefix)
		if !ok || wanted[id].Group != nil {
			continue
		}
		dir := path.Join(db.dir, name)
		if id > data.LastShardID {
			return olderCatalog(dir)
		}
		why := fmt.Errorf("the catalog does not name %s, and has no record of a drop", dir)
		if dropped[id] {
			why = layout.NotOfShard(s.fs, dir, data.Lineage, id)
		}
		if why != nil {
			if err := s.setAside(db.quarantine, name, why); err != nil {
				return err
			}
			continue
		}
		s.logger.Info("dropped shard removed", "path", dir)
		if err := s.fs.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove dropped shard: %w", err)
		}
	}
	if len(dropped) > 0 { // also of those that are gone: an earlier removal may not be durable yet
		if err := s.fs.SyncDir(db.dir); err != nil {
			return fmt.Errorf("remove dropped shard: %w", err)
		}
	}
	return nil
}

// openDatabases opens what the saved catalog names. A database whose files belong
// elsewhere, or are gone, is refused; the others open.
func (s *Store) openDatabases() error {
	if err := s.quarantine.Read(); err != nil {
		return err
	}
	for _, d := range s.catalog.Data().Databases {
		err := s.openWhole(d)
		if refusable(err) {
			s.refuse(d.ID, d.Name, 0, err)
			continue
		}
		if vfs.IsFull(err) && !s.hasShards(d.ID) {
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

// hasShards reports whether a database's directory may have points.
func (s *Store) hasShards(id uint32) bool {
	names, err := s.fs.List(s.databaseDir(id))
	return err != nil && !errors.Is(err, fs.ErrNotExist) || len(layout.Numbers(names, layout.ShardPrefix)) > 0
}

// clearDirectories opens what the log has added to the catalog and is there, and
// deals with what the catalog does not name.
func (s *Store) clearDirectories() error {
	if err := s.catalog.Save(); vfs.IsFull(err) {
		// A server that does not start could not be told to drop anything.
		s.logger.Error("what was dropped is not removed, the disk is full", "err", err)
		return nil
	} else if err != nil {
		return err
	}
	if err := s.removeDropped(); err != nil {
		return err
	}
	names, err := s.fs.List(s.dir)
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	if err := s.clearDatabases(names); err != nil {
		return err
	}
	data := s.catalog.Data()
	dropped, has := map[uint64]bool{}, map[uint64]bool{}
	for _, id := range data.Dropped.Shards {
		dropped[id] = true
	}
	whole := true
	for _, d := range data.Databases {
		wanted := maps.Collect(d.Shards())
		for id := range wanted {
			has[id] = true
		}
		db := s.mu.databases[d.ID]
		if db == nil {
			whole = false // a dropped shard may be in it
			continue
		}
		names, err := s.fs.List(db.dir)
		if err != nil {
			return fmt.Errorf("open database %s: %w", d.Name, err)
		}
		if err := s.clearShards(db, names, wanted, dropped); err != nil {
			return err
		}
		for _, id := range layout.Numbers(names, layout.ShardPrefix) {
			if wanted[id].Group == nil || s.mu.shards[id] != nil {
				continue
			}
			e, err := s.openShard(db, id, wanted[id].Group)
			if err != nil {
				return err
			}
			s.opened(e)
			s.mu.shards[id] = e
		}
	}
	s.ledger.Prune(has)
	if whole {
		s.catalog.Removed(meta.Dropped{Shards: data.Dropped.Shards})
	}
	return nil
}

// opened takes note of a shard that has files.
func (s *Store) opened(e *shardEntry) {
	switch {
	case !e.Saved():
	case e.Flushed() > s.logAfter || e.Flushed() == 0: // its first manifest is empty
		s.unsure.shards = append(s.unsure.shards, unsureShard{e.ID(), e.db.id})
	default:
		s.ledger.Add(e.ID(), e.db.id)
	}
}

// checkFiles returns an errFilesGone when the directory of a database, some of
// whose shards had files, is missing or empty: a disk that is not mounted. New
// points must not go beside it.
func (s *Store) checkFiles(d *meta.Database) error {
	dir := s.databaseDir(d.ID)
	names, err := s.fs.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open database %s: %w", d.Name, err)
	}
	if slices.ContainsFunc(names, func(n string) bool { return n == "series" || strings.HasPrefix(n, layout.ShardPrefix) }) {
		return nil
	}
	return fmt.Errorf("%s is missing or empty: %w, put them back or drop the database", dir, errFilesGone)
}

// openWhole opens a database with those of its shards that have a directory. On an
// error nothing of it is open.
func (s *Store) openWhole(d *meta.Database) (err error) {
	wanted := maps.Collect(d.Shards())
	var ids []uint64 // those that have had files: their directories must be there
	for id := range wanted {
		if s.ledger.Has(id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > 0 {
		if err := s.checkFiles(d); err != nil {
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
		if wanted[id].Group != nil && !s.ledger.Has(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		e, err := s.openShard(db, id, wanted[id].Group)
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
