package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/shard"
	"tsdbd/tsi/match"
	"tsdbd/wal/entry"
)

// Bounds of a delete. Under the gate, which keeps all writes waiting, it may
// take gateSteps: some 20 ms. A series costs keySteps for its key.
const (
	gateSteps    = 1 << 22
	keySteps     = 256
	deleteRounds = 16
)

var errDeleteBusy = errors.New("new series come faster than the delete can select them, try again")

// Delete removes rows. It is durable and applied when it returns, and covers
// every point that was acknowledged before it was logged. A point that is
// written after it lives (W5).
//
// The series are selected without the gate, so that a slow predicate keeps no
// writer waiting. Under the gate only series that have come since are looked
// at, in bounded steps; if these do not suffice, the delete leaves the gate,
// looks at those series, and tries again.
func (s *Store) Delete(ctx context.Context, req scan.DeleteRequest) error {
	db, err := s.database(req.Database)
	if err != nil {
		return err
	}
	if !db.acquire() {
		return fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, req.Database)
	}
	defer func() { _ = db.release() }()
	d := &deletion{store: s, db: db, req: &req, shards: map[uint64]*deletionShard{}, matcher: match.NewMatcher()}
	defer d.release()
	for range deleteRounds {
		if _, err := d.resolve(ctx, match.NewWork(ctx)); err != nil {
			return err
		}
		if err := d.commit(ctx, gateSteps); !errors.Is(err, match.ErrBudget) {
			return err
		}
	}
	return errDeleteBusy
}

// deletion is a delete on its way.
type deletion struct {
	store   *Store
	db      *database
	req     *scan.DeleteRequest
	shards  map[uint64]*deletionShard
	matcher *match.Matcher // of series that have come since their shard was looked at
}

// deletionShard is what a delete has found in a shard.
type deletionShard struct {
	view    *shard.View // up to which series were looked at
	set     *roaring.Bitmap
	encoded []byte                    // of set, nil if it is empty
	exprs   map[string]*model.TagExpr // predicates of the measurements that are deleted from
	others  map[string]bool           // measurements that are not
}

func (d *deletion) release() {
	for _, sh := range d.shards {
		sh.view.Release()
	}
}

// commit logs and applies the delete.
func (d *deletion) commit(ctx context.Context, steps int) error {
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
	var e entry.Entry
	for _, id := range ids {
		if b := d.shards[id].encoded; b != nil {
			e.Deletes = append(e.Deletes, entry.Delete{Database: d.db.id, Shard: id, Series: b, Range: d.req.Range})
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

// resolve selects the series of the shards that the delete concerns, as they
// are now, and returns these shards' ids.
func (d *deletion) resolve(ctx context.Context, work *match.Work) ([]uint64, error) {
	database := d.store.catalog.Data().Database(d.req.Database)
	if database == nil {
		return nil, fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, d.req.Database)
	}
	if rp := d.req.RetentionPolicy; rp != "" && database.RetentionPolicy(rp) == nil {
		return nil, fmt.Errorf("%w: %s", meta.ErrRetentionPolicyNotFound, rp)
	}
	var ids []uint64
	for _, rp := range database.RetentionPolicies {
		if d.req.RetentionPolicy != "" && rp.Name != d.req.RetentionPolicy {
			continue
		}
		for _, g := range rp.ShardGroupsIn(d.req.Range) {
			for _, m := range g.Shards {
				sh := d.store.shard(m.ID)
				if sh == nil {
					continue
				}
				if err := d.update(ctx, sh, work); err != nil {
					return nil, err
				}
				if d.shards[m.ID] != nil {
					ids = append(ids, m.ID)
				}
			}
		}
	}
	return ids, nil
}

// update selects the series of a shard that have come since it was looked at.
func (d *deletion) update(ctx context.Context, sh *shardEntry, work *match.Work) (err error) {
	defer vfs.CatchFault(&err)()
	v := sh.View()
	if v == nil {
		return nil
	}
	known := d.shards[sh.ID()]
	if known != nil && v.SameIndex(known.view) {
		v.Release()
		return nil
	}
	next := &deletionShard{view: v}
	defer func() {
		if err == nil && !next.set.IsEmpty() && next.encoded == nil {
			next.set.RunOptimize()
			next.encoded, err = next.set.ToBytes()
		}
		if err != nil {
			v.Release()
			return
		}
		if known != nil {
			known.view.Release()
		}
		d.shards[sh.ID()] = next
	}()
	switch {
	case known != nil:
		return d.selectNew(next, known, work)
	case work.Limited():
		return match.ErrBudget // a shard made since: it may have any number of series
	}
	return d.selectAll(ctx, next)
}

// selectAll evaluates the delete's measurements and predicate in a shard.
func (d *deletion) selectAll(ctx context.Context, sh *deletionShard) error {
	sh.set = roaring.New()
	sh.exprs, sh.others = map[string]*model.TagExpr{}, map[string]bool{}
	for _, m := range sh.view.Measurements() {
		expr, ok, err := d.predicate(sh, m)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		part, err := sh.view.Select(ctx, m, expr)
		if err != nil {
			return err
		}
		sh.set.Or(part)
	}
	return nil
}

// predicate returns the predicate over the series of a measurement, and false
// if the delete does not concern it.
func (d *deletion) predicate(sh *deletionShard, measurement string) (expr *model.TagExpr, ok bool, err error) {
	if d.req.Measurement != nil && !d.req.Measurement(measurement) {
		sh.others[measurement] = true
		return nil, false, nil
	}
	if d.req.Where != nil {
		if expr, err = d.req.Where(measurement, sh.view.Fields(measurement)); err != nil {
			return nil, false, fmt.Errorf("shard %d: %w", sh.view.ID(), err)
		}
	}
	sh.exprs[measurement] = expr
	return expr, true, nil
}

// selectNew adds to what is known of a shard the series that have come since,
// going by their keys. With limited work it calls nothing of the request.
func (d *deletion) selectNew(sh, known *deletionShard, work *match.Work) error {
	sh.set, sh.encoded, sh.exprs, sh.others = known.set, known.encoded, known.exprs, known.others
	fresh := sh.view.SeriesSince(known.view)
	if work.Done(keySteps * int(fresh.GetCardinality())) {
		return work.Err()
	}
	ids := make([]model.SeriesID, 0, fresh.GetCardinality())
	for it := fresh.Iterator(); it.HasNext(); {
		ids = append(ids, model.SeriesID(it.Next()))
	}
	var tags model.Tags
	var found []uint32
	err := d.db.series.Keys(ids, func(i int, key string) error {
		var measurement string
		measurement, tags = model.ParseSeriesKey(key, tags[:0])
		if sh.others[measurement] {
			return nil
		}
		expr, ok := sh.exprs[measurement]
		if !ok {
			if work.Limited() {
				return match.ErrBudget
			}
			var err error
			if expr, ok, err = d.predicate(sh, measurement); err != nil || !ok {
				return err
			}
		}
		ok, err := d.matcher.Match(expr, tags, work)
		if ok {
			found = append(found, uint32(ids[i]))
		}
		return err
	})
	if err != nil {
		return d.db.seriesError(err)
	}
	if len(found) > 0 {
		sh.set = sh.set.Clone()
		sh.set.AddMany(found)
		sh.encoded = nil
	}
	return nil
}
