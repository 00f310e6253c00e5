// Package scantest has a store in memory for tests of queries. A Store keeps a
// catalog and points. It implements every method of the interfaces of package
// scan, so that a test of the query engine needs no files.
package scantest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/model/scan"
)

// Store is a catalog and points in memory. Answers must not depend on ChunkRows,
// Stats, and Steps. Set the fields before the store is used.
type Store struct {
	ChunkRows int           // of a chunk, at most
	Stats     bool          // chunks have statistics
	Steps     bool          // chunks of regular series have their step
	ShardSpan time.Duration // of the policies that Create makes
	Viewing   func()        // called by View
	Damage    error         // of the index: TagKeys returns it
	Lost      []scan.Loss   // of every view

	mu     sync.Mutex
	data   *meta.Data
	tables map[uint32]*table // by database id
	shards map[uint64]*shard
	views  int
}

// table holds the series of a database.
type table struct {
	series *point.Table
	ids    map[string]model.SeriesID
	keys   []string // by id-1
}

type shard struct {
	id     uint64
	times  model.TimeRange
	fields map[string]map[string]model.FieldType // by measurement and key
	series map[model.SeriesID]*series
}

type series struct {
	measurement string
	tags        model.Tags
	points      map[int64]map[string]Value

	building sync.Mutex          // workers may read a series at the same time
	order    []int64             // sorted times; nil if they must be sorted
	chunks   map[string][]*Chunk // by what a request asks for
}

// Value is a value of a field.
type Value struct {
	Type model.FieldType
	Bits uint64 // of other types than String
	Text string
}

// New returns a store without databases whose chunks have up to 7 rows,
// statistics, and steps.
func New() *Store {
	return &Store{
		ChunkRows: 7, Stats: true, Steps: true, ShardSpan: 7 * 24 * time.Hour,
		data: new(meta.Data), tables: map[uint32]*table{}, shards: map[uint64]*shard{},
	}
}

// Create makes a retention policy, and its database with the policy as default.
// A policy that exists stays as it is.
func (s *Store) Create(db, rp string) {
	spec := meta.RetentionPolicySpec{Name: rp, ShardGroupDuration: &s.ShardSpan}
	var cmd meta.Command = meta.CreateDatabase{Name: db, Policy: &spec}
	if d := s.Catalog().Database(db); d != nil {
		if d.RetentionPolicy(rp) != nil {
			return
		}
		cmd = meta.CreateRetentionPolicy{Database: db, Policy: spec}
	}
	if err := s.Apply(context.Background(), cmd); err != nil {
		panic(err)
	}
}

// Catalog returns the catalog.
func (s *Store) Catalog() *meta.Data {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data
}

// Apply changes the catalog.
func (s *Store) Apply(_ context.Context, cmd meta.Command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applyLocked(cmd)
}

func (s *Store) applyLocked(cmd meta.Command) error {
	next, err := meta.Apply(cmd, s.data)
	if err != nil {
		return err
	}
	s.data = next
	maps.DeleteFunc(s.shards, func(id uint64, _ *shard) bool { _, ok := next.Shard(id); return !ok })
	return nil
}

// Views returns the number of views that are not released.
func (s *Store) Views() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.views
}

// Delete deletes rows.
func (s *Store) Delete(_ context.Context, req scan.DeleteRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rp := range s.data.Database(req.Database).RetentionPolicies {
		if req.RetentionPolicy != "" && req.RetentionPolicy != rp.Name {
			continue
		}
		for _, g := range rp.ShardGroups {
			if sh := s.shards[g.Shards[0].ID]; sh != nil {
				if err := sh.delete(req); err != nil {
					return fmt.Errorf("shard %d: %w", sh.id, err)
				}
			}
		}
	}
	return nil
}

func (sh *shard) delete(req scan.DeleteRequest) error {
	for _, m := range sh.measurements() {
		if req.Measurement != nil && !req.Measurement(m) {
			continue
		}
		var where *model.TagExpr
		if req.Where != nil {
			var err error
			if where, err = req.Where(m, sh.fieldsOf(m)); err != nil {
				return err
			}
		}
		for id, x := range sh.series {
			if x.measurement == m && where.Match(x.tags) {
				maps.DeleteFunc(x.points, func(at int64, _ map[string]Value) bool { return req.Range.Contains(at) })
				x.order, x.chunks = nil, nil
				if len(x.points) == 0 {
					delete(sh.series, id)
				}
			}
		}
		if !slices.Contains(sh.measurements(), m) {
			delete(sh.fields, m)
		}
	}
	return nil
}

// Move moves series, or a field. It checks nothing.
func (s *Store) Move(_ context.Context, req scan.MoveRequest) (moved scan.Moved, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &req.Change
	db := s.data.Database(req.Database)
	t, seen := s.tableLocked(db.ID), map[model.SeriesID]bool{}
	for _, rp := range db.RetentionPolicies {
		for _, g := range rp.ShardGroups {
			sh := s.shards[g.Shards[0].ID]
			if sh == nil {
				continue
			}
			var where *model.TagExpr
			if req.Where != nil {
				if where, err = req.Where(c.Measurement, sh.fieldsOf(c.Measurement)); err != nil {
					return moved, fmt.Errorf("shard %d: %w", sh.id, err)
				}
			}
			for id, x := range sh.series {
				key := t.keys[id-1]
				to, _ := c.AppendKey(nil, key, nil)
				if x.measurement != c.Measurement || !where.Match(x.tags) || string(to) == key && !c.Fields() {
					continue
				}
				delete(sh.series, id)
				if !seen[id] {
					seen[id] = true
					moved.Series++
					if t.ids[string(to)] != 0 && !c.Fields() {
						moved.Merged++
					}
				}
				for at, values := range x.points {
					if v, ok := values[c.RenameField.From]; ok {
						delete(values, c.RenameField.From)
						values[c.RenameField.To] = v
					}
					s.putLocked(sh, t, string(to), at, values)
				}
			}
			if !slices.Contains(sh.measurements(), c.Measurement) {
				delete(sh.fields, c.Measurement)
			}
			if c.Fields() {
				delete(sh.fields[c.Measurement], c.RenameField.From)
			}
		}
	}
	return moved, nil
}

