// Package move works out what a move makes of the series that it selects: which target
// each of them gets, and whether names, types and limits allow it. It changes nothing:
// the store logs the result and has it applied.
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
	selected *roaring.Bitmap // what Set was made of
	before   *shard.View     // of Recheck: as Make has seen the shard
	waiting  int             // moves that it has not made yet
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

// Request is what is to be moved.
type Request struct {
	Change *model.Change
	Shards []Shard // all of the database
	Series Series
	Bounds cardinality.Bounds
	// OnlyCopies are the shards in which no series may become one, with their policies.
	OnlyCopies map[uint64]string
	// Charge is called before memory is taken, with its bytes. Its error ends the work.
	Charge func(bytes int64) error
	// PairBytes is how much memory the pairs may take in all shards together.
	PairBytes int64
	// Claim gives ids to the keys of targets.
	Claim func(keys []string, ids []model.SeriesID) error
}

// Result is a move that is allowed.
type Result struct {
	scan.Moved
	Pairs  *moves.Pairs
	Change entry.MoveChange  // for the log; no shards: nothing is moved
	sets   []*roaring.Bitmap // by shard: what is moved there; nil: the shard is not concerned
	known  known
	values map[string]map[string]bool // of tags of the target with a limit, behind the move
	bytes  int64                      // of the pairs in all shards
}

// Make works the move out. New targets are claimed in the series file, also if it fails.
// With an ErrNotFound it returns a result for Recheck that moves nothing.
func (r *Request) Make(ctx context.Context) (out *Result, err error) {
	defer vfs.CatchFault(&err)()
	out = &Result{sets: make([]*roaring.Bitmap, len(r.Shards))}
	if err := out.known.check(r.Change, r.Shards); err != nil {
		return out, err
	}
	if err := r.mayWait(); err != nil {
		return nil, err
	}
	if r.Change.Fields() {
		if err := r.field(ctx, out); err != nil {
			return nil, err
		}
		return out, r.encode(out)
	}
	if err := r.pair(ctx, out); err != nil {
		return nil, err
	}
	if err := r.keepsAggregates(out); err != nil {
		return nil, err
	}
	out.Merged = r.merged(out)
	if err := r.limits(out); err != nil {
		return nil, err
	}
	return out, r.encode(out)
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

// pair gives targets to the selected series, and fills the result with them.
func (r *Request) pair(ctx context.Context, out *Result) error {
	pairs, err := r.pairs(ctx, out.known.from.longest)
	if err != nil {
		return err
	}
	if out.Pairs, err = r.ordered(pairs); err != nil {
		return err
	}
	moved := out.Pairs.Sources()
	for i, sh := range r.Shards {
		if sh.Set == nil || !sh.Set.Intersects(moved) {
			continue
		}
		set := roaring.And(sh.Set, moved)
		out.sets[i] = set
		if out.bytes += out.Pairs.Only(set).Bytes(); out.bytes > r.PairBytes {
			return fmt.Errorf("so many series cannot be moved at once: move fewer of them with WHERE, at least %d MiB of memory are needed and %d allowed", out.bytes>>20, r.PairBytes>>20)
		}
		if err := r.Charge(int64(set.GetCardinality()) * seriesBytes); err != nil {
			return err
		}
	}
	out.Series = out.Pairs.Len()
	return nil
}

// field fills the result of a rename of a field.
func (r *Request) field(ctx context.Context, out *Result) (err error) {
	if out.Pairs, err = new(moves.Builder).Pairs(); err != nil {
		return err
	}
	all := roaring.New()
	for i, sh := range r.Shards {
		if hasField(sh.View, r.Change) {
			set, err := sh.View.Select(ctx, r.Change.Measurement, nil)
			if err != nil {
				return err
			}
			all.Or(set)
			out.sets[i] = roaring.New()
		}
	}
	out.Series = int(all.GetCardinality())
	return nil
}

// pair is a series and its target.
type pair struct{ to, from model.SeriesID }

// chunk is how many series are looked up and claimed at once.
const chunk = 4096

// pairs returns the selected series that the change changes, ascending. Targets get ids
// in the order of the ids of their sources: they lie side by side as these do.
func (r *Request) pairs(ctx context.Context, longest int) ([]pair, error) {
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
	m := mapper{Request: r, longest: longest}
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
	longest int // field key of the measurement
	tags    model.Tags
	key     []byte
	from    []model.SeriesID
	keys    []string
	to      []model.SeriesID
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
		if n := len(m.key) + model.FieldSeparatorLength + m.longest; n > model.MaxKeyLength {
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
func (r *Request) staying(out *Result) *roaring.Bitmap {
	set := roaring.New()
	for i, sh := range r.Shards {
		here := sh.View.AllSeries()
		if out.sets[i] != nil {
			here.AndNot(out.sets[i])
		}
		set.Or(here)
	}
	return set
}

// merged returns how many sources share their target with another source, or with the
// rows that it has.
func (r *Request) merged(out *Result) int {
	targets := out.Pairs.Targets()
	fresh := roaring.AndNot(targets, r.staying(out))
	return out.Pairs.Len() - int(fresh.GetCardinality())
}

// encode sets the result's change for the log.
func (r *Request) encode(out *Result) error {
	m := moves.Move{Change: *r.Change, Pairs: out.Pairs}
	if out.Change.Change == nil { // else only the shards are others
		out.Change.Change = m.Append(nil)
	}
	out.Change.Shards = nil
	bytes := len(out.Change.Change)
	for i, sh := range r.Shards {
		if out.sets[i] == nil || out.sets[i].IsEmpty() && !r.Change.Fields() {
			continue
		}
		out.sets[i].RunOptimize()
		set, err := out.sets[i].ToBytes()
		if err != nil {
			return fmt.Errorf("encode series set: %w", err)
		}
		out.Change.Shards = append(out.Change.Shards, entry.MovedShard{Shard: sh.View.ID(), Series: set})
		bytes += len(set)
	}
	if bytes > MaxBytes {
		return fmt.Errorf("so many series cannot be moved at once: move fewer of them with WHERE, their list takes %d bytes and at most %d are allowed", bytes, MaxBytes)
	}
	return nil
}
