package query

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/result"
)

// fakeStore is a catalog and an index in memory: enough storage for statements
// other than SELECT. Rows are kept as their times; values are not.
type fakeStore struct {
	mu     sync.Mutex
	data   *meta.Data
	shards map[uint64]*fakeShard
	keys   map[string]map[string]model.SeriesID // database -> series key -> id
	names  map[string]map[model.SeriesID]string
	views  int // open ones
	// block, if set, is called by View.
	block func()
}

func newFakeStore() *fakeStore {
	return &fakeStore{
		data: new(meta.Data), shards: map[uint64]*fakeShard{},
		keys: map[string]map[string]model.SeriesID{}, names: map[string]map[model.SeriesID]string{},
	}
}

type fakeShard struct {
	id     uint64
	r      model.TimeRange
	series map[model.SeriesID]*fakeSeries
	fields map[string]map[string]model.FieldType
	damage error // of the index
}

type fakeSeries struct {
	measurement string
	tags        model.Tags
	times       []int64
}

func (f *fakeStore) Catalog() *meta.Data {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.data
}

func (f *fakeStore) Apply(_ context.Context, cmd meta.Command) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	next, err := meta.Apply(cmd, f.data)
	if err != nil {
		return err
	}
	f.data = next
	maps.DeleteFunc(f.shards, func(id uint64, _ *fakeShard) bool { _, ok := next.Shard(id); return !ok })
	return nil
}

func (f *fakeStore) Delete(_ context.Context, req scan.DeleteRequest) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, rp := range f.data.Database(req.Database).RetentionPolicies {
		if req.RetentionPolicy != "" && req.RetentionPolicy != rp.Name {
			continue
		}
		for _, g := range rp.ShardGroups {
			shard := f.shards[g.Shards[0].ID]
			for _, m := range shard.Measurements() {
				if req.Measurement != nil && !req.Measurement(m) {
					continue
				}
				var where *model.TagExpr
				if req.Where != nil {
					var err error
					if where, err = req.Where(m, shard.Fields(m)); err != nil {
						return fmt.Errorf("shard %d: %w", shard.id, err)
					}
				}
				for id, s := range shard.series {
					if s.measurement == m && where.Match(s.tags) {
						s.times = slices.DeleteFunc(s.times, req.Range.Contains)
						if len(s.times) == 0 {
							delete(shard.series, id)
						}
					}
				}
				if !slices.Contains(shard.Measurements(), m) {
					delete(shard.fields, m)
				}
			}
		}
	}
	return nil
}

var precisions = map[string]lineprotocol.Precision{
	"": lineprotocol.Nanosecond, "ns": lineprotocol.Nanosecond, "us": lineprotocol.Microsecond,
	"ms": lineprotocol.Millisecond, "s": lineprotocol.Second,
}

// write stores line protocol.
func (f *fakeStore) write(t testing.TB, db, rp, precision, lines string) {
	t.Helper()
	dec := lineprotocol.NewDecoderWithBytes([]byte(lines))
	for dec.Next() {
		name, err := dec.Measurement()
		mustOK(t, err)
		var tags model.Tags
		for {
			k, v, err := dec.NextTag()
			mustOK(t, err)
			if k == nil {
				break
			}
			tags = append(tags, model.Tag{Key: string(k), Value: string(v)})
		}
		tags.Sort()
		fields := map[string]model.FieldType{}
		for {
			k, v, err := dec.NextField()
			mustOK(t, err)
			if k == nil {
				break
			}
			fields[string(k)] = map[lineprotocol.ValueKind]model.FieldType{
				lineprotocol.Float: model.Float, lineprotocol.Int: model.Integer, lineprotocol.Uint: model.Unsigned,
				lineprotocol.String: model.String, lineprotocol.Bool: model.Boolean,
			}[v.Kind()]
		}
		at, err := dec.TimeBytes()
		mustOK(t, err)
		var n int64
		_, err = fmt.Sscan(string(at), &n)
		mustOK(t, err)
		f.point(t, db, rp, string(name), tags, fields, n*int64(precisions[precision].Duration()))
	}
}

