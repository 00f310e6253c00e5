package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/meta"
	"tsdbd/model/scan"
	"tsdbd/store/deletion"
	"tsdbd/store/exemplars"
	"tsdbd/tsi/match"
	"tsdbd/wal/entry"
)

// Bounds of a delete. Under the gate, which keeps all writes waiting, it may
// take gateSteps: some 20 ms.
const (
	gateSteps    = 1 << 22
	deleteRounds = 16
)

var errDeleteBusy = errors.New("new series come faster than they can be selected, try again")

// Delete removes rows. It is durable and applied when it returns, and covers
// every point that was acknowledged before it was logged. A point that is
// written after it lives (W5).
//
// The series are selected without the gate, so that a slow predicate keeps no
// writer waiting. Under the gate only series that have come since are looked
// at, in bounded steps; if these do not suffice, the delete leaves the gate,
// looks at those series, and tries again.
func (s *Store) Delete(ctx context.Context, req scan.DeleteRequest) error {
	db, err := s.acquire(req.Database)
	if err != nil {
		return err
	}
	defer func() { _ = db.release() }()
	d := s.newDelete(db, &req)
	defer d.Release()
	for range deleteRounds {
		if _, err := d.resolve(ctx, match.NewWork(ctx)); err != nil {
			return err
		}
		err := d.exclusively(ctx, gateSteps, func(ids []uint64) error { return s.deleteSelected(d, ids) })
		if !errors.Is(err, match.ErrBudget) {
			return err
		}
	}
	return errDeleteBusy
}

// deleteSelected logs and applies the delete of what d has selected in some shards. The
// gate is held.
func (s *Store) deleteSelected(d *pendingDelete, ids []uint64) error {
	e := entry.Entry{Deletes: d.Deletes(d.db.id, ids)}
	s.counters.Deletes.Add(1)
	if len(e.Deletes) == 0 {
		return nil
	}
	if err := s.log.Append(&e); err != nil {
		return s.refusal(err)
	}
	return nil
}

// pendingDelete is a delete or a move on its way.
type pendingDelete struct {
	*deletion.Selection
	store *Store
	db    *database
	req   *scan.DeleteRequest
}

func (s *Store) newDelete(db *database, req *scan.DeleteRequest) *pendingDelete {
	return &pendingDelete{deletion.New(req, db.file().Keys), s, db, req}
}

// exclusively calls do with the shards that are concerned, while nothing is written, once
// all of their series are selected that are to be.
func (d *pendingDelete) exclusively(ctx context.Context, steps int, do func(shards []uint64) error) error {
	s := d.store
	s.deleting.RLock()
	defer s.deleting.RUnlock()
	s.gate.Lock()
	defer s.gate.Unlock()
	defer s.forgetCardinality()
	if err := errors.Join(ctx.Err(), s.writable()); err != nil {
		return err
	}
	// It may have been dropped since, and made again.
	if db, err := s.database(d.req.Database); err != nil || db != d.db {
		return cmp.Or(err, fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, d.req.Database))
	}
	ids, err := d.resolve(ctx, match.NewLimitedWork(ctx, steps))
	if err != nil {
		return err
	}
	return do(ids)
}

// resolve selects the series of the shards that the delete concerns, as they
// are now, and returns these shards' ids.
func (d *pendingDelete) resolve(ctx context.Context, work *match.Work) ([]uint64, error) {
	return d.Resolve(ctx, d.store.catalog.Data(), work, func(id uint64) deletion.Shard {
		if sh := d.store.shard(id); sh != nil {
			return sh
		}
		return nil
	})
}

// applyDeletes applies the deletes of an entry.
func (s *Store) applyDeletes(e *entry.Entry) {
	var gone []exemplars.Deleted
	for i := range e.Deletes {
		d := &e.Deletes[i]
		if set := s.applyDelete(e.Sequence, d); set != nil {
			gone = append(gone, exemplars.Deleted{Database: d.Database, Range: d.Range, Series: set})
		}
	}
	s.exemplars.Delete(gone)
}

// applyDelete applies one logged delete. It returns the series of it.
func (s *Store) applyDelete(sequence uint64, d *entry.Delete) *roaring.Bitmap {
	sh := s.shard(d.Shard)
	if sh == nil {
		return nil
	}
	set := roaring.New()
	if err := set.UnmarshalBinary(d.Series); err != nil {
		// The log's checksum held, so this was written so: a bug of ours.
		s.logger.Error("delete in log unreadable", "shard", d.Shard, "err", err)
		return nil
	}
	s.touched.Delete(sequence, d.Shard, set, d.Range, sh.db.series.Key)
	sh.deletes.note(sequence, set, d.Range)
	err := sh.Delete(sequence, set, d.Range)
	s.dirty(sh)
	s.count(sh, sh.Bytes())
	sh.merges.Changed()
	if err != nil {
		s.logger.Error("delete applied, but the index may still list series without rows", "shard", d.Shard, "err", err)
	}
	return set
}
