package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"time"

	"tsdbd/internal/identity"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/retention"
	"tsdbd/store"
	"tsdbd/transfer/journal"
	"tsdbd/transfer/rows"
)

// job is the rows for one shard of the store.
type job struct {
	directory        identity.Lineage // of the store
	database, policy string           // of the store
	shard            uint64
	times            model.TimeRange
	parts            []*Part
	refused          journal.Refused // of its rows; guarded by the state's mutex
}

// name names the job for messages.
func (j *job) name() string {
	return fmt.Sprintf("shard %d, %s.%s from %s", j.shard, j.database, j.policy, time.Unix(0, j.times.Min).UTC().Format(time.RFC3339Nano))
}

// entry names the job in the journal. A directory never gives the number of a shard that
// is dropped again, so what comes in its place is another job. In another directory, or in
// one that was made again at the same path, the numbers mean other shards.
func (j *job) entry() string { return fmt.Sprintf("directory %s, %s", j.directory, j.name()) }

// plan cuts the parts of the source by the shards of the store, which it makes.
func (s *state) plan(ctx context.Context, src *Source, st *store.Store) ([]*job, error) {
	var jobs []*job
	byShard := map[uint64]*job{}
	for _, p := range src.Parts {
		groups, err := s.groups(ctx, p, st)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name(), err)
		}
		for _, g := range groups {
			id := g.Shards[0].ID
			j := byShard[id]
			if j == nil {
				j = &job{directory: st.Catalog().Lineage, database: s.target(p.Database), policy: p.Policy, shard: id, times: g.TimeRange().Intersect(s.opt.Filter.Times())}
				byShard[id] = j
				jobs = append(jobs, j)
			}
			j.parts = append(j.parts, p)
		}
	}
	return jobs, nil
}

// manyGroups is how many shard groups a part may be cut into before its rows are asked
// which of them they need.
const manyGroups = 1000

// occupied returns the beginnings of the spans of time that have rows of a part, each as
// long as a shard group, in order.
func occupied(ctx context.Context, p *Part, times model.TimeRange, length time.Duration) ([]int64, error) {
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
func (s *state) groups(ctx context.Context, p *Part, st *store.Store) ([]meta.ShardGroup, error) {
	times := p.Times.Intersect(s.opt.Filter.Times())
	var starts []int64 // of the spans with rows, if they are known
	for {
		rp, err := st.Catalog().RetentionPolicy(s.target(p.Database), p.Policy)
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
			case retention.Expired(rp, g, s.opt.Now()):
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
				s.change(func(r *Result) { r.Expired += expired })
				s.note(fmt.Sprintf("%s is left out as far as it is older than the retention policy keeps points (%s)", p.name(), rp.Duration))
			}
			return out, nil
		}
		err = st.Apply(ctx, meta.CreateShardGroups{Database: s.target(p.Database), RetentionPolicy: p.Policy, Times: missing})
		if err != nil {
			return nil, err
		}
	}
}
