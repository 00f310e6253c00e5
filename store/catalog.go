package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"tsdbd/meta"
	"tsdbd/store/layout"
	"tsdbd/wal/entry"
)

// Catalog returns the catalog as it is now.
func (s *Store) Catalog() *meta.Data { return s.catalog.Data() }

// Apply changes the catalog and brings databases and shards in step with it:
// a new database is ready for writes, and the data of dropped shards is gone
// for readers, when it returns. Another goroutine removes their files, for as long
// as that takes.
func (s *Store) Apply(ctx context.Context, cmd meta.Command) error {
	s.gate.Lock()
	defer s.gate.Unlock() // also if the change panics: clients would wait for ever
	if err := errors.Join(ctx.Err(), s.writable()); err != nil {
		return err
	}
	before := s.catalog.Data()
	if err := s.submit(cmd); err != nil {
		return s.refusal(err)
	}
	err := s.bringInStep(cmd, before, s.catalog.Data())
	if meta.Drops(cmd) {
		s.removeLater()
	}
	return err
}

// changeBytes is the free space without which the catalog takes no change but
// drops: directories, series files and the catalog's own files are to follow.
const changeBytes = 1 << 20

// submit has a command logged and applied, unless it is refused or changes
// nothing. The gate is held, so that nothing that the command may refuse or drop
// changes meanwhile.
func (s *Store) submit(cmd meta.Command) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	data := s.catalog.Data()
	next, err := meta.Apply(cmd, data)
	if err != nil || next == data {
		return err
	}
	if c, ok := cmd.(meta.DropShardGroup); ok && c.IfDuration != 0 && !c.Uncomputed {
		if err := s.touched.Expirable(c, data); err != nil {
			return err
		}
	}
	if meta.Reserve(cmd) == 0 {
		if err := s.space.Needs(changeBytes); err != nil {
			return err
		}
	}
	if data.Index == 0 {
		// The segments of the log name the catalog's lineage.
		if err := s.catalog.Save(); err != nil {
			return err
		}
	}
	b, err := meta.EncodeCommand(cmd, data)
	if err != nil {
		return err
	}
	if err := s.log.Append(&entry.Entry{Command: b, Reserve: meta.Reserve(cmd), LogFormat: meta.NeedsLogFormat(cmd)}); err != nil {
		return err
	}
	if s.opt.SyncInterval > 0 {
		// A power cut may take the entry back, but not the directories that it
		// leads to.
		s.saveCatalog()
	}
	return nil
}

// applyCommand applies a change of the catalog that the log has. It is the same
// on every machine and at every start, also if it is refused.
func (s *Store) applyCommand(e *entry.Entry) {
	ch, err := meta.DecodeCommand(e.Command)
	if err == nil {
		s.touched.Before(e.Sequence, ch.Command, s.catalog.Data())
		err = s.catalog.Apply(e.Sequence, ch)
		s.touched.After(e.Sequence, s.catalog.Data())
	}
	if err != nil { // the leader checked it before it logged the entry
		s.logger.Error("change of the catalog in the log is refused", "sequence", e.Sequence, "err", err)
	}
}

// bringInStep brings databases and shards in step with a change of the catalog. What
// was dropped is out of service when it returns; removeDropped removes its files.
// Nothing writes meanwhile.
func (s *Store) bringInStep(cmd meta.Command, before, after *meta.Data) error {
	var errs []error
	for _, d := range after.Databases {
		if before.DatabaseByID(d.ID) == nil {
			_, err := s.openedDatabase(d.ID)
			errs = append(errs, err)
		}
	}
	if !meta.Drops(cmd) {
		return errors.Join(errs...)
	}
	gone := before.ShardsWithout(after)
	s.mu.Lock()
	for id, database := range gone {
		e := s.mu.shards[id]
		if e == nil && s.mu.databases[database] == nil {
			continue // it may have files: the next start deals with them
		}
		delete(s.mu.shards, id)
		delete(s.mu.unflushed, e)
		s.mu.dropped.shards[id] = droppedShard{e, database}
	}
	for _, d := range before.Databases {
		if after.DatabaseByID(d.ID) != nil {
			continue
		}
		s.exemplars.Drop(d.ID, nil)
		if db := s.mu.databases[d.ID]; db != nil {
			delete(s.mu.databases, d.ID)
			s.mu.dropped.databases[d.ID] = db
		}
		if s.mu.refused[d.ID] != nil {
			delete(s.mu.refused, d.ID)
			s.mu.dropped.refused = append(s.mu.dropped.refused, d.ID)
		}
	}
	s.mu.Unlock()
	if len(gone) > 0 {
		s.forgetCardinality()
	}
	return errors.Join(errs...)
}

