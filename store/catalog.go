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
// done; what of it a crash leaves on disk the next Open removes.
func (s *Store) Apply(ctx context.Context, cmd meta.Command) error {
	s.gate.Lock()
	defer s.gate.Unlock()
	if err := errors.Join(ctx.Err(), s.writable()); err != nil {
		return err
	}
	before := s.catalog.Data()
	after, err := s.catalog.Apply(cmd)
	if err != nil {
		return s.refusal(err)
	}
	if before == after {
		return nil
	}
	// The change is made: what fails from here on must not stop the rest.
	var errs []error
	for _, d := range after.Databases {
		if before.DatabaseByID(d.ID) == nil {
			_, err := s.openedDatabase(d.ID)
			errs = append(errs, err)
		}
	}
	if gone := append(missingShards(before, after), s.orphans(after)...); len(gone) > 0 {
		s.forgetShards(gone)
		errs = append(errs, s.removeDropped())
	}
	for _, d := range before.Databases {
		if after.DatabaseByID(d.ID) == nil {
			errs = append(errs, s.removeDatabase(d))
		}
	}
	return errors.Join(errs...)
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

func (s *Store) removeDatabase(d *meta.Database) error {
	s.mu.Lock()
	db := s.mu.databases[d.ID]
	delete(s.mu.databases, d.ID)
	s.mu.Unlock()
	if db == nil {
		return nil
	}
	if err := db.release(); err != nil {
		s.logger.Warn("dropped database not closed", "db", d.Name, "err", err)
	}
	if err := s.fs.RemoveAll(db.dir); err != nil {
		return fmt.Errorf("remove database %s: %w", d.Name, err)
	}
	return nil
}
