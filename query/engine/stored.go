package engine

import (
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/engine/plan"
	"tsdbd/query/engine/read"
)

// without returns units that have the times of others in rng but those of segments, by source.
// Steps have a lead of as much before them as a step may begin in.
func without(us []*read.Unit, rng model.TimeRange, covered map[*read.Measurement][]plan.Segment, steps bool, first int64) (out []*read.Unit) {
	for _, u := range us {
		rest, lead, n := rng, first, int32(0)
		add := func(end int64) {
			part := model.TimeRange{Min: rest.Min - lead, Max: end}.Intersect(u.Range)
			if rest.Min > end || part.Empty() {
				return
			}
			piece := *u
			piece.Range, piece.Lead, piece.Part = part, max(rest.Min-part.Min, 0), n
			out = append(out, &piece)
		}
		for _, s := range covered[u.Source] { // oldest first
			if rest.Empty() || !s.Overlaps(rest) {
				continue
			}
			add(s.Min - 1)
			n++
			if rest.Min, lead = s.Max+1, 0; steps {
				lead = int64(s.Every())
			}
		}
		add(rest.Max)
	}
	return out
}

// What rowsOf looks at: of so many shards, evenly spread, so many series each.
const (
	sampledShards = 4
	sampledSeries = 16
)

// rowsOf estimates how many rows with a field a measurement has in a range.
func rowsOf(ctx context.Context, m *read.Measurement, field string, rng model.TimeRange) float64 {
	shards := slices.DeleteFunc(slices.Clone(m.Shards), func(sh scan.Shard) bool { return !sh.TimeRange().Overlaps(rng) })
	looked, rows := 0, 0.0
	for i := 0; i < len(shards); i += (len(shards) + sampledShards - 1) / sampledShards {
		set, err := shards[i].Select(ctx, m.Name, nil)
		if err != nil {
			return 0 // whoever reads the shard has the error
		}
		looked++
		some, n := roaring.New(), set.GetCardinality()
		for k := uint64(0); k < n; k += (n + sampledSeries - 1) / sampledSeries {
			id, _ := set.Select(uint32(k))
			some.Add(id)
		}
		if n == 0 {
			continue
		}
		cost, err := shards[i].Cost(scan.Request{Measurement: m.Name, Series: some, Fields: []string{field}, Range: rng})
		if err != nil {
			return 0
		}
		rows += float64(cost.Rows+cost.CachedValues) * float64(n) / float64(some.GetCardinality())
	}
	return rows / float64(max(looked, 1)) * float64(len(shards))
}