// removeLater removes what was dropped in another goroutine, unless one waits to do
// so. The gate is held: Close waits for the removals that were begun before.
func (s *Store) removeLater() {
	if !s.removalWaits.Swap(true) {
		s.removals.Go(s.tryRemove)
	}
}

// tryRemove is removeDropped with an error in the log.
func (s *Store) tryRemove() {
	if err := s.removeDropped(); err != nil {
		s.logger.Warn("files of what was dropped not removed, will be tried again", "err", err)
	}
}

// removeDropped closes what was dropped and removes its files. The catalog is
// saved first: a start must not meet a database or a shard whose files are half
// gone. What cannot be removed the next call tries again.
func (s *Store) removeDropped() error {
	s.removing.Lock()
	defer s.removing.Unlock()
	s.removalWaits.Store(false)
	s.mu.RLock()
	shards, databases, refused := maps.Clone(s.mu.dropped.shards), maps.Clone(s.mu.dropped.databases), slices.Clone(s.mu.dropped.refused)
	s.mu.RUnlock()
	if len(shards)+len(databases)+len(refused) == 0 {
		return nil
	}
	if err := s.catalog.SaveDrop(); err != nil {
		return fmt.Errorf("the files of what was dropped cannot be removed yet: %w", err)
	}
	var errs []error
	removed := map[uint32][]uint64{}
	for id, e := range shards {
		if e.shardEntry != nil {
			if err := e.Close(); err != nil {
				s.logger.Warn("dropped shard not closed", "shard", id, "err", err)
			}
		}
		if err := s.fs.RemoveAll(path.Join(s.dir, layout.ShardDir(e.database, id))); err != nil {
			errs = append(errs, fmt.Errorf("remove shard %d: %w", id, err))
			continue
		}
		removed[e.database] = append(removed[e.database], id)
		if e.shardEntry != nil {
			s.applying.Lock()
			s.count(e.shardEntry, 0)
			s.applying.Unlock()
		}
		s.mu.Lock()
		delete(s.mu.dropped.shards, id)
		s.mu.Unlock()
	}
	for database, ids := range removed {
		// The catalog forgets only what cannot come back.
		err := s.fs.SyncDir(s.databaseDir(database))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // removed with its database
			errs = append(errs, fmt.Errorf("remove shards: %w", err))
			continue
		}
		s.catalog.Removed(meta.Dropped{Shards: ids})
	}
	for id, db := range databases {
		errs = append(errs, s.removeDatabase(id, db))
	}
	for _, id := range refused {
		// It may have the files of another database.
		why := fmt.Errorf("database %d was dropped while it did not open", id)
		err := s.setAside(s.quarantine, layout.DatabaseDir(id), why)
		if err == nil {
			s.mu.Lock()
			s.mu.dropped.refused = slices.DeleteFunc(s.mu.dropped.refused, func(x uint32) bool { return x == id })
			s.mu.Unlock()
		}
		errs = append(errs, err)
	}
	s.trim()
	return errors.Join(errs...)
}

func (s *Store) removeDatabase(id uint32, db *database) error {
	if db.dropped.CompareAndSwap(false, true) {
		// Views and repairs may still hold it. From here on they make no file.
		db.series.Seal()
		if err := db.release(); err != nil {
			s.logger.Warn("dropped database not closed", "db", db.name, "err", err)
		}
	}
	if err := errors.Join(s.fs.RemoveAll(db.dir), s.fs.SyncDir(s.dir)); err != nil {
		return fmt.Errorf("remove database %s: %w", db.name, err)
	}
	s.mu.Lock()
	delete(s.mu.dropped.databases, id)
	s.mu.Unlock()
	s.catalog.Removed(meta.Dropped{Databases: []uint32{id}})
	return nil
}
