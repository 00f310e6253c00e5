package query

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vector"
	"tsdbd/lineproto"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/query/window"
)

// memStore is a storage in memory, fed with line protocol. How it cuts series
// into chunks and whether chunks have statistics is adjustable: answers must
// not depend on it.
type memStore struct {
	chunkRows int
	stats     bool
	steps     bool  // chunks of regular series tell their step
	shardSpan int64 // ns
	dbs       map[string]*memDB
}

type memDB struct {
	table *point.Table
	rps   map[string]map[int64]*memShard
	keys  map[string]model.SeriesID
	names []string // by id-1
	def   string
}

type memShard struct {
	r      model.TimeRange
	fields map[string]map[string]model.FieldType
	series map[model.SeriesID]*memSeries
}

type memSeries struct {
	name   string
	tags   model.Tags
	points map[int64]map[string]memValue
	order  []int64 // sorted times, nil when stale
	chunks map[string][]*memChunk
}

type memValue struct {
	typ  model.FieldType
	bits uint64
	str  string
}

const week = int64(7 * 24 * 3600e9)

func newMemStore() *memStore {
	return &memStore{chunkRows: 7, stats: true, steps: true, shardSpan: week, dbs: map[string]*memDB{}}
}

func (m *memStore) create(db, rp string) {
	d := m.dbs[db]
	if d == nil {
		d = &memDB{table: point.NewTable(uint32(len(m.dbs) + 1)), rps: map[string]map[int64]*memShard{}, keys: map[string]model.SeriesID{}, def: rp}
		m.dbs[db] = d
	}
	if d.rps[rp] == nil {
		d.rps[rp] = map[int64]*memShard{}
	}
}

func (m *memStore) defaultRP(db string) (string, error) {
	d := m.dbs[db]
	if d == nil {
		return "", fmt.Errorf("database not found: %s", db)
	}
	return d.def, nil
}

// write stores lines; points whose field types clash are dropped.
func (m *memStore) write(t testing.TB, db, rp, precision, lines string) {
	t.Helper()
	d := m.dbs[db]
	if d == nil {
		t.Fatalf("no database %q", db)
	}
	if rp == "" {
		rp = d.def
	}
	unit, err := lineproto.Unit(precision, false)
	if err != nil {
		t.Fatal(err)
	}
	var p lineproto.Parser
	var b point.Batch
	b.Database = d.table.Database()
	if _, err := p.Parse(&b, d.table, []byte(lines), lineproto.Options{Unit: unit}); err != nil {
		t.Logf("write: %v", err)
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		vals := map[string]memValue{}
		for j, f := range r.Layout.Fields {
			w := b.Values[int(r.First)+j]
			v := memValue{typ: f.Type, bits: w}
			if f.Type == model.String {
				v.str = string(column.StringAt(w, b.Strings))
			}
			vals[f.Key] = v
		}
		m.put(db, rp, r.Series.Key(), r.Time, vals)
	}
}

func (m *memStore) put(db, rp, key string, at int64, vals map[string]memValue) {
	d := m.dbs[db]
	id := d.keys[key]
	if id == 0 {
		id = model.SeriesID(len(d.names) + 1)
		d.keys[key] = id
		d.names = append(d.names, key)
	}
	// Groups are counted from a Monday, as InfluxDB's.
	start := at - window.FloorMod(at-4*24*3600e9, m.shardSpan)
	if start > at {
		start = math.MinInt64
	}
	sh := d.rps[rp][start]
	if sh == nil {
		end := start + m.shardSpan - 1
		if end < start {
			end = math.MaxInt64
		}
		sh = &memShard{r: model.TimeRange{Min: start, Max: end}, fields: map[string]map[string]model.FieldType{}, series: map[model.SeriesID]*memSeries{}}
		d.rps[rp][start] = sh
	}
	name, tags := model.ParseSeriesKey(key, nil)
	types := sh.fields[name]
	if types == nil {
		types = map[string]model.FieldType{}
		sh.fields[name] = types
	}
	for k, v := range vals {
		if t, ok := types[k]; ok && t != v.typ {
			return
		}
	}
	s := sh.series[id]
	if s == nil {
		s = &memSeries{name: name, tags: tags, points: map[int64]map[string]memValue{}}
		sh.series[id] = s
	}
	s.order, s.chunks = nil, nil
	pt := s.points[at]
	if pt == nil {
		pt = map[string]memValue{}
		s.points[at] = pt
	}
	for k, v := range vals {
		types[k] = v.typ
		pt[k] = v
	}
}

