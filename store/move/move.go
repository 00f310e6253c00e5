// Package move works a move out before it is logged: which target each of the selected
// series gets, and whether names, types and limits allow it. It changes nothing:
// the store logs and applies the result.
package move

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/shard"
	"tsdbd/shard/moves"
	"tsdbd/store/cardinality"
	"tsdbd/wal/entry"
)

// MaxBytes is the largest change that an entry of the log may have. A million series
// take from some bytes to 6 MB, by how their ids lie.
const MaxBytes = 8 << 20

// seriesBytes is about what the index of a shard takes for a series that is in no file
// yet, besides its key.
const seriesBytes = 96

// Each read of a moved series looks at all moves that wait for a merge of its shard.
const (
	// FlushAt is how many may wait for the flush that comes before the merge. From as many
	// on the merge is due (plan.MovesDue).
	FlushAt = 17
	// maxWaiting is how many may wait in all.
	maxWaiting = 1024
)

// Shard is a shard of the database, with the series that are to be moved in it, if any.
type Shard struct {
	View     *shard.View
	Set      *roaring.Bitmap
	selected *roaring.Bitmap // by the condition; Set are those of them that the shard has
	moved    *roaring.Bitmap // of Set, what Make moves; nil: the shard is not concerned
	before   *shard.View     // of Recheck: as Make has seen the shard
	waiting  int             // moves that wait for its merges
}

// Add adds a shard of the database. Of the series that were selected in it, if any, it
// takes those that the shard still has: others were deleted or moved since, and a target
// of theirs would be a series without rows.
func (r *Request) Add(s *shard.Shard, selected *roaring.Bitmap) {
	if v := s.View(); v != nil {
		waiting, _ := s.Moves()
		r.PairBytes -= waiting.Bytes()
		sh := Shard{View: v, selected: selected, waiting: waiting.Len()}
		if selected != nil {
			sh.Set = v.AllSeries()
			sh.Set.And(selected)
		}
		r.Shards = append(r.Shards, sh)
	}
}

// Release gives back what the request holds of shards.
func (r *Request) Release() {
	for _, sh := range r.Shards {
		sh.View.Release()
	}
}

// Request is what is to be moved, and what Make finds of it.
type Request struct {
	Change *model.Change
	Shards []Shard // all of the database
	Series Series
	Bounds cardinality.Bounds
	// Database is its name.
	Database string
	// Charge is called before memory is taken, with its bytes, and with a negative number of
	// what is given back before the end. Its error ends the work.
	Charge func(bytes int64) error
	// PairBytes is how much memory the pairs may take in all shards together.
	PairBytes int64
	// Claim gives ids to the keys of targets.
	Claim func(keys []string, ids []model.SeriesID) error

	// What Make finds.
	Moved  scan.Moved
	pairs  *moves.Pairs
	logged entry.MoveChange // no shards: nothing is moved
	known  known
	values map[string]map[string]bool // of tags of the target with a limit, behind the move
	bytes  int64                      // of the pairs in all shards
}

// Make works the move out. New targets are claimed in the series file, also if it fails.
// After an ErrNotFound nothing is moved, and Recheck may find more.
func (r *Request) Make(ctx context.Context) (err error) {
	defer vfs.CatchFault(&err)()
	if err := cmp.Or(r.known.check(r.Change, r.Shards), r.mayWait()); err != nil {
		return err
	}
	if r.Change.Fields() {
		if err := r.field(ctx); err != nil {
			return err
		}
		return r.encode()
	}
	if err := r.pair(ctx); err != nil {
		return err
	}
	r.Moved.Merged = r.merged()
	return cmp.Or(r.limits(), r.encode())
}

// mayWait returns an error if too many moves wait for merges of a shard.
func (r *Request) mayWait() error {
	for _, sh := range r.Shards {
		if sh.waiting >= maxWaiting && sh.Set != nil && !sh.Set.IsEmpty() {
			return fmt.Errorf("%d moves wait for merges of shard %d, and at most %d may: repeat the statement later", sh.waiting, sh.View.ID(), maxWaiting)
		}
	}
	return nil
}

// pair gives targets to the selected series.
func (r *Request) pair(ctx context.Context) error {
	pairs, err := r.targets(ctx)
	if err != nil {
		return err
	}
	if r.pairs, err = r.ordered(pairs); err != nil {
		return err
	}
	moved := r.pairs.Sources()
	for i := range r.Shards {
		sh := &r.Shards[i]
		if sh.Set == nil || !sh.Set.Intersects(moved) {
			continue
		}
		sh.moved = roaring.And(sh.Set, moved)
		if r.bytes += r.pairs.Only(sh.moved).Bytes(); r.bytes > r.PairBytes {
			return fmt.Errorf("so many series cannot be moved at once: move fewer of them with WHERE, at least %d MiB of memory are needed and %d allowed", r.bytes>>20, r.PairBytes>>20)
		}
		if err := r.Charge(int64(sh.moved.GetCardinality()) * seriesBytes); err != nil {
			return err
		}
	}
	r.Moved.Series = r.pairs.Len()
	return nil
}

// field finds the series whose field is renamed.
func (r *Request) field(ctx context.Context) (err error) {
	if r.pairs, err = new(moves.Builder).Pairs(); err != nil {
		return err
	}
	all := roaring.New()
	for i := range r.Shards {
		if sh := &r.Shards[i]; hasField(sh.View, r.Change) {
			set, err := sh.View.Select(ctx, r.Change.Measurement, nil)
			if err != nil {
				return err
			}
			all.Or(set)
			sh.moved = roaring.New()
		}
	}
	r.Moved.Series = int(all.GetCardinality())
	return nil
}

