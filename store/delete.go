package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/scan"
	"tsdbd/wal"
)

// Delete removes rows. It is durable and applied when it returns; a point
// written after it lives (W5). Writers wait for the moment it takes.
func (s *Store) Delete(ctx context.Context, req scan.DeleteRequest) error {
	s.deleting.RLock()
	defer s.deleting.RUnlock()
	s.gate.Lock()
	defer s.gate.Unlock()
	defer s.forgetCardinality()
	if err := errors.Join(ctx.Err(), s.writable()); err != nil {
		return err
	}
	db, err := s.database(req.Database)
	if err != nil {
		return err
	}
	var e wal.Entry
	d := s.catalog.Data().Database(req.Database)
	if rp := req.RetentionPolicy; rp != "" && d.RetentionPolicy(rp) == nil {
		return fmt.Errorf("%w: %s", meta.ErrRetentionPolicyNotFound, rp)
	}
	for _, rp := range d.RetentionPolicies {
		if req.RetentionPolicy != "" && rp.Name != req.RetentionPolicy {
			continue
		}
		for _, g := range rp.ShardGroupsIn(req.Range) {
			for _, m := range g.Shards {
				sh := s.shard(m.ID)
				if sh == nil {
					continue
				}
				set, err := selectSeries(sh, &req)
				if err != nil {
					return err
				}
				if set.IsEmpty() {
					continue
				}
				set.RunOptimize()
				b, err := set.ToBytes()
				if err != nil {
					return fmt.Errorf("encode series set: %w", err)
				}
				e.Deletes = append(e.Deletes, wal.Delete{Database: db.id, Shard: m.ID, Series: b, Range: req.Range})
			}
		}
	}
	s.counters.deletes.Add(1)
	if len(e.Deletes) == 0 {
		return nil
	}
	if err := s.log.Append(&e); err != nil {
		return s.refusal(err)
	}
	return nil
}

// selectSeries evaluates a delete's measurements and predicate in a shard.
func selectSeries(sh *shardEntry, req *scan.DeleteRequest) (_ *roaring.Bitmap, err error) {
	defer vfs.CatchFault(&err)()
	set := roaring.New()
	v := sh.View()
	if v == nil {
		return set, nil
	}
	defer v.Release()
	for _, m := range v.Measurements() {
		if req.Measurement != nil && !req.Measurement(m) {
			continue
		}
		var expr *model.TagExpr
		if req.Where != nil {
			var err error
			if expr, err = req.Where(m, v.Fields(m)); err != nil {
				return nil, fmt.Errorf("shard %d: %w", sh.ID(), err)
			}
		}
		part, err := v.Select(m, expr)
		if err != nil {
			return nil, err
		}
		set.Or(part)
	}
	return set, nil
}

// applyDelete applies one logged delete.
func (s *Store) applyDelete(sequence uint64, d *wal.Delete) {
	sh := s.shard(d.Shard)
	if sh == nil {
		return
	}
	set := roaring.New()
	if err := set.UnmarshalBinary(d.Series); err != nil {
		// The log's checksum held, so this was written so: a bug of ours.
		s.logger.Error("delete in log unreadable", "shard", d.Shard, "err", err)
		return
	}
	err := sh.Delete(sequence, set, d.Range)
	s.dirty(sh)
	s.count(sh, sh.Bytes())
	sh.compactIdle.Store(false)
	if err != nil {
		s.logger.Error("delete applied, but the index may still list series without rows", "shard", d.Shard, "err", err)
	}
}

// expireShards drops shards that retention has taken out of the catalog.
// Writes that found them in the catalog before are waited for, so that none
// opens one again.
func (s *Store) expireShards(ids []uint64) error {
	s.gate.Lock()
	s.forgetShards(ids)
	s.gate.Unlock()
	return s.removeDropped()
}

// forgetShards takes shards that the catalog no longer has out of service. The
// gate is held.
func (s *Store) forgetShards(ids []uint64) {
	s.mu.Lock()
	for _, id := range ids {
		if e := s.mu.shards[id]; e != nil {
			delete(s.mu.shards, id)
			s.displaceLocked(e)
			s.mu.dropped[id] = e
		}
	}
	s.mu.Unlock()
	s.forgetCardinality()
}

// removeDropped closes the shards that are out of service and removes their
// directories. What it cannot remove the next call tries again, and what a
// crash leaves of them the next Open removes.
func (s *Store) removeDropped() error {
	s.removing.Lock()
	defer s.removing.Unlock()
	s.mu.RLock()
	dropped := maps.Clone(s.mu.dropped)
	s.mu.RUnlock()
	var errs []error
	for id, e := range dropped {
		if err := e.Close(); err != nil {
			s.logger.Warn("dropped shard not closed", "shard", id, "err", err)
		}
		if err := s.fs.RemoveAll(path.Join(s.dir, ShardDir(e.db.id, id))); err != nil {
			errs = append(errs, fmt.Errorf("remove shard %d: %w", id, err))
			continue
		}
		s.applying.Lock()
		s.count(e, 0)
		s.applying.Unlock()
		s.mu.Lock()
		delete(s.mu.dropped, id)
		s.mu.Unlock()
	}
	s.trim()
	return errors.Join(errs...)
}
