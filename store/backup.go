package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	"tsdbd/meta"
	"tsdbd/series"
	"tsdbd/shard"
)

// BackupSet is the store as of one sequence, held: its files stay on disk until Release.
type BackupSet struct {
	// Sequence is the log position: everything up to it is in the files,
	// nothing after it.
	Sequence uint64
	Catalog  *meta.Data // as of the end of the flush; shards made since Sequence are empty
	Shards   []*shard.Export
	Series   []series.Export // of each database in the catalog
}

// Release gives everything back.
func (b *BackupSet) Release() {
	for _, e := range b.Shards {
		e.Release()
	}
	for _, f := range b.Series {
		_ = f.File.Close()
	}
	b.Shards, b.Series = nil, nil
}

// backupAttempts is how often Backup tries to get past deletes before it makes
// them wait, for as long as its flushes take; writers never do.
const backupAttempts = 4

// Backup flushes the shards that want chooses, nil for all, at one sequence and
// references their files. Writes go on meanwhile: they wait for the moment in
// which the caches are cut, and stay in memory for the time of the flush.
//
// A delete that is applied between the cut and the end of the flush would show
// in some files and not in others, so the flush is then done again.
func (s *Store) Backup(ctx context.Context, want func(db *meta.Database, rp *meta.RetentionPolicy, g *meta.ShardGroup, id uint64) bool) (*BackupSet, error) {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	for attempt := 1; ; attempt++ {
		b, err := s.backup(ctx, want, attempt == backupAttempts)
		if b != nil || err != nil {
			return b, err
		}
	}
}

// backup returns nil without an error when a delete came between.
func (s *Store) backup(ctx context.Context, want func(*meta.Database, *meta.RetentionPolicy, *meta.ShardGroup, uint64) bool, exclusive bool) (*BackupSet, error) {
	if exclusive {
		s.deleting.Lock()
		defer s.deleting.Unlock()
	}
	s.gate.RLock() // no delete and no drop is under way
	err := cmp.Or(s.errClosed(), s.refusedError(want))
	chosen := map[uint64]*shardEntry{}
	for id, at := range s.catalog.Data().Shards() {
		if e := s.shard(id); e != nil && (want == nil || want(at.Database, at.Policy, at.Group, id)) {
			chosen[id] = e
		}
	}
	changes := s.counters.Changes()
	s.gate.RUnlock()
	if err == nil {
		err = s.flushChosen(ctx, chosen) // what is left of a flush that failed
	}
	if err != nil {
		return nil, err
	}

	s.gate.RLock()
	s.applying.Lock()
	b := &BackupSet{Sequence: s.applying.sequence}
	if s.counters.Changes() == changes {
		s.mu.Lock()
		for _, e := range chosen {
			e.tries.pending = e.Freeze(s.applying.sequence)
		}
		s.mu.Unlock()
	}
	s.applying.Unlock()
	s.gate.RUnlock()
	if err := s.flushChosen(ctx, chosen); err != nil {
		return nil, err
	}

	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.counters.Changes() != changes {
		return nil, nil
	}
	if err := s.errClosed(); err != nil {
		return nil, err
	}
	b.Catalog = s.catalog.Data()
	if err := s.hold(b, chosen); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// refusedError returns why a database does not open whose shards want chooses. A
// backup must not lack it in silence.
func (s *Store) refusedError(want func(*meta.Database, *meta.RetentionPolicy, *meta.ShardGroup, uint64) bool) error {
	for _, d := range s.catalog.Data().Databases {
		_, err := s.lookUp(d.ID)
		if err == nil {
			continue
		}
		if want == nil {
			return err
		}
		for id, at := range d.Shards() {
			if want(d, at.Policy, at.Group, id) {
				return err
			}
		}
	}
	return nil
}

// flushChosen flushes snapshots that wait. It leaves out of the chosen shards those that were
// dropped meanwhile, and reports which of the others could not be flushed.
func (s *Store) flushChosen(ctx context.Context, chosen map[uint64]*shardEntry) error {
	for _, e := range chosen {
		if e.tries.pending != nil {
			s.flushLocked(ctx, e)
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	maps.DeleteFunc(chosen, func(id uint64, e *shardEntry) bool { return s.shard(id) != e })
	for id, e := range chosen {
		if e.tries.pending != nil {
			return fmt.Errorf("shard %d could not be flushed, see the log", id)
		}
	}
	return nil
}

// errClosed returns ErrClosed after Close.
func (s *Store) errClosed() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.closed {
		return ErrClosed
	}
	return nil
}

// hold references what b.Catalog names of the chosen shards.
func (s *Store) hold(b *BackupSet, chosen map[uint64]*shardEntry) error {
	for _, d := range b.Catalog.Databases {
		for id := range d.Shards() {
			e := chosen[id]
			if e == nil {
				continue
			}
			x, err := e.Export()
			if err != nil {
				return fmt.Errorf("shard %d: %w", id, err)
			}
			if x != nil {
				b.Shards = append(b.Shards, x)
			}
		}
		db, _ := s.lookUp(d.ID)
		if db == nil {
			continue // it does not open, or has no points
		}
		log, err := db.series.Export()
		if err != nil {
			return fmt.Errorf("series of database %s: %w", d.Name, err)
		}
		b.Series = append(b.Series, log)
	}
	return nil
}