// View implements scan.Storage.
func (m *memStore) View(db, rp string, r model.TimeRange) (scan.View, error) {
	d := m.dbs[db]
	if d == nil {
		return nil, fmt.Errorf("database not found: %s", db)
	}
	shards, ok := d.rps[rp]
	if !ok {
		return nil, fmt.Errorf("retention policy not found: %s", rp)
	}
	v := &memView{db: d}
	for _, sh := range shards {
		if sh.r.Overlaps(r) {
			v.shards = append(v.shards, &memShardView{memShard: sh, m: m})
		}
	}
	slices.SortFunc(v.shards, func(a, b scan.Shard) int { return cmpInt(a.TimeRange().Min, b.TimeRange().Min) })
	return v, nil
}

type memView struct {
	db     *memDB
	shards []scan.Shard
}

func (v *memView) Shards() []scan.Shard { return v.shards }
func (v *memView) Release()             {}
func (v *memView) SeriesKey(id model.SeriesID) (string, error) {
	return v.db.names[id-1], nil
}

type memShardView struct {
	*memShard
	m *memStore
}

func (s *memShardView) ID() uint64                 { return uint64(s.r.Min) }
func (s *memShardView) TimeRange() model.TimeRange { return s.r }
func (s *memShardView) Measurements() []string {
	var out []string
	for k := range s.fields {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (s *memShardView) Fields(name string) []column.Field {
	var out []column.Field
	for k, t := range s.fields[name] {
		out = append(out, column.Field{Key: k, Type: t})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out
}

func (s *memShardView) TagKeys(name string) ([]string, error) {
	seen := map[string]bool{}
	for _, x := range s.series {
		if x.name == name {
			for _, t := range x.tags {
				seen[t.Key] = true
			}
		}
	}
	var out []string
	for k := range seen {
		out = append(out, k)
	}
	slices.Sort(out)
	return out, nil
}

func (s *memShardView) Select(_ context.Context, name string, where *model.TagExpr) (*roaring.Bitmap, error) {
	set := roaring.New()
	for id, x := range s.series {
		if x.name == name && where.Match(x.tags) {
			set.Add(uint32(id))
		}
	}
	return set, nil
}

func (s *memShardView) TagValues(name, key string, set *roaring.Bitmap) ([]string, error) {
	return nil, fmt.Errorf("not part of the test")
}

func (s *memShardView) GroupBy(name string, set *roaring.Bitmap, keys []string) (*scan.Groups, error) {
	index := map[string]int{}
	var tuples [][]string
	ids := set.ToArray()
	tupleOf := func(id uint32) []string {
		t := make([]string, len(keys))
		for i, k := range keys {
			t[i] = s.series[model.SeriesID(id)].tags.Get(k)
		}
		return t
	}
	for _, id := range ids {
		t := tupleOf(id)
		if k := fmt.Sprintf("%q", t); index[k] == 0 {
			index[k] = 1
			tuples = append(tuples, t)
		}
	}
	slices.SortFunc(tuples, func(a, b []string) int { return slices.Compare(a, b) })
	for i, t := range tuples {
		index[fmt.Sprintf("%q", t)] = i
	}
	group := make([]uint32, len(ids))
	for i, id := range ids {
		group[i] = uint32(index[fmt.Sprintf("%q", tupleOf(id))])
	}
	return scan.NewGroups(tuples, ids, group), nil
}

func (s *memShardView) TimeBounds(set *roaring.Bitmap) (model.TimeRange, bool) {
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

func (s *memShardView) Scan(ctx context.Context, req scan.Request) (scan.Cursor, error) {
	return &memCursor{ctx: ctx, s: s, req: req, ids: req.Series.ToArray()}, nil
}

type memCursor struct {
	ctx    context.Context
	s      *memShardView
	req    scan.Request
	ids    []uint32
	chunks []*memChunk
	err    error
}

func (c *memCursor) NextSeries() (model.SeriesID, bool) {
	for len(c.ids) > 0 {
		if c.err = c.ctx.Err(); c.err != nil {
			return 0, false
		}
		id := model.SeriesID(c.ids[0])
		c.ids = c.ids[1:]
		x := c.s.series[id]
		if x == nil || x.name != c.req.Measurement {
			continue
		}
		if c.chunks = slices.Clone(c.build(x)); len(c.chunks) == 0 {
			continue
		}
		if c.req.Descending {
			slices.Reverse(c.chunks)
		}
		return id, true
	}
	return 0, false
}

func (c *memCursor) NextChunk() scan.Chunk {
	if len(c.chunks) == 0 {
		return nil
	}
	out := c.chunks[0]
	c.chunks = c.chunks[1:]
	return out
}
func (c *memCursor) Err() error { return c.err }
func (c *memCursor) Close()     {}

// build cuts the series' rows into chunks for the request.
func (c *memCursor) build(x *memSeries) []*memChunk {
	cacheKey := fmt.Sprint(c.req.Fields, c.req.Range, c.s.m.chunkRows, c.s.m.stats, c.s.m.steps)
	if got, ok := x.chunks[cacheKey]; ok {
		return got
	}
	if x.order == nil {
		for t := range x.points {
			x.order = append(x.order, t)
		}
		slices.Sort(x.order)
	}
	var out []*memChunk
	var times []int64
	flush := func() {
		if len(times) == 0 {
			return
		}
		ch := &memChunk{times: times, stats: c.s.m.stats}
		if c.s.m.steps && len(times) > 1 {
			ch.step = times[1] - times[0]
			for i := 2; i < len(times); i++ {
				if times[i]-times[i-1] != ch.step {
					ch.step = 0
					break
				}
			}
		}
		for _, f := range c.req.Fields {
			v := column.Vector{Type: c.s.fields[x.name][f]}
			for _, t := range times {
				p, ok := x.points[t][f]
				if !ok {
					v.AppendNull()
				} else if p.typ == model.String {
					appendScalar(&v, scalar{typ: p.typ, str: p.str})
				} else {
					v.AppendWord(p.bits, nil)
				}
			}
			ch.cols = append(ch.cols, v)
		}
		out = append(out, ch)
		times = nil
	}
	for _, t := range x.order {
		if !c.req.Range.Contains(t) {
			continue
		}
		has := false
		for _, f := range c.req.Fields {
			if _, ok := x.points[t][f]; ok {
				has = true
			}
		}
		if !has {
			continue
		}
		if times = append(times, t); len(times) >= c.s.m.chunkRows {
			flush()
		}
	}
	flush()
	if x.chunks == nil {
		x.chunks = map[string][]*memChunk{}
	}
	x.chunks[cacheKey] = out
	return out
}

type memChunk struct {
	times []int64
	cols  []column.Vector
	step  int64
	stats bool
}

func (c *memChunk) Len() int                { return len(c.times) }
func (c *memChunk) Min() int64              { return c.times[0] }
func (c *memChunk) Max() int64              { return c.times[len(c.times)-1] }
func (c *memChunk) Step() int64             { return c.step }
func (c *memChunk) Times() ([]int64, error) { return c.times, nil }
func (c *memChunk) Column(i int) (*column.Vector, error) {
	return &c.cols[i], nil
}

func (c *memChunk) Stats(i int, st *scan.Stats) bool {
	if !c.stats {
		return false
	}
	v := &c.cols[i]
	var s scan.Stats
	var sum, lost float64
	for r := range c.times {
		if v.Type == model.Unknown || !v.IsValid(r) {
			continue
		}
		w := word(v, r)
		if s.Count == 0 {
			s.Min, s.Max, s.First, s.FirstRow = w, w, w, r
		}
		if wordLess(v.Type, w, s.Min) {
			s.Min = w
		}
		if wordLess(v.Type, s.Max, w) {
			s.Max = w
		}
		s.Last, s.LastRow = w, r
		s.Count++
		switch v.Type {
		case model.Float:
			var e float64
			sum, e = vector.TwoSum(sum, v.Floats[r])
			lost += e
			s.Sum, s.SumError = math.Float64bits(sum), lost
		case model.Integer, model.Unsigned:
			s.Sum += w
		}
	}
	if v.Type == model.String {
		s = scan.Stats{Count: s.Count, FirstRow: s.FirstRow, LastRow: s.LastRow}
	}
	*st = s
	return true
}
