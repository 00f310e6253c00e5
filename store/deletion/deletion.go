// Package deletion selects the series of a delete in the shards that it concerns, and
// again only those that have come since. It hides nothing: the store logs the
// selection and has it applied.
package deletion

import (
	"context"
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

// KeySteps is what a series costs for its key.
const KeySteps = 256

// Selection is what a delete has selected so far. It is for one goroutine.
type Selection struct {
	req     *scan.DeleteRequest
	keys    func(ids []model.SeriesID, fn func(i int, key string) error) error
	shards  map[uint64]*found
	matcher *match.Matcher // of series that have come since their shard was looked at
}

// Shard is a shard that may have series to delete.
type Shard interface {
	ID() uint64
	View() *shard.View
}

// found is what a delete has found in a shard.
type found struct {
	view    *shard.View // up to which series were looked at
	set     *roaring.Bitmap
	encoded []byte                    // of set, nil if it is empty
	exprs   map[string]*model.TagExpr // predicates of the measurements that are deleted from
	others  map[string]bool           // measurements that are not
}

// New returns an empty selection. keys calls fn with the keys of series, in their
// order.
func New(req *scan.DeleteRequest, keys func(ids []model.SeriesID, fn func(i int, key string) error) error) *Selection {
	return &Selection{req: req, keys: keys, shards: map[uint64]*found{}, matcher: match.NewMatcher()}
}

// Release gives back what the selection holds of shards.
func (d *Selection) Release() {
	for _, sh := range d.shards {
		sh.view.Release()
	}
}

// Deletes returns the selection of some shards of a database, for the log.
func (d *Selection) Deletes(database uint32, shards []uint64) (out []entry.Delete) {
	for _, id := range shards {
		if sh := d.shards[id]; sh != nil && sh.encoded != nil {
			out = append(out, entry.Delete{Database: database, Shard: id, Series: sh.encoded, Range: d.req.Range})
		}
	}
	return out
}

// Resolve is Update of all shards that the request concerns. shard returns an open one
// by its id, else nil. It returns the ids of those it has updated.
func (d *Selection) Resolve(ctx context.Context, catalog *meta.Data, work *match.Work, shard func(id uint64) Shard) ([]uint64, error) {
	database := catalog.Database(d.req.Database)
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
				sh := shard(m.ID)
				if sh == nil {
					continue
				}
				if err := d.Update(ctx, sh, work); err != nil {
					return nil, err
				}
				ids = append(ids, m.ID)
			}
		}
	}
	return ids, nil
}

// Set returns what is selected in a shard, nil if nothing is. It must not be changed.
func (d *Selection) Set(shard uint64) *roaring.Bitmap {
	if sh := d.shards[shard]; sh != nil && !sh.set.IsEmpty() {
		return sh.set
	}
	return nil
}

// Update selects the series of a shard that have come since it was looked at.
func (d *Selection) Update(ctx context.Context, sh Shard, work *match.Work) (err error) {
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
	next := &found{view: v}
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
func (d *Selection) selectAll(ctx context.Context, sh *found) error {
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
func (d *Selection) predicate(sh *found, measurement string) (expr *model.TagExpr, ok bool, err error) {
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
func (d *Selection) selectNew(sh, known *found, work *match.Work) error {
	sh.set, sh.encoded, sh.exprs, sh.others = known.set, known.encoded, known.exprs, known.others
	fresh := sh.view.SeriesSince(known.view)
	if work.Done(KeySteps * int(fresh.GetCardinality())) {
		return work.Err()
	}
	ids := make([]model.SeriesID, 0, fresh.GetCardinality())
	for it := fresh.Iterator(); it.HasNext(); {
		ids = append(ids, model.SeriesID(it.Next()))
	}
	var tags model.Tags
	var matched []uint32
	err := d.keys(ids, func(i int, key string) error {
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
			matched = append(matched, uint32(ids[i]))
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(matched) > 0 {
		sh.set = sh.set.Clone()
		sh.set.AddMany(matched)
		sh.encoded = nil
	}
	return nil
}
