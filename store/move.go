package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/shard"
	"tsdbd/shard/moves"
	"tsdbd/store/cardinality"
	"tsdbd/store/move"
	"tsdbd/tsi"
	"tsdbd/tsi/match"
	"tsdbd/wal/entry"
)

// Move gives series other names, with all rows that they have, or a field of them. It is
// durable and applied when it returns, in all shards at once. What is written under an old
// name after it stays there. Series are selected as those of a delete.
//
// What grows with the series is done without the gate: they are selected and get their
// targets, names and limits are checked, and the targets are indexed. Under the gate only
// shards are looked at that have changed since. If there is too much to do the move leaves
// the gate, works that out, and tries again.
func (s *Store) Move(ctx context.Context, req scan.MoveRequest) (moved scan.Moved, err error) {
	if err := cmp.Or(move.Check(&req.Change), s.writable()); err != nil {
		return moved, err
	}
	db, err := s.database(req.Database)
	if err != nil {
		return moved, err
	}
	if !db.acquire() {
		return moved, fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, req.Database)
	}
	defer func() { _ = db.release() }()
	m := &pendingMove{change: &req.Change, pendingDelete: s.newDelete(db, &scan.DeleteRequest{
		Database:    req.Database,
		Measurement: func(name string) bool { return name == req.Change.Measurement },
		Where:       req.Where,
		Range:       model.AllTime,
	})}
	defer m.Release()
	m.folds = &move.Folds{Store: s, Turn: s.folding, Full: ErrOverloaded, Database: db.name, Measurement: req.Change.To}
	defer func() {
		if failed := m.folds.End(ctx, err == nil); failed != nil {
			s.logger.Warn("rows that a move has staged are left until the next move or start", "db", db.name, "err", failed)
		}
	}()
	s.counters.Moves.Add(1)
	err = errDeleteBusy
	for range deleteRounds {
		var ids []uint64
		if ids, err = m.resolve(ctx, match.NewWork(ctx)); err == nil {
			err = m.prepare(ctx, ids)
		}
		if err == nil {
			err = m.exclusively(ctx, gateSteps, func(ids []uint64) (err error) {
				moved, err = m.log(ctx, ids)
				return err
			})
		}
		m.forget()
		if !errors.Is(err, match.ErrBudget) && !errors.Is(err, move.ErrStale) {
			break
		}
		err = errDeleteBusy
	}
	if err != nil && s.log.Err() == nil && !errors.Is(err, ErrNotLeader) && db.series.FirstClaim() != 0 { // else the entry may come back
		s.takeBack(db)
	}
	return moved, err
}

// pendingMove is a move on its way.
type pendingMove struct {
	*pendingDelete
	change   *model.Change
	prepared []*move.Request       // the steps
	targets  map[uint64]*tsi.Batch // by shard: the series that it gets
	charged  int64

	// What prepare has found, which must still be so.
	dropped uint64 // how often claims were dropped
	bounds  cardinality.Bounds
	steps   []move.Step
	folds   *move.Folds
}

// forget gives back what prepare has taken.
func (m *pendingMove) forget() {
	for _, r := range m.prepared {
		r.Release()
	}
	m.store.memory.reserved.Add(-m.charged)
	m.prepared, m.targets, m.charged = nil, nil, 0
}

// charge is called before memory is taken.
func (m *pendingMove) charge(bytes int64) error {
	if bytes <= 0 {
		m.store.memory.reserved.Add(bytes)
	} else if !m.store.admit(bytes) {
		wake(m.store.wakeFlush)
		return m.store.overloaded()
	}
	m.charged += bytes
	return nil
}

// claim gives ids to keys. Retire and takeBack, which forget claims, do not come between
// the look at the store's role and the claims.
func (m *pendingMove) claim(keys []string, ids []model.SeriesID) error {
	m.store.gate.RLock()
	defer m.store.gate.RUnlock()
	if err := m.store.writable(); err != nil {
		return err
	}
	return m.db.file().Claim(keys, ids)
}

// prepare works the move out in the shards of the database as they are now.
func (m *pendingMove) prepare(ctx context.Context, ids []uint64) error {
	s := m.store
	database := s.Catalog().Database(m.db.name)
	m.steps = move.Steps(m.change, database)
	s.gate.RLock()
	m.dropped, m.bounds = m.db.series.Dropped(), s.bounds
	s.gate.RUnlock()
	m.folds.Begin()
	for i := range m.steps {
		if err := m.make(ctx, i, &m.steps[i], ids, m.Set); err != nil {
			return err
		}
	}
	if !m.change.Fields() {
		if err := m.folds.Fold(ctx, m.prepared); err != nil {
			return err
		}
		if step, some := m.folds.Step(); some {
			if err := m.make(ctx, len(m.steps), &step, ids, m.folds.Staged); err != nil {
				return err
			}
		}
	}
	m.targets = map[uint64]*tsi.Batch{}
	return m.prepared[0].Each(func(id uint64, part *moves.Move) (err error) {
		if e := s.shard(id); e != nil {
			m.targets[e.ID()], err = e.PrepareMove([]*moves.Move{part}, nil)
		}
		return m.db.seriesError(err)
	})
}

