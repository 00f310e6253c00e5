package scantest

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

type view struct {
	store  *Store
	data   *meta.Data
	table  *table
	shards []scan.Shard
}

func (v *view) Shards() []scan.Shard { return slices.Clone(v.shards) }

func (v *view) Losses() []scan.Loss {
	out := slices.Clone(v.store.Lost)
	for i := range out {
		out[i].Accepted = v.data.Accepted(out[i].Shard, out[i].ID)
	}
	return out
}

func (v *view) SeriesKey(id model.SeriesID) (string, error) {
	if i := int(id) - 1; i >= 0 && i < len(v.table.keys) {
		return v.table.keys[i], nil
	}
	return "", fmt.Errorf("no series %d", id)
}

func (v *view) Release() {
	v.store.mu.Lock()
	v.store.views--
	v.store.mu.Unlock()
}

// shardView is a shard with the function that it charges texts to.
type shardView struct {
	*shard
	store  *Store
	charge func(bytes int64) error
}

func (s *shardView) ID() uint64                               { return s.id }
func (s *shardView) TimeRange() model.TimeRange               { return s.times }
func (s *shardView) Measurements() []string                   { return s.measurements() }
func (s *shardView) Fields(measurement string) []column.Field { return s.fieldsOf(measurement) }
func (s *shardView) Charged(charge func(int64) error) scan.Shard {
	return &shardView{s.shard, s.store, charge}
}

