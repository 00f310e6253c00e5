package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"sort"
	"time"

	"tsdbd/exchange/rows"
	"tsdbd/internal/identity"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/retention"
	"tsdbd/transfer/mover"
	"tsdbd/tsi"
)

// shardPart is the rows for one shard of the store.
type shardPart struct {
	mover.Part
	of []*mover.Part // of the source, where the rows come from
}

// name names the part in the journal and in messages. A directory never gives the number of
// a shard that is dropped again, so what comes in its place is another part. In another
// directory, or in one that was made again at the same path, the numbers mean other shards.
func (p *shardPart) name(directory identity.Lineage) string {
	return fmt.Sprintf("directory %s, shard %d, %s.%s from %s", directory, p.ID, p.Database, p.Policy, time.Unix(0, p.Times.Min).UTC().Format(time.RFC3339Nano))
}

// Parts implements mover.Sink. It cuts the parts of the source by the shards of the store,
// which it makes.
func (s *Sink) Parts(ctx context.Context, m *mover.Move, parts iter.Seq2[*mover.Part, error]) iter.Seq2[*mover.Part, error] {
	return func(yield func(*mover.Part, error) bool) {
		all, err := s.plan(ctx, m, parts)
		for _, p := range all {
			if !yield(&p.Part, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func (s *Sink) plan(ctx context.Context, m *mover.Move, parts iter.Seq2[*mover.Part, error]) (all []*shardPart, err error) {
	byShard := map[uint64]*shardPart{}
	for from, err := range parts {
		if err != nil {
			return nil, err
		}
		groups, err := s.groups(ctx, m, from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from.Name, err)
		}
		for _, g := range groups {
			id := g.Shards[0].ID
			p := byShard[id]
			if p == nil {
				p = &shardPart{Part: mover.Part{Database: m.Target(from.Database), Policy: from.Policy, ID: id, Times: g.TimeRange().Intersect(m.Filter().Times())}}
				p.Name, p.Open = p.name(s.store.Catalog().Lineage), p.open
				byShard[id] = p
				all = append(all, p)
			}
			p.of = append(p.of, from)
			p.Values += from.Values / int64(len(groups))
		}
	}
	return all, nil
}

// open opens the rows of the source for the shard.
func (p *shardPart) open(ctx context.Context, times model.TimeRange, refuse mover.Refuse) (rows.Reader, error) {
	r := &merged{clash: func(run *rows.Run, have model.FieldType) {
		refuse(conflict(run, tsi.FieldConflict{Field: run.Fields[0], Have: have}), run)
	}}
	for _, from := range p.of {
		one, err := from.Open(ctx, times, refuse)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", from.Name, err), r.Close())
		}
		r.readers = append(r.readers, one)
	}
	if len(r.readers) == 1 {
		return r.readers[0], nil
	}
	return r, nil
}

// manyGroups is how many shard groups a part may be cut into before its rows are asked
// which of them they need.
const manyGroups = 1000

// occupied returns the beginnings of the spans of time that have rows of a part, each as
// long as a shard group, in order.
func occupied(ctx context.Context, p *mover.Part, times model.TimeRange, length time.Duration) ([]int64, error) {
	r, err := p.Open(ctx, times, func(string, *rows.Run) {})
	if err != nil {
		return nil, err
	}
	starts := map[int64]bool{}
	start, end := int64(0), int64(0)
	for {
		run, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return slices.Sorted(maps.Keys(starts)), r.Close()
		}
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		for _, t := range run.Times {
			if t < start || t >= end {
				start, end = meta.GroupBounds(t, length)
				starts[start] = true
			}
		}
	}
}

// groups returns the shard groups that the rows of a part may go to, those that are
// missing made. Expired ones are left out with a note.
func (s *Sink) groups(ctx context.Context, m *mover.Move, p *mover.Part) ([]meta.ShardGroup, error) {
	times := p.Times.Intersect(m.Filter().Times())
	var starts []int64 // of the spans with rows, if they are known
	for {
		rp, err := s.store.Catalog().RetentionPolicy(m.Target(p.Database), p.Policy)
		if err != nil {
			return nil, err
		}
		if d := int64(rp.ShardGroupDuration); starts == nil && times.Max/d-times.Min/d > manyGroups {
			if starts, err = occupied(ctx, p, times, rp.ShardGroupDuration); err != nil {
				return nil, err
			}
			if len(starts) == 0 {
				return nil, nil
			}
		}
		var out []meta.ShardGroup
		var missing []int64
		expired := 0
		for at := times.Min; ; {
			if starts != nil {
				i := sort.Search(len(starts), func(i int) bool { // ends behind at; times may be too far apart for their difference
					return starts[i] > at || uint64(at)-uint64(starts[i]) < uint64(rp.ShardGroupDuration)
				})
				if i == len(starts) {
					break
				}
				at = max(at, starts[i])
			}
			g := rp.ShardGroupAt(at)
			if g == nil {
				start, end := meta.GroupBounds(at, rp.ShardGroupDuration)
				g = &meta.ShardGroup{Start: max(start, at), End: end}
				if next := rp.ShardGroupsIn(model.TimeRange{Min: at, Max: end - 1}); len(next) > 0 {
					g.End = next[0].Start
				}
			}
			switch {
			case retention.Expired(rp, g, m.Now()):
				expired++
			case len(g.Shards) == 0:
				missing = append(missing, at)
			default:
				out = append(out, *g)
			}
			if g.End > times.Max || g.End <= at {
				break
			}
			at = g.End
		}
		if len(missing) == 0 {
			if expired > 0 {
				m.Change(func(s *mover.Stats) { s.Expired += expired })
				m.Note(fmt.Sprintf("%s is left out as far as it is older than the retention policy keeps points (%s)", p.Name, rp.Duration))
			}
			return out, nil
		}
		err = s.store.Apply(ctx, meta.CreateShardGroups{Database: m.Target(p.Database), RetentionPolicy: p.Policy, Times: missing})
		if err != nil {
			return nil, err
		}
	}
}
