package store

import (
	"context"
	"errors"
	"fmt"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/shard/moves"
	"tsdbd/store/move"
	"tsdbd/tsi/match"
	"tsdbd/wal/entry"
)

// Move gives series other names, with all rows that they have, or a field of them. It is
// durable and applied when it returns, in all shards at once. What is written under an old
// name after it stays there. Series are selected as those of a delete. Names, types and
// limits are checked under the gate: writers wait for a time that grows with the series.
func (s *Store) Move(ctx context.Context, req scan.MoveRequest) (moved scan.Moved, err error) {
	if err := move.Check(&req.Change); err != nil {
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
	d := s.newDelete(db, &scan.DeleteRequest{
		Database:    req.Database,
		Measurement: func(name string) bool { return name == req.Change.Measurement },
		Where:       req.Where,
		Range:       model.AllTime,
	})
	defer d.Release()
	for range deleteRounds {
		if _, err := d.resolve(ctx, match.NewWork(ctx)); err != nil {
			return moved, err
		}
		err := d.exclusively(ctx, gateSteps, func(ids []uint64) (err error) {
			moved, err = s.moveSelected(ctx, d, ids, &req.Change)
			return err
		})
		if !errors.Is(err, match.ErrBudget) {
			return moved, err
		}
	}
	return moved, errDeleteBusy
}

// moveSelected logs and applies the move of what d has selected in some shards. The gate
// is held, so that nothing is written between the move and those that follow from it.
func (s *Store) moveSelected(ctx context.Context, d *pendingDelete, ids []uint64, c *model.Change) (moved scan.Moved, err error) {
	taken := int64(0)
	defer func() { s.memory.reserved.Add(-taken) }()
	charge := func(bytes int64) error {
		if !s.admit(bytes) {
			wake(s.wakeFlush)
			return s.overloaded()
		}
		taken += bytes
		return nil
	}
	s.counters.Moves.Add(1)
	made := func(c *model.Change, concerns func(shard uint64) bool) (*move.Result, error) {
		r := move.Request{Database: d.db.id, Change: c, Series: d.db.file(), Bounds: s.bounds, PairBytes: s.opt.CacheBytes / 4, Charge: charge}
		defer r.Release()
		for _, id := range ids {
			if e := s.shard(id); e != nil && concerns(id) {
				r.Add(e.Shard, d.Set(id))
			}
		}
		return r.Make(ctx)
	}
	out, err := made(c, func(uint64) bool { return true })
	entries := []*move.Result{out}
	for _, a := range move.Aggregates(c, s.Catalog().Database(d.db.name)) {
		if err != nil {
			break
		}
		var also *move.Result
		if also, err = made(&a.Change, func(shard uint64) bool { return a.Shards[shard] }); errors.Is(err, move.ErrNotFound) {
			err = nil
		} else {
			entries = append(entries, also)
		}
	}
	for _, r := range entries {
		if err != nil || r.Entry == nil {
			break
		}
		if err = s.log.Append(&entry.Entry{Move: r.Entry}); err != nil {
			err = s.refusal(err)
		}
	}
	if err != nil {
		if s.log.Err() == nil && !errors.Is(err, ErrNotLeader) { // else the entry may come back
			d.db.dropClaims() // nobody writes
		}
		return moved, err
	}
	return out.Moved, nil
}

// applyMove applies a logged move to its shards, while no View is taken: each has all of
// it or nothing.
func (s *Store) applyMove(sequence uint64, e *entry.Move) {
	s.viewing.Lock()
	defer s.viewing.Unlock()
	err := move.Parts(sequence, e, func(shard uint64, m *moves.Move) error {
		sh := s.shard(shard)
		if sh == nil {
			return nil
		}
		s.touched.Shard(sequence, shard, m.Change.Measurement, m.Change.To)
		sh.db.series.Confirm(move.Claimed(m, sh.db.series.FirstClaim()))
		err := sh.Move(m)
		s.dirty(sh)
		s.count(sh, sh.Bytes())
		sh.idle.Store(false)
		if _, unflushed := sh.Moves(); unflushed >= move.FlushAt {
			wake(s.wakeFlush)
		}
		return err
	})
	if err != nil {
		s.logger.Error("move applied, but an index may list other series than its shard has", "err", err)
	}
}

// restoreTargets gives the targets of a move their ids. Their keys follow from those of
// the sources. Shards that have the move in files have the targets too.
func (f *follower) restoreTargets(e *entry.Entry) error {
	d := f.database(e.Move.Database, e.Sequence)
	if d == nil {
		return nil
	}
	wanted := func(id uint64) bool {
		sh := f.s.shard(id)
		return sh != nil && sh.Flushed() < e.Sequence
	}
	err := move.Targets(e, wanted, d.file(), d.series.RestoreAll)
	if err != nil {
		err = fmt.Errorf("database %s: %w", d.name, err)
	}
	return f.restored(d, err)
}