// make works a step out.
func (m *pendingMove) make(ctx context.Context, i int, step *move.Step, ids []uint64, set func(shard uint64) *roaring.Bitmap) error {
	s := m.store
	r := &move.Request{
		Change: &step.Change, Series: m.db.file(), Database: m.db.name,
		PairBytes: s.opt.CacheBytes / 4, Charge: m.charge, Claim: m.claim,
	}
	if i == 0 { // the names of other steps follow from those of the first
		r.Bounds = m.bounds
	}
	for _, id := range ids {
		if e := s.shard(id); e != nil && step.Concerns(id) {
			r.Add(e.Shard, set(id))
		}
	}
	m.prepared = append(m.prepared, r)
	if err := r.Make(ctx); err != nil && (i == 0 || !errors.Is(err, move.ErrNotFound)) {
		return err
	}
	return nil
}

// log logs and applies what prepare has worked out, and what has come since, in some
// shards. The gate is held.
func (m *pendingMove) log(ctx context.Context, ids []uint64) (moved scan.Moved, err error) {
	s := m.store
	database := s.Catalog().Database(m.db.name)
	if m.db.series.Dropped() != m.dropped || s.bounds != m.bounds || !reflect.DeepEqual(move.Steps(m.change, database), m.steps) ||
		!m.change.Fields() && !m.folds.Valid() {
		return moved, move.ErrStale
	}
	e := &entry.Move{Database: m.db.id, Ready: m.targets}
	for i, r := range m.prepared {
		set := m.Set
		if i == len(m.steps) {
			set = m.folds.Staged
		}
		changes, err := r.Recheck(ctx, func(id uint64) (*shard.Shard, *roaring.Bitmap) {
			if e := s.shard(id); e != nil {
				return e.Shard, set(id)
			}
			return nil, nil
		})
		if err != nil && (i == 0 || !errors.Is(err, move.ErrNotFound)) {
			return moved, err
		}
		e.Changes = append(e.Changes, changes...)
	}
	if len(e.Changes) > 0 {
		if err := s.log.Append(&entry.Entry{Move: e}); err != nil {
			return moved, s.refusal(err)
		}
	}
	return move.Total(m.prepared[:len(m.steps)]), nil
}

// applyMove applies a logged move to its shards, while no View is taken: each has all of
// it or nothing. Everything that may fail comes before the first of them changes.
func (s *Store) applyMove(sequence uint64, e *entry.Move) error {
	parts, err := move.ByShard(sequence, e)
	if err != nil {
		return err
	}
	ready, _ := e.Ready.(map[uint64]*tsi.Batch)
	targets := map[*shardEntry]*tsi.Batch{}
	for id, part := range parts {
		sh := s.shard(id)
		if sh == nil {
			continue // dropped meanwhile
		}
		if targets[sh], err = sh.PrepareMove(part, ready[id]); err != nil {
			return sh.db.seriesError(err)
		}
	}
	s.viewing.Lock()
	defer s.viewing.Unlock()
	for sh, batch := range targets {
		part := parts[sh.ID()]
		for _, m := range part {
			s.touched.Shard(sequence, sh.ID(), m.Change.Measurement, m.Change.To)
		}
		sh.db.series.Confirm(move.Claimed(part, sh.db.series.FirstClaim()))
		sh.Move(part, batch)
		s.dirty(sh)
		s.count(sh, sh.Bytes())
		sh.merges.Changed()
		if sh.ManyMoves() {
			wake(s.wakeFlush)
		}
	}
	return nil
}

// restoreTargets gives the targets of a move their ids. Their keys follow from those of
// the sources. Shards that have the move in files have the targets too. Of those that were
// dropped since, the other nodes have given the ids.
func (f *follower) restoreTargets(e *entry.Entry) error {
	d := f.database(e.Move.Database, e.Sequence)
	if d == nil {
		return nil
	}
	wanted := func(id uint64) bool {
		sh := f.s.shard(id)
		return sh != nil && sh.Flushed() < e.Sequence || f.s.opt.Follower && f.dropped[id]
	}
	err := move.Targets(e, wanted, d.file(), d.series.RestoreAll)
	if err != nil {
		err = fmt.Errorf("database %s: %w", d.name, err)
	}
	return f.restored(d, err)
}

// RemoveStaged deletes what moves have staged that were not made, as of a node that led before.
func (s *Store) RemoveStaged(ctx context.Context) error { return move.RemoveStaged(ctx, s, s.folding) }