func mustOK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f *fakeStore) point(t testing.TB, db, rp, name string, tags model.Tags, fields map[string]model.FieldType, at int64) {
	mustOK(t, f.Apply(t.Context(), meta.CreateShardGroup{Database: db, RetentionPolicy: rp, Time: at}))
	f.mu.Lock()
	defer f.mu.Unlock()
	policy, err := f.data.RetentionPolicy(db, rp)
	mustOK(t, err)
	g := policy.ShardGroupAt(at)
	shard := f.shards[g.Shards[0].ID]
	if shard == nil {
		shard = &fakeShard{id: g.Shards[0].ID, r: g.TimeRange(), series: map[model.SeriesID]*fakeSeries{}, fields: map[string]map[string]model.FieldType{}}
		f.shards[shard.id] = shard
	}
	if f.keys[db] == nil {
		f.keys[db], f.names[db] = map[string]model.SeriesID{}, map[model.SeriesID]string{}
	}
	key := string(model.AppendSeriesKey(nil, name, tags))
	id := f.keys[db][key]
	if id == 0 {
		id = model.SeriesID(len(f.keys[db]) + 1)
		f.keys[db][key], f.names[db][id] = id, key
	}
	s := shard.series[id]
	if s == nil {
		s = &fakeSeries{measurement: name, tags: tags}
		shard.series[id] = s
	}
	s.times = append(s.times, at)
	if shard.fields[name] == nil {
		shard.fields[name] = map[string]model.FieldType{}
	}
	for k, typ := range fields {
		if shard.fields[name][k] == model.Unknown {
			shard.fields[name][k] = typ
		}
	}
}

