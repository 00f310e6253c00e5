package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"

	"tsdbd/meta"
	"tsdbd/series"
	"tsdbd/shard/manifest"
	"tsdbd/shard/renew"
	"tsdbd/shard/repair"
	"tsdbd/store/layout"
	"tsdbd/store/renewal"
)

// RenewShard puts the files of another node in place of those of a shard, while the
// store follows others. See package renewal.
func (s *Store) RenewShard(ctx context.Context, id uint64, fetch renewal.Fetch) error {
	e := s.shard(id)
	if e == nil || !e.db.acquire() {
		return fmt.Errorf("%w: %d", meta.ErrShardNotFound, id)
	}
	defer func() { _ = e.db.release() }()
	defer e.merges.Hold()()
	defer e.deletes.Note()()
	moves := s.counters.Moves.Load()
	return renewal.Run(ctx, renewal.Shard{
		Applied: s.Applied,
		Flushed: e.Flushed,
		Flush: func(above uint64) error {
			s.flushing.Lock()
			defer s.flushing.Unlock()
			return s.flushAbove(ctx, e, above)
		},
		Change: func(f *renew.Files) error {
			s.flushing.Lock()
			defer s.flushing.Unlock()
			s.gate.Lock() // nothing is applied
			defer s.gate.Unlock()
			if s.shard(id) != e || s.counters.Moves.Load() != moves || !errors.Is(s.writable(), ErrNotLeader) {
				return fmt.Errorf("%w: it was dropped, series were moved, or this node leads", renew.ErrNotNow)
			}
			err := s.flushAbove(ctx, e, 0)
			if _, dirty := e.FirstUnflushed(); err == nil && dirty { // putFiles gives the caches up
				err = fmt.Errorf("%w: rows wait in memory", renew.ErrNotNow)
			}
			if err != nil {
				return err
			}
			return s.putFiles(e, f)
		},
	}, fetch)
}

// flushAbove flushes a shard. In its sequences, what it writes begins behind above.
// s.flushing is held.
func (s *Store) flushAbove(ctx context.Context, e *shardEntry, above uint64) error {
	for range 2 { // a snapshot that waits has not what came since
		if e.tries.pending == nil {
			s.applying.Lock()
			snap := e.Freeze(s.applying.sequence)
			s.applying.Unlock()
			if snap == nil {
				break
			}
			snap.Above(above)
			s.mu.Lock()
			e.tries.pending = snap
			s.mu.Unlock()
		}
		s.flushLocked(ctx, e)
		if e.tries.pending != nil {
			return fmt.Errorf("flush shard %d: %w", e.ID(), cmp.Or(ctx.Err(), e.tries.failed))
		}
	}
	return ctx.Err()
}

// putFiles puts files in place of those of a shard whose caches are empty. The gate is held.
func (s *Store) putFiles(e *shardEntry, f *renew.Files) error {
	how := fmt.Sprintf("The files of shard %d were fetched from %s as of sequence %d: nothing is lost.", e.ID(), f.From, f.Cut)
	for _, d := range e.Damaged() {
		if err := e.Quarantine().Keep(path.Base(d.Path), d, how); err != nil {
			return err
		}
	}
	losses := e.Quarantine().List()
	fresh, err := s.openAgain(e, func(m *manifest.Manifest) error {
		return f.Put(s.fs, path.Join(s.dir, layout.ShardDir(e.db.id, e.ID())), m, s.Applied(), e.deletes.List())
	})
	if err != nil {
		return err
	}
	if err := fresh.Quarantine().Settle(losses, how); err != nil {
		s.logger.Warn("the shard is sound, but is renewed again, for its losses are still noted", "shard", e.ID(), "err", err)
	}
	return e.Close()
}

// openAgain opens the shard of an entry in another one, which takes its place. The gate is
// held.
func (s *Store) openAgain(e *shardEntry, renew func(*manifest.Manifest) error) (*shardEntry, error) {
	at, _ := s.catalog.Data().Shard(e.ID())
	fresh, err := s.openShard(e.db, e.ID(), at.Group, renew)
	if err != nil {
		return nil, err
	}
	s.ledger.Add(e.ID(), e.db.id, fresh.Known())
	e.db.cardinality.Forget()
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.unflushed, e)
	s.mu.shards[e.ID()] = fresh
	s.count(e, 0)
	s.count(fresh, fresh.Bytes())
	return fresh, nil
}

// RepairSeries calls do with the series file and the quarantine of a database.
func (s *Store) RepairSeries(id uint32, do func(f *series.File, q *repair.Quarantine) error) error {
	db, err := s.openedDatabase(id)
	if err != nil {
		return err
	}
	if !db.acquire() {
		return fmt.Errorf("%w: %d", meta.ErrDatabaseNotFound, id)
	}
	defer func() { _ = db.release() }()
	return db.seriesError(do(db.series, db.quarantine))
}
