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

// Recheck makes a result true again that Make has returned, while nothing is written. It
// looks only at shards whose index has changed since. open returns an open shard of the
// database by its id and what is selected in it now, nil if it is gone. Series that come
// besides those of the result are moved by a change of their own, behind the result's.
func (r *Request) Recheck(ctx context.Context, out *Result, open func(id uint64) (*shard.Shard, *roaring.Bitmap)) (changes []entry.MoveChange, err error) {
	defer vfs.CatchFault(&err)()
	rest := Request{Change: r.Change, Series: r.Series, Bounds: r.Bounds, Charge: r.Charge, PairBytes: r.PairBytes, Claim: r.Series.Claim}
	defer rest.Release()
	shrunk := false
	for i := range r.Shards {
		sh, selected := open(r.Shards[i].View.ID())
		if sh == nil {
			out.sets[i], shrunk = nil, true
			continue
		}
		v := sh.View()
		if v == nil {
			return nil, ErrStale
		}
		waiting, _ := sh.Moves()
		r.Shards[i].waiting = waiting.Len()
		if v.SameIndex(r.Shards[i].View) && selected == r.Shards[i].selected {
			v.Release()
			continue
		}
		now := Shard{View: v, before: r.Shards[i].View, waiting: waiting.Len()}
		rest.Shards = append(rest.Shards, now)
		if r.OnlyCopies[v.ID()] != "" {
			return nil, ErrStale // whether series become one there is not looked at again
		}
		if set := out.sets[i]; set != nil && !r.Change.Fields() {
			if left := roaring.And(set, v.AllSeries()); left.GetCardinality() < set.GetCardinality() {
				out.sets[i], shrunk = left, true
			}
		}
		if selected != nil {
			fresh := roaring.And(selected, v.AllSeries())
			if r.Shards[i].Set != nil {
				fresh.AndNot(r.Shards[i].Set)
			}
			rest.Shards[len(rest.Shards)-1].Set = fresh
		}
		if r.Change.Fields() && hasField(v, r.Change) != (out.sets[i] != nil) {
			return nil, ErrStale
		}
	}
	if err := cmp.Or(out.known.check(r.Change, rest.Shards), r.mayWait(), rest.mayWait()); err != nil {
		return nil, err
	}
	if !r.Change.Fields() {
		if err := r.recheckSeries(ctx, out, &rest, &changes); err != nil {
			return nil, err
		}
	}
	if shrunk {
		if err := r.encode(out); err != nil {
			return nil, err
		}
	}
	if len(out.Change.Shards) > 0 {
		changes = append([]entry.MoveChange{out.Change}, changes...)
	}
	return changes, nil
}

// recheckSeries appends the change of the series that have come to rest since Make, and
// looks again at the limits.
func (r *Request) recheckSeries(ctx context.Context, out *Result, rest *Request, changes *[]entry.MoveChange) error {
	more := &Result{sets: make([]*roaring.Bitmap, len(rest.Shards)), known: out.known, bytes: out.bytes}
	if err := rest.pair(ctx, more); err != nil {
		return err
	}
	if err := r.recheckLimits(out, rest, more); err != nil {
		return err
	}
	moved := roaring.New()
	for _, set := range out.sets {
		if set != nil {
			moved.Or(set)
		}
	}
	out.Series = int(moved.GetCardinality())
	if more.Series == 0 {
		return nil
	}
	targets := more.Pairs.Targets()
	targets.AndNot(rest.staying(more))
	targets.AndNot(out.Pairs.Targets())
	out.Series += more.Series
	out.Merged += more.Series - int(targets.GetCardinality())
	if err := rest.encode(more); err != nil {
		return err
	}
	*changes = append(*changes, more.Change)
	return nil
}

// recheckLimits adds the values that tags have got since Make, by series of the target that
// were written and by those that are moved besides.
func (r *Request) recheckLimits(out *Result, rest *Request, more *Result) error {
	if out.values == nil {
		return nil
	}
	fresh := more.Pairs.Targets()
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
			values := out.values[t.Key]
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
		if err := r.limit(key, out.values[key]); err != nil {
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

// Moves returns what the result moves in each of the request's shards.
func (r *Request) Moves(out *Result, fn func(sh Shard, m *moves.Move) error) error {
	for i, sh := range r.Shards {
		if set := out.sets[i]; set != nil {
			if err := fn(sh, &moves.Move{Change: *r.Change, Pairs: out.Pairs.Only(set)}); err != nil {
				return err
			}
		}
	}
	return nil
}