func (sh *shard) measurements() []string {
	set := map[string]bool{}
	for _, x := range sh.series {
		set[x.measurement] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func (sh *shard) fieldsOf(measurement string) []column.Field {
	var out []column.Field
	for _, key := range slices.Sorted(maps.Keys(sh.fields[measurement])) {
		out = append(out, column.Field{Key: key, Type: sh.fields[measurement][key]})
	}
	return out
}

func (s *shardView) TagKeys(measurement string) ([]string, error) {
	set := map[string]bool{}
	for _, x := range s.series {
		if x.measurement == measurement {
			for _, tag := range x.tags {
				set[tag.Key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set)), s.store.Damage
}

func (s *shardView) Select(_ context.Context, measurement string, where *model.TagExpr) (*roaring.Bitmap, error) {
	set := roaring.New()
	for id, x := range s.series {
		if x.measurement == measurement && where.Match(x.tags) {
			set.Add(uint32(id))
		}
	}
	return set, nil
}

func (s *shardView) TextMeasurements() (names []string) {
	for _, name := range s.Measurements() {
		if !slices.ContainsFunc(s.Fields(name), func(f column.Field) bool { return f.Type != model.String }) {
			names = append(names, name)
		}
	}
	return names
}

func (s *shardView) MeasurementsWhere(_ context.Context, where *model.TagExpr) (names []string, exact bool, err error) {
	set := map[string]bool{}
	for _, x := range s.series {
		if where.Match(x.tags) {
			set[x.measurement] = true
		}
	}
	return slices.Sorted(maps.Keys(set)), true, nil
}

func (s *shardView) EachTagKey(_ context.Context, skip []string, f func(key string) error) error {
	for _, x := range s.series {
		for _, tag := range x.tags {
			if slices.Contains(skip, x.measurement) {
				continue
			}
			if err := f(tag.Key); err != nil {
				return err
			}
		}
	}
	return s.store.Damage
}

func (s *shardView) EachTagValue(_ context.Context, key string, skip []string, f func(value string) error) error {
	for _, x := range s.series {
		if v := x.tags.Get(key); v != "" && !slices.Contains(skip, x.measurement) {
			if err := f(v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *shardView) AllSeries() *roaring.Bitmap {
	set := roaring.New()
	for id := range s.series {
		set.Add(uint32(id))
	}
	return set
}

// seriesOf counts the series of each value of a tag.
func (s *shardView) seriesOf(measurement, key string, set *roaring.Bitmap) map[string]int {
	count := map[string]int{}
	for id, x := range s.series {
		if v := x.tags.Get(key); x.measurement == measurement && v != "" && (set == nil || set.Contains(uint32(id))) {
			count[v]++
		}
	}
	return count
}

// texts charges a list.
func (s *shardView) texts(list []string) ([]string, error) {
	if s.charge == nil {
		return list, nil
	}
	n := int64(0)
	for _, text := range list {
		n += int64(len(text))
	}
	return list, s.charge(n)
}

func (s *shardView) TagValues(measurement, key string, set *roaring.Bitmap) ([]string, error) {
	return s.texts(slices.Sorted(maps.Keys(s.seriesOf(measurement, key, set))))
}

func (s *shardView) FirstTagValues(measurement, key string, set *roaring.Bitmap, limit int) ([]string, error) {
	all := slices.Sorted(maps.Keys(s.seriesOf(measurement, key, set)))
	return s.texts(all[:min(limit, len(all))])
}

func (s *shardView) LastTagValues(measurement, key string, set *roaring.Bitmap, limit int) ([]string, error) {
	all := slices.Sorted(maps.Keys(s.seriesOf(measurement, key, set)))
	return s.texts(all[max(0, len(all)-limit):])
}

func (s *shardView) TagValueCount(measurement, key string) (int, error) {
	return len(s.seriesOf(measurement, key, nil)), nil
}

func (s *shardView) CountByTagValue(measurement, key string, set *roaring.Bitmap, f func(value []byte, series int) bool) error {
	count := s.seriesOf(measurement, key, set)
	for _, value := range slices.Sorted(maps.Keys(count)) {
		if !f([]byte(value), count[value]) {
			break
		}
	}
	return nil
}

func (s *shardView) GroupBy(_ string, set *roaring.Bitmap, keys []string) (*scan.Groups, error) {
	ids := set.ToArray()
	of := make([][]string, len(ids)) // the tuple of each series
	for i, id := range ids {
		for _, key := range keys {
			of[i] = append(of[i], s.series[model.SeriesID(id)].tags.Get(key))
		}
		if _, err := s.texts(of[i]); err != nil {
			return nil, err
		}
	}
	tuples := slices.Clone(of)
	slices.SortFunc(tuples, slices.Compare)
	tuples = slices.CompactFunc(tuples, slices.Equal)
	group := make([]uint32, len(ids))
	for i := range ids {
		n, _ := slices.BinarySearchFunc(tuples, of[i], slices.Compare)
		group[i] = uint32(n)
	}
	return scan.NewGroups(tuples, ids, group), nil
}

func (s *shardView) TimeBounds(set *roaring.Bitmap) (model.TimeRange, bool) {
	r := model.TimeRange{Min: math.MaxInt64, Max: math.MinInt64}
	for id, x := range s.series {
		if set == nil || set.Contains(uint32(id)) {
			for t := range x.points {
				r.Min, r.Max = min(r.Min, t), max(r.Max, t)
			}
		}
	}
	return r, !r.Empty()
}

// Cost counts a series as one cached value. It counts a chunk as a block for each
// field of the request, with eight bytes a row, all in one file.
func (s *shardView) Cost(req scan.Request) (cost scan.Cost, err error) {
	c := &cursor{ctx: context.Background(), shard: s, req: req, ids: req.Series.ToArray()}
	for _, ok := c.NextSeries(); ok; _, ok = c.NextSeries() {
		cost.CachedValues++
		for _, chunk := range c.chunks {
			cost.Files = 1
			cost.Blocks += int64(len(chunk.Cols))
			cost.Bytes += int64(8 * len(chunk.At) * len(chunk.Cols))
			cost.Rows += int64(len(chunk.At))
		}
	}
	return cost, c.err
}

func (s *shardView) Scan(ctx context.Context, req scan.Request) (scan.Cursor, error) {
	return &cursor{ctx: ctx, shard: s, req: req, ids: req.Series.ToArray()}, nil
}