// pair is a series and its target.
type pair struct{ to, from model.SeriesID }

// chunk is how many series are looked up and claimed at once.
const chunk = 4096

// targets returns the selected series that the change changes, ascending. Targets get ids
// in the order of the ids of their sources: they lie side by side as these do.
func (r *Request) targets(ctx context.Context) ([]pair, error) {
	all := roaring.New()
	for _, sh := range r.Shards {
		if sh.Set != nil {
			all.Or(sh.Set)
		}
	}
	if err := r.Charge(16 * int64(all.GetCardinality())); err != nil {
		return nil, err
	}
	out := make([]pair, 0, all.GetCardinality())
	m := mapper{Request: r}
	ids := make([]model.SeriesID, 0, chunk)
	it := all.Iterator()
	for it.HasNext() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ids = ids[:0]
		for it.HasNext() && len(ids) < chunk {
			ids = append(ids, model.SeriesID(it.Next()))
		}
		var err error
		if out, err = m.chunk(out, ids); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// mapper finds the targets of series.
type mapper struct {
	*Request
	tags model.Tags
	key  []byte
	from []model.SeriesID
	keys []string
	to   []model.SeriesID
}

// chunk appends the pairs of some series to dst.
func (m *mapper) chunk(dst []pair, ids []model.SeriesID) ([]pair, error) {
	m.from, m.keys = m.from[:0], m.keys[:0]
	bytes := int64(0)
	err := m.Series.Keys(ids, func(i int, key string) error {
		if x := m.Change.RenameTag; x.From != "" {
			_, m.tags = model.ParseSeriesKey(key, m.tags[:0])
			if m.tags.Get(x.From) != "" && m.tags.Get(x.To) != "" {
				return fmt.Errorf("series %s has a tag %q already", key, x.To)
			}
		}
		m.key, m.tags = m.Change.AppendKey(m.key[:0], key, m.tags)
		if string(m.key) == key {
			return nil
		}
		if n := len(m.key) + model.FieldSeparatorLength + m.known.from.longest; n > model.MaxKeyLength {
			return fmt.Errorf("series %.100s... would have a key of %d bytes, at most %d are allowed", m.key, n, model.MaxKeyLength)
		}
		m.from, m.keys = append(m.from, ids[i]), append(m.keys, string(m.key))
		bytes += int64(len(m.key)) + seriesBytes
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := m.Charge(bytes); err != nil {
		return nil, err
	}
	m.to = slices.Grow(m.to[:0], len(m.keys))[:len(m.keys)]
	if err := m.Claim(m.keys, m.to); err != nil {
		return nil, err
	}
	for i, from := range m.from {
		dst = append(dst, pair{m.to[i], from})
	}
	return dst, nil
}

// ordered brings pairs in the order of their targets, and those of one target in the
// order of the keys of their sources: the last of them wins.
func (r *Request) ordered(pairs []pair) (*moves.Pairs, error) {
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.from, b.from)) })
	var b moves.Builder
	for lo := 0; lo < len(pairs); {
		hi := lo + 1
		for hi < len(pairs) && pairs[hi].to == pairs[lo].to {
			hi++
		}
		if hi-lo > 1 {
			if err := r.byKey(pairs[lo:hi]); err != nil {
				return nil, err
			}
		}
		for _, p := range pairs[lo:hi] {
			b.Add(p.from, p.to)
		}
		lo = hi
	}
	return b.Pairs()
}

// byKey sorts the pairs of one target by the keys of their sources.
func (r *Request) byKey(pairs []pair) error {
	type keyed struct {
		pair
		key string
	}
	list := make([]keyed, len(pairs))
	for i, p := range pairs {
		key, err := r.Series.Key(p.from)
		if err != nil {
			return err
		}
		list[i] = keyed{p, key}
	}
	slices.SortFunc(list, func(a, b keyed) int { return cmp.Compare(a.key, b.key) })
	for i := range list {
		pairs[i] = list[i].pair
	}
	return nil
}

// staying returns the series of the database that are not moved away.
func (r *Request) staying() *roaring.Bitmap {
	set := roaring.New()
	for _, sh := range r.Shards {
		here := sh.View.AllSeries()
		if sh.moved != nil {
			here.AndNot(sh.moved)
		}
		set.Or(here)
	}
	return set
}

// merged returns how many moved series end in a series that another one moves to or that
// already has rows.
func (r *Request) merged() int {
	fresh := roaring.AndNot(r.pairs.Targets(), r.staying())
	return r.pairs.Len() - int(fresh.GetCardinality())
}

// encode sets the change for the log.
func (r *Request) encode() error {
	m := moves.Move{Change: *r.Change, Pairs: r.pairs}
	if r.logged.Change == nil { // else only the shards are others
		r.logged.Change = m.Append(nil)
	}
	r.logged.Shards = nil
	bytes := len(r.logged.Change)
	for _, sh := range r.Shards {
		if sh.moved == nil || sh.moved.IsEmpty() && !r.Change.Fields() {
			continue
		}
		sh.moved.RunOptimize()
		set, err := sh.moved.ToBytes()
		if err != nil {
			return fmt.Errorf("encode series set: %w", err)
		}
		r.logged.Shards = append(r.logged.Shards, entry.MovedShard{Shard: sh.View.ID(), Series: set})
		bytes += len(set)
	}
	if bytes > MaxBytes {
		return fmt.Errorf("so many series cannot be moved at once: move fewer of them with WHERE, their list takes %d bytes and at most %d are allowed", bytes, MaxBytes)
	}
	return nil
}
