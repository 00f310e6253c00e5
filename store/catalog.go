package store

import (
	"context"
	"errors"
	"fmt"

	"tsdbd/meta"
)

// Catalog returns the catalog as it is now.
func (s *Store) Catalog() *meta.Data { return s.catalog.Data() }

// Apply changes the catalog and brings databases and shards in step with it:
// a new database is ready for writes, and the data of dropped shards is gone
// for readers, when it returns. Once the catalog has taken the change it is
// done; what of it a crash leaves on disk the next Open removes. Writers wait
// for the change, not for the removal of files.
func (s *Store) Apply(ctx context.Context, cmd meta.Command) error {
	s.gate.Lock()
	if err := errors.Join(ctx.Err(), s.writable()); err != nil {
		s.gate.Unlock()
		return err
	}
	s.removals.Add(1) // before Close gets the gate
	defer s.removals.Done()
	gone, dropped, aside, err := s.change(cmd)
	s.gate.Unlock()
	errs := []error{err}
	if gone {
		errs = append(errs, s.removeDropped())
	}
	for _, db := range dropped {
		errs = append(errs, s.removeDatabase(db))
	}
	for _, id := range aside {
		why := fmt.Errorf("database %d was dropped while it did not open", id)
		errs = append(errs, s.setAside(&s.quarantine, DatabaseDir(id), why))
	}
	return errors.Join(errs...)
}

// change does Apply but for the removal of files: gone says that there are
// shards to remove, dropped are the databases, and aside the ids of dropped
// databases that did not open. The gate is held.
func (s *Store) change(cmd meta.Command) (gone bool, dropped []*database, aside []uint32, err error) {
	before := s.catalog.Data()
	after, err := s.catalog.Apply(cmd)
	if err != nil {
		s.doubt(before, cmd, err)
		return false, nil, nil, s.refusal(err)
	}
	if before == after {
		return false, nil, nil, nil
	}
	// The change is made: what fails from here on must not stop the rest.
	var errs []error
	for _, d := range after.Databases {
		if before.DatabaseByID(d.ID) == nil {
			_, err := s.openedDatabase(d.ID)
			errs = append(errs, err)
		}
	}
	if ids := append(missingShards(before, after), s.orphans(after)...); len(ids) > 0 {
		s.forgetShards(ids)
		gone = true
	}
	aside = s.dropRefused(after)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range before.Databases {
		if db := s.mu.databases[d.ID]; db != nil && after.DatabaseByID(d.ID) == nil {
			delete(s.mu.databases, d.ID)
			dropped = append(dropped, db)
		}
	}
	return gone, dropped, aside, errors.Join(errs...)
}

// doubt stops all writes when a command failed of which only the next start will
// know whether it took place, and which drops data: a point written to what the
// start finds dropped would be acknowledged and gone (W1).
func (s *Store) doubt(before *meta.Data, cmd meta.Command, err error) {
	if s.catalog.Err() == nil {
		return
	}
	if after, aerr := meta.Apply(cmd, before); aerr == nil && (len(missingShards(before, after)) > 0 || len(after.Databases) < len(before.Databases)) {
		s.fail(fmt.Errorf("a drop may or may not have taken place: %w", err))
	}
}

// orphans returns the open shards whose database is not in the catalog: those
// that retention has taken out of it and not yet closed go with the others.
func (s *Store) orphans(data *meta.Data) []uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var ids []uint64
	for id, e := range s.mu.shards {
		if data.DatabaseByID(e.db.id) == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// missingShards returns the shards of before that after no longer has.
func missingShards(before, after *meta.Data) []uint64 {
	have := map[uint64]bool{}
	each := func(d *meta.Data, f func(id uint64)) {
		for _, db := range d.Databases {
			for _, rp := range db.RetentionPolicies {
				for _, g := range rp.ShardGroups {
					for _, m := range g.Shards {
						f(m.ID)
					}
				}
			}
		}
	}
	each(after, func(id uint64) { have[id] = true })
	var gone []uint64
	each(before, func(id uint64) {
		if !have[id] {
			gone = append(gone, id)
		}
	})
	return gone
}

func (s *Store) removeDatabase(db *database) error {
	if err := db.release(); err != nil {
		s.logger.Warn("dropped database not closed", "db", db.name, "err", err)
	}
	if err := errors.Join(s.fs.RemoveAll(db.dir), s.fs.SyncDir(s.dir)); err != nil {
		return fmt.Errorf("remove database %s: %w", db.name, err)
	}
	s.catalog.Removed(meta.Dropped{Databases: []uint32{db.id}})
	return nil
}