func (f *fakeStore) View(db, rp string, r model.TimeRange) (scan.View, error) {
	if f.block != nil {
		f.block()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	policy, err := f.data.RetentionPolicy(db, rp)
	if err != nil {
		return nil, err
	}
	v := &fakeView{store: f, names: f.names[db]}
	for _, g := range policy.ShardGroupsIn(r) {
		if s := f.shards[g.Shards[0].ID]; s != nil {
			v.shards = append(v.shards, s)
		}
	}
	f.views++
	return v, nil
}

type fakeView struct {
	store  *fakeStore
	names  map[model.SeriesID]string
	shards []scan.Shard
}

func (v *fakeView) Shards() []scan.Shard { return v.shards }

func (v *fakeView) SeriesKey(id model.SeriesID) (string, error) {
	if key := v.names[id]; key != "" {
		return key, nil
	}
	return "", fmt.Errorf("no series %d", id)
}

func (v *fakeView) Release() {
	v.store.mu.Lock()
	v.store.views--
	v.store.mu.Unlock()
}

func (s *fakeShard) ID() uint64                 { return s.id }
func (s *fakeShard) TimeRange() model.TimeRange { return s.r }

func (s *fakeShard) Measurements() []string {
	set := map[string]bool{}
	for _, series := range s.series {
		set[series.measurement] = true
	}
	return slices.Sorted(maps.Keys(set))
}

func (s *fakeShard) Fields(measurement string) []column.Field {
	var out []column.Field
	for _, key := range slices.Sorted(maps.Keys(s.fields[measurement])) {
		out = append(out, column.Field{Key: key, Type: s.fields[measurement][key]})
	}
	return out
}

func (s *fakeShard) TagKeys(measurement string) ([]string, error) {
	set := map[string]bool{}
	for _, series := range s.series {
		if series.measurement == measurement {
			for _, tag := range series.tags {
				set[tag.Key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(set)), s.damage
}

func (s *fakeShard) Select(_ context.Context, measurement string, where *model.TagExpr) (*roaring.Bitmap, error) {
	set := roaring.New()
	for id, series := range s.series {
		if series.measurement == measurement && where.Match(series.tags) {
			set.Add(uint32(id))
		}
	}
	return set, nil
}

func (s *fakeShard) TagValues(measurement, key string, set *roaring.Bitmap) ([]string, error) {
	values := map[string]bool{}
	for id, series := range s.series {
		if v := series.tags.Get(key); series.measurement == measurement && v != "" && (set == nil || set.Contains(uint32(id))) {
			values[v] = true
		}
	}
	return slices.Sorted(maps.Keys(values)), nil
}

func (s *fakeShard) GroupBy(_ string, set *roaring.Bitmap, keys []string) (*scan.Groups, error) {
	tupleOf := func(id uint32) []string {
		var tuple []string
		for _, key := range keys {
			tuple = append(tuple, s.series[model.SeriesID(id)].tags.Get(key))
		}
		return tuple
	}
	var tuples [][]string
	for _, id := range set.ToArray() {
		tuples = append(tuples, tupleOf(id))
	}
	slices.SortFunc(tuples, slices.Compare)
	tuples = slices.CompactFunc(tuples, slices.Equal)
	var group []uint32
	for _, id := range set.ToArray() {
		i, _ := slices.BinarySearchFunc(tuples, tupleOf(id), slices.Compare)
		group = append(group, uint32(i))
	}
	return scan.NewGroups(tuples, set.ToArray(), group), nil
}

func (s *fakeShard) Scan(_ context.Context, req scan.Request) (scan.Cursor, error) {
	c := &fakeCursor{}
	for _, id := range req.Series.ToArray() {
		if series := s.series[model.SeriesID(id)]; series != nil && len(req.Fields) > 0 && slices.ContainsFunc(series.times, req.Range.Contains) {
			c.ids = append(c.ids, model.SeriesID(id))
		}
	}
	return c, nil
}

func (s *fakeShard) TimeBounds(*roaring.Bitmap) (model.TimeRange, bool) {
	return s.r, len(s.series) > 0
}

type fakeCursor struct{ ids []model.SeriesID }

func (c *fakeCursor) NextSeries() (model.SeriesID, bool) {
	if len(c.ids) == 0 {
		return 0, false
	}
	id := c.ids[0]
	c.ids = c.ids[1:]
	return id, true
}

func (c *fakeCursor) NextChunk() scan.Chunk { return nil }
func (c *fakeCursor) Err() error            { return nil }
func (c *fakeCursor) Close()                {}

// brokenStore fails where it is told to.
type brokenStore struct {
	*fakeStore
	err   error
	panic any
}

func (b *brokenStore) View(db, rp string, r model.TimeRange) (scan.View, error) {
	if b.panic != nil {
		panic(b.panic)
	}
	if b.err != nil {
		return nil, b.err
	}
	return b.fakeStore.View(db, rp, r)
}

var errBroken = errors.New("broken")

// resultText is a result on one line, for tables of cases.
func resultText(r *result.Result) string {
	if r.Err != nil {
		return "error: " + r.Err.Error()
	}
	var parts []string
	for _, m := range r.Messages {
		parts = append(parts, m.Level+": "+m.Text)
	}
	for _, s := range r.Series {
		head := s.Name
		for _, tag := range s.Tags {
			head += "," + tag.Key + "=" + tag.Value
		}
		var rows []string
		for i := range s.Rows {
			var cells []string
			for c := range s.Values {
				cells = append(cells, fmt.Sprint(fakeCell(&s.Values[c], i)))
			}
			rows = append(rows, strings.Join(cells, " "))
		}
		parts = append(parts, fmt.Sprintf("%s(%s): %s", head, strings.Join(s.Columns, " "), strings.Join(rows, "; ")))
	}
	if r.Partial {
		parts = append(parts, "...")
	}
	return strings.Join(parts, " | ")
}

// fakeCell is one value of a table as JSON would hold it.
func fakeCell(v *column.Vector, i int) any {
	if !v.IsValid(i) {
		return nil
	}
	switch v.Type {
	case model.Float:
		return v.Floats[i]
	case model.Integer:
		return v.Ints[i]
	case model.Unsigned:
		return v.Uints[i]
	case model.String:
		return v.Strings[i]
	case model.Boolean:
		return v.Bools[i]
	}
	return nil
}
