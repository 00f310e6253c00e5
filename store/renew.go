package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"tsdbd/meta"
	"tsdbd/series"
	"tsdbd/shard/manifest"
	"tsdbd/shard/renew"
	"tsdbd/shard/repair"
	"tsdbd/store/layout"
)

// Fetch fetches the files of a shard. It calls begun with the sequence of the cut before it
// does, and use with the files, which nobody needs when that returns. It ends with their errors.
type Fetch func(ctx context.Context, begun func(cut uint64) error, use func(f *renew.Files) error) error

// RenewShard puts the files of another node in place of those of a shard, while the
// store follows others and serves. Package renew has the manifest.
//
// It flushes the shard, and asks for a cut of the other node's shard. Once this node has
// applied as much as the cut has, it flushes again, in sequences that begin behind the cut:
// the rows of earlier entries that this flush has are in the cut as well, and are the same.
// Then it fetches the files, which takes long; flushes go on meanwhile. At last it changes
// from one manifest to the other while nothing is applied. No merge runs in the shard from
// the first step to the last.
//
// A failure or a crash at any place leaves the shard as it was, or renewed. The error is a
// renew.ErrNotNow if the shard changed meanwhile in a way that the files do not fit to.
func (s *Store) RenewShard(ctx context.Context, id uint64, fetch Fetch) error {
	e := s.shard(id)
	if e == nil || !e.db.acquire() {
		return fmt.Errorf("%w: %d", meta.ErrShardNotFound, id)
	}
	defer func() { _ = e.db.release() }()
	defer e.merges.Hold()()
	defer e.deletes.begin()()
	moves := s.counters.Moves.Load()
	if err := s.flushAbove(ctx, e, 0); err != nil {
		return err
	}
	flushed := e.Flushed()
	begun := func(cut uint64) error {
		if cut < flushed {
			return fmt.Errorf("%w: the other node has entries up to %d, files of this one up to %d", renew.ErrNotNow, cut, flushed)
		}
		for s.Applied() < cut {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
		if e.Flushed() != flushed {
			return fmt.Errorf("%w: it was flushed", renew.ErrNotNow)
		}
		return s.flushAbove(ctx, e, cut)
	}
	return fetch(ctx, begun, func(f *renew.Files) error {
		if err := s.flushAbove(ctx, e, 0); err != nil { // most of what the gate would have to wait for
			return err
		}
		s.flushing.Lock()
		defer s.flushing.Unlock()
		s.gate.Lock() // nothing is applied
		defer s.gate.Unlock()
		if s.shard(id) != e || s.counters.Moves.Load() != moves || !errors.Is(s.writable(), ErrNotLeader) {
			return fmt.Errorf("%w: it was dropped, series were moved, or this node leads", renew.ErrNotNow)
		}
		err := s.flushAboveLocked(ctx, e, 0)
		if _, dirty := e.FirstUnflushed(); err == nil && dirty { // putFiles gives the caches up
			err = fmt.Errorf("%w: rows wait in memory", renew.ErrNotNow)
		}
		if err != nil {
			return err
		}
		return s.putFiles(e, f)
	})
}

// flushAbove flushes a shard. In its sequences, what it writes begins behind above.
func (s *Store) flushAbove(ctx context.Context, e *shardEntry, above uint64) error {
	s.flushing.Lock()
	defer s.flushing.Unlock()
	return s.flushAboveLocked(ctx, e, above)
}

// flushAboveLocked is flushAbove with s.flushing held.
func (s *Store) flushAboveLocked(ctx context.Context, e *shardEntry, above uint64) error {
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
		return f.Put(s.fs, path.Join(s.dir, layout.ShardDir(e.db.id, e.ID())), m, s.Applied(), e.deletes.list())
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
