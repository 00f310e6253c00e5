package move

import (
	"cmp"
	"context"
	"errors"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/shard"
	"tsdbd/shard/moves"
	"tsdbd/wal/entry"
)

// ErrStale says that too much has changed since a move was worked out: it must be worked
// out again.
var ErrStale = errors.New("shards have changed")

// Recheck makes what Make has found true again, while nothing is written, and returns it
// for the log. It looks only at shards whose index has changed since. open returns an open
// shard of the database by its id and what is selected in it now, nil if it is gone. Series
// that have come besides those that Make has moved get a change of their own, behind the
// first.
func (r *Request) Recheck(ctx context.Context, open func(id uint64) (*shard.Shard, *roaring.Bitmap)) (changes []entry.MoveChange, err error) {
	defer vfs.CatchFault(&err)()
	rest := &Request{Change: r.Change, Series: r.Series, Bounds: r.Bounds, Charge: r.Charge, PairBytes: r.PairBytes, Claim: r.Series.Claim, bytes: r.bytes}
	defer rest.Release()
	shrunk := false
	for i := range r.Shards {
		old := &r.Shards[i]
		sh, selected := open(old.View.ID())
		if sh == nil {
			old.moved, shrunk = nil, true
			continue
		}
		v := sh.View()
		if v == nil {
			return nil, ErrStale
		}
		waiting, _ := sh.Moves()
		old.waiting = waiting.Len()
		if v.SameIndex(old.View) && selected == old.selected {
			v.Release()
			continue
		}
		now := Shard{View: v, before: old.View, waiting: old.waiting}
		if selected != nil {
			now.Set = roaring.And(selected, v.AllSeries())
			if old.Set != nil {
				now.Set.AndNot(old.Set)
			}
		}
		rest.Shards = append(rest.Shards, now)
		if r.Change.Fields() {
			if hasField(v, r.Change) != (old.moved != nil) {
				return nil, ErrStale
			}
		} else if old.moved != nil {
			if left := roaring.And(old.moved, v.AllSeries()); left.GetCardinality() < old.moved.GetCardinality() {
				old.moved, shrunk = left, true
			}
		}
	}
	if err := cmp.Or(r.known.check(r.Change, rest.Shards), r.mayWait(), rest.mayWait()); err != nil {
		return nil, err
	}
	if !r.Change.Fields() {
		if err := r.recheckSeries(ctx, rest); err != nil {
			return nil, err
		}
	}
	if shrunk {
		if err := r.encode(); err != nil {
			return nil, err
		}
	}
	for _, c := range []entry.MoveChange{r.logged, rest.logged} {
		if len(c.Shards) > 0 {
			changes = append(changes, c)
		}
	}
	return changes, nil
}

// recheckSeries works out rest, the move of the series that have come since Make, and looks
// again at the limits.
func (r *Request) recheckSeries(ctx context.Context, rest *Request) error {
	rest.known = r.known
	if err := rest.pair(ctx); err != nil {
		return err
	}
	if err := r.recheckLimits(rest); err != nil {
		return err
	}
	moved := roaring.New()
	for _, sh := range r.Shards {
		if sh.moved != nil {
			moved.Or(sh.moved)
		}
	}
	r.Moved.Series = int(moved.GetCardinality())
	if rest.Moved.Series == 0 {
		return nil
	}
	targets := rest.pairs.Targets()
	targets.AndNot(rest.staying())
	targets.AndNot(r.pairs.Targets())
	r.Moved.Series += rest.Moved.Series
	r.Moved.Merged += rest.Moved.Series - int(targets.GetCardinality())
	return rest.encode()
}

// recheckLimits adds the values that tags have got since Make, by series of the target that
// were written and by those that are moved besides.
func (r *Request) recheckLimits(rest *Request) error {
	if r.values == nil {
		return nil
	}
	fresh := rest.pairs.Targets()
	for _, now := range rest.Shards {
		fresh.Or(now.View.SeriesSince(now.before))
	}
	var tags model.Tags
	grown := map[string]bool{}
	err := r.Series.Keys(idsOf(fresh), func(_ int, key string) error {
		var measurement string
		if measurement, tags = model.ParseSeriesKey(key, tags[:0]); measurement != r.Change.To {
			return nil
		}
		for _, t := range tags {
			values := r.values[t.Key]
			if values == nil && r.Change.To != r.Change.Measurement {
				return ErrStale // a tag that the measurement did not have
			}
			if values != nil && !values[t.Value] {
				values[t.Value], grown[t.Key] = true, true
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for key := range grown {
		if err := r.limit(key, r.values[key]); err != nil {
			return err
		}
	}
	return nil
}

// hasField reports whether a shard has the field that a change renames.
func hasField(v *shard.View, c *model.Change) bool {
	_, ok := column.FindField(v.Fields(c.Measurement), c.RenameField.From)
	return ok
}

// Each calls fn with what is moved in each shard.
func (r *Request) Each(fn func(shard uint64, m *moves.Move) error) error {
	for _, sh := range r.Shards {
		if sh.moved != nil {
			if err := fn(sh.View.ID(), &moves.Move{Change: *r.Change, Pairs: r.pairs.Only(sh.moved)}); err != nil {
				return err
			}
		}
	}
	return nil
}