// Write stores line protocol. rp "" is the default policy. A point whose field
// types conflict with those of its shard is dropped, and so is a line that does
// not parse.
func (s *Store) Write(t testing.TB, db, rp, precision, lines string) {
	t.Helper()
	d := s.Catalog().Database(db)
	if d == nil {
		t.Fatalf("no database %q", db)
	}
	unit, err := lineproto.Unit(precision, false)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	series := s.tableLocked(d.ID).series
	s.mu.Unlock()
	var p lineproto.Parser
	b := point.Batch{Database: series.Database()}
	if _, err := p.Parse(&b, series, []byte(lines), lineproto.Options{Unit: unit}); err != nil {
		t.Logf("write: %v", err)
	}
	for i := range b.Rows {
		r := &b.Rows[i]
		values := map[string]Value{}
		for j, f := range r.Layout.Fields {
			v := Value{Type: f.Type, Bits: b.Values[int(r.First)+j]}
			if f.Type == model.String {
				v = Value{Type: f.Type, Text: string(column.StringAt(v.Bits, b.Strings))}
			}
			values[f.Key] = v
		}
		s.Put(db, rp, r.Series.Key(), r.Time, values)
	}
}

func (s *Store) tableLocked(database uint32) *table {
	t := s.tables[database]
	if t == nil {
		t = &table{series: point.NewTable(database), ids: map[string]model.SeriesID{}}
		s.tables[database] = t
	}
	return t
}

// Put stores a point, unless its field types conflict with those of its shard.
func (s *Store) Put(db, rp, key string, at int64, values map[string]Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh, err := s.shardLocked(db, rp, at, true)
	if err != nil {
		panic(err)
	}
	s.putLocked(sh, s.tableLocked(s.data.Database(db).ID), key, at, values)
}

func (s *Store) putLocked(sh *shard, t *table, key string, at int64, values map[string]Value) {
	id := t.ids[key]
	if id == 0 {
		t.keys = append(t.keys, key)
		id = model.SeriesID(len(t.keys))
		t.ids[key] = id
	}
	name, tags := model.ParseSeriesKey(key, nil)
	types := sh.fields[name]
	if types == nil {
		types = map[string]model.FieldType{}
		sh.fields[name] = types
	}
	for k, v := range values {
		if t := types[k]; t != model.Unknown && t != v.Type {
			return
		}
	}
	x := sh.series[id]
	if x == nil {
		x = &series{measurement: name, tags: tags, points: map[int64]map[string]Value{}}
		sh.series[id] = x
	}
	x.order, x.chunks = nil, nil
	if x.points[at] == nil {
		x.points[at] = map[string]Value{}
	}
	for k, v := range values {
		types[k] = v.Type
		x.points[at][k] = v
	}
}

// shardLocked returns the shard that holds a time. It returns nil if there is
// none and create is false.
func (s *Store) shardLocked(db, rp string, at int64, create bool) (*shard, error) {
	policy, err := s.data.RetentionPolicy(db, rp)
	if err != nil {
		return nil, err
	}
	g := policy.ShardGroupAt(at)
	if g == nil {
		if !create {
			return nil, nil
		}
		if err := s.applyLocked(meta.CreateShardGroup{Database: db, RetentionPolicy: rp, Time: at}); err != nil {
			return nil, err
		}
		return s.shardLocked(db, rp, at, create)
	}
	id := g.Shards[0].ID
	if s.shards[id] == nil && create {
		s.shards[id] = &shard{
			id: id, times: g.TimeRange(),
			fields: map[string]map[string]model.FieldType{}, series: map[model.SeriesID]*series{},
		}
	}
	return s.shards[id], nil
}

// FieldType returns the type of a field in the shard that holds a time, or
// Unknown.
func (s *Store) FieldType(db, rp, measurement, field string, at int64) (model.FieldType, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh, err := s.shardLocked(db, rp, at, false)
	if sh == nil {
		return model.Unknown, err
	}
	return sh.fields[measurement][field], nil
}

// View implements scan.Storage.
func (s *Store) View(db, rp string, r model.TimeRange) (scan.View, error) {
	v, err := s.view(db, rp, r)
	if err != nil {
		return nil, err
	}
	return scan.Whole(v, r)
}

// Partial implements scan.Storage.
func (s *Store) Partial() scan.Storage { return scan.PartialViews(s.view) }

func (s *Store) view(db, rp string, r model.TimeRange) (scan.View, error) {
	if s.Viewing != nil {
		s.Viewing()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	policy, err := s.data.RetentionPolicy(db, rp)
	if err != nil {
		return nil, err
	}
	v := &view{store: s, data: s.data, table: s.tableLocked(s.data.Database(db).ID)}
	for _, g := range policy.ShardGroupsIn(r) {
		if sh := s.shards[g.Shards[0].ID]; sh != nil {
			v.shards = append(v.shards, &shardView{shard: sh, store: s})
		}
	}
	s.views++
	return v, nil
}
