package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/wal/entry"
)

// Write makes the points of a batch durable and readable. Points that cannot
// be stored are dropped, and a *point.PartialWriteError says so; all others are
// durable then. Any other error means that nothing of the batch was stored.
// The batch is the caller's again when Write returns.
func (s *Store) Write(ctx context.Context, database, policy string, b *point.Batch) error {
	if len(b.Rows) == 0 {
		return nil
	}
	size := int64(len(b.Values)+2*len(b.Rows))*8 + int64(len(b.Strings))
	if !s.admit(size) {
		return s.refuseRows(len(b.Rows))
	}
	defer s.memory.reserved.Add(-size)
	if err := ctx.Err(); err != nil {
		return err
	}
	takeBack := func() {}
	defer func() { takeBack() }() // without the gate
	s.gate.RLock()
	defer s.gate.RUnlock()
	if err := s.writable(); err != nil {
		return err
	}
	db, err := s.database(database)
	if err != nil {
		return err
	}
	if b.Database != db.id {
		// The database was dropped and made again since the parse.
		return fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, database)
	}
	r := router{s: s, db: db, database: database, batch: b, now: s.opt.Now().UnixNano(), full: db.cardinality.Full.Load()}
	if r.policy, err = s.catalog.Data().RetentionPolicy(database, policy); err != nil {
		return err
	}
	defer func() {
		r.release()
		s.rows.Give(r.taken)
	}()
	if err := r.route(ctx); err != nil {
		if errors.Is(err, errNoRoomForKeys) {
			return s.refuseRows(len(b.Rows))
		}
		s.counters.Failed.Add(int64(len(b.Rows)))
		return s.refusal(err)
	}
	if len(r.targets) > 0 {
		var e entry.Entry
		for i := range r.targets {
			if t := &r.targets[i]; len(t.rows) > 0 {
				e.Writes = append(e.Writes, entry.Write{Database: db.id, Shard: t.shard.ID(), Rows: t.rows, Values: b.Values, Strings: b.Strings})
			}
		}
		if len(e.Writes) > 0 {
			if err := s.log.Append(&e); err != nil {
				if len(r.newcomers.series) > 0 {
					db.refused.Lock()
					db.refused.list = append(db.refused.list, r.newcomers.series...)
					db.refused.Unlock()
					if !errors.Is(err, ErrNotLeader) { // else Retire does it
						takeBack = func() { s.takeBack(db) }
					}
				}
				s.counters.Failed.Add(int64(len(b.Rows)))
				return s.refusal(err)
			}
			s.space.Passed()
		}
	}
	s.counters.Points.Add(int64(len(b.Rows) - r.dropped))
	s.counters.Values.Add(int64(len(b.Values)))
	s.counters.Dropped.Add(int64(r.dropped))
	s.counters.Over.Add(int64(r.over))
	if r.over > 0 && !db.cardinality.Told.Swap(true) {
		s.logger.Warn("a limit of cardinality is reached, new series are refused", "db", database)
	}
	if r.reason != "" {
		return &point.PartialWriteError{Reason: r.reason, Dropped: r.dropped, Database: database, RetentionPolicy: r.policy.Name}
	}
	return nil
}

// refuseRows refuses a write of n rows for which there is no memory.
func (s *Store) refuseRows(n int) error {
	s.counters.Refused.Add(int64(n))
	wake(s.wakeFlush)
	return s.overloaded()
}

// admit reserves memory for a write and reports whether there is room.
func (s *Store) admit(size int64) bool {
	if s.held()+s.memory.reserved.Add(size) > s.opt.CacheBytes {
		s.memory.reserved.Add(-size)
		return false
	}
	return true
}

// router splits a batch by shard and drops what may not be stored.
type router struct {
	s        *Store
	db       *database
	database string
	policy   *meta.RetentionPolicy
	batch    *point.Batch
	now      int64

	targets []target
	first   []*checked            // layouts met, the first few
	checked map[layoutIn]*checked // and the others
	fresh   bool                  // some layout has fields that its shard does not know
	late    []int                 // rows outside of the policy's times, by place in the batch
	again   bool                  // the second pass: all targets are known
	full    bool                  // the database has no room for new series
	tally
	newcomers newcomers
	taken     []point.Row // of Store.rows
}

// tally is what a write reports of its dropped rows.
type tally struct {
	reason  string // the first
	dropped int
	over    int // of dropped, those of new series for which there is no room
}

// layoutIn is a layout in a target.
type layoutIn struct {
	layout *point.Layout
	target int
}

// target is the part of the batch that goes to one shard.
type target struct {
	shard  *shardEntry
	bounds model.TimeRange
	rows   []point.Row
}

// checked is what is known of a layout in a target's shard.
type checked struct {
	layout  *point.Layout
	target  int
	use     *point.Layout // layout without the field "time", nil: drop
	fresh   bool          // the shard does not know all its fields
	reason  string
	strings bool
	stripAt int // position of the field "time", -1
}

// drop refuses one row for good.
func (t *tally) drop(reason string) {
	if t.reason == "" {
		t.reason = reason
	}
	t.dropped++
}

// route fills targets.
func (r *router) route(ctx context.Context) error {
	if err := r.pass(); err != nil {
		return err
	}
	if !r.policy.Limited() && slices.ContainsFunc(r.late, func(i int) bool { return r.find(r.batch.Rows[i].Time) >= 0 }) {
		// A row that is too old is stored after all, as InfluxDB does, where
		// rows of the same batch have opened its shard group. It must keep its
		// place among them, for the last of equal times wins, so the rows are
		// gone through again.
		for i := range r.targets {
			r.targets[i].rows = r.targets[i].rows[:0]
		}
		r.again, r.late, r.tally = true, nil, tally{}
		if err := r.pass(); err != nil {
			return err
		}
	}
	for range r.late {
		r.drop("points beyond retention policy")
	}
	return r.register(ctx)
}

// pass sends every row to its target, to late, or drops it.
func (r *router) pass() error {
	rows := r.batch.Rows
	floor, ceiling := r.policy.Window(r.now)
	cur := -1
	var last *checked
	for i := range rows {
		row := &rows[i]
		inside := cur >= 0 && r.targets[cur].bounds.Contains(row.Time)
		if row.Time < floor || row.Time > ceiling {
			if r.again && !inside {
				if cur = r.find(row.Time); cur >= 0 {
					inside, last = true, nil
				}
			}
			if !r.again || !inside {
				r.late = append(r.late, i)
				continue
			}
		}
		if !inside {
			next, err := r.target(i, floor, ceiling)
			if err != nil {
				return err
			}
			cur, last = next, nil
		}
		if r.full && !r.db.knownSeries(row.Series) {
			r.over++
			r.drop(r.db.cardinality.SeriesReason())
			continue
		}
		if last == nil || last.layout != row.Layout {
			last = r.check(row.Layout, cur)
		}
		if last.use != last.layout || last.strings || row.Series.ID() == 0 {
			var ok bool
			if row, ok = r.inspect(row, last); !ok {
				continue
			}
		}
		t := &r.targets[cur]
		t.rows = append(t.rows, *row)
	}
	return nil
}

// find returns the place of the target that holds time, or -1.
func (r *router) find(t int64) int {
	return slices.IndexFunc(r.targets, func(g target) bool { return g.bounds.Contains(t) })
}

// target returns the place of the shard that holds the time of row i, making
// the shard group if there is none.
func (r *router) target(i int, floor, ceiling int64) (int, error) {
	t := r.batch.Rows[i].Time
	if n := r.find(t); n >= 0 {
		return n, nil
	}
	g := r.policy.ShardGroupAt(t)
	if g == nil {
		if err := r.makeGroups(i, floor, ceiling); err != nil {
			return 0, err
		}
		if g = r.policy.ShardGroupAt(t); g == nil {
			return 0, fmt.Errorf("create shard group for %s: none holds the time", time.Unix(0, t).UTC())
		}
	}
	e, err := r.s.shardOf(r.db, g)
	if err != nil {
		return 0, err
	}
	next := target{shard: e, bounds: g.TimeRange()}
	if len(r.targets) == 0 {
		next.rows = r.s.rows.Take(len(r.batch.Rows) - i) // most batches are for one shard
		r.taken = next.rows
	}
	r.targets = append(r.targets, next)
	return len(r.targets) - 1, nil
}

// makeGroups makes the shard groups that the rows from the i-th on lack, in
// one change of the catalog: each is an entry of the log, and a batch of old data
// may need hundreds.
func (r *router) makeGroups(i int, floor, ceiling int64) error {
	times := r.policy.GroupsMissing(func(yield func(int64) bool) {
		for _, row := range r.batch.Rows[i:] {
			if row.Time >= floor && row.Time <= ceiling && !yield(row.Time) {
				return
			}
		}
	})
	err := r.s.submit(meta.CreateShardGroups{Database: r.database, RetentionPolicy: r.policy.Name, Times: times})
	if err != nil {
		return fmt.Errorf("create shard group: %w", err)
	}
	r.policy, err = r.s.catalog.Data().RetentionPolicy(r.database, r.policy.Name)
	return err
}

// check looks a layout up in a target's shard, and leaves no trace there.
func (r *router) check(l *point.Layout, target int) *checked {
	for _, c := range r.first {
		if c.layout == l && c.target == target {
			return c
		}
	}
	if c := r.checked[layoutIn{l, target}]; c != nil {
		return c
	}
	c := &checked{layout: l, target: target, use: l, stripAt: -1}
	for i, f := range l.Fields {
		if f.Type == model.String {
			c.strings = true
		}
		if f.Key == "time" {
			c.stripAt = i
			c.reason = fmt.Sprintf("invalid field name: input field %q on measurement %q is invalid", "time", l.Measurement)
			if len(l.Fields) == 1 {
				c.use = nil
				break
			}
			c.reason += `. Field "time" has been stripped from point.`
			c.use = r.db.table.Load().Layout(l.Measurement, slices.Delete(slices.Clone(l.Fields), i, i+1))
		}
	}
	if c.use != nil {
		fresh, conflicts := r.targets[target].shard.CheckFields(c.use)
		c.fresh = fresh
		r.fresh = r.fresh || fresh
		if len(conflicts) > 0 {
			c.use, c.reason = nil, conflicts[0].Reason(l.Measurement)
		}
	}
	if len(r.first) < 16 {
		r.first = append(r.first, c)
		return c
	}
	if r.checked == nil {
		r.checked = map[layoutIn]*checked{}
	}
	r.checked[layoutIn{l, target}] = c
	return c
}

// inspect handles rows outside the common case. It returns the row to store,
// or false when it was dropped.
func (r *router) inspect(row *point.Row, c *checked) (*point.Row, bool) {
	if row.Series.ID() == 0 {
		if problem := model.ReservedTag(row.Series.Key(), row.Layout.Measurement); problem != "" {
			r.drop(problem)
			return nil, false
		}
	}
	if c.use == nil {
		r.drop(c.reason)
		return nil, false
	}
	if c.strings {
		for i, f := range c.layout.Fields {
			if f.Type != model.String {
				continue
			}
			if n := len(column.StringAt(r.batch.Values[int(row.First)+i], r.batch.Strings)); n > column.MaxStringLength {
				r.drop(fmt.Sprintf("input field %q on measurement %q is too long, %d > %d", f.Key, c.layout.Measurement, n, column.MaxStringLength))
				return nil, false
			}
		}
	}
	if c.stripAt < 0 {
		return row, true
	}
	if r.reason == "" {
		r.reason = c.reason
	}
	out := point.Row{Series: row.Series, Layout: c.use, Time: row.Time, First: uint32(len(r.batch.Values))}
	for i := range c.layout.Fields {
		if i != c.stripAt {
			r.batch.Values = append(r.batch.Values, r.batch.Values[int(row.First)+i])
		}
	}
	return &out, true
}

// shardOf returns the shard of a group, made if needed.
func (s *Store) shardOf(db *database, g *meta.ShardGroup) (*shardEntry, error) {
	id := g.Shards[0].ID
	if e := s.shard(id); e != nil {
		return e, nil
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if e := s.shard(id); e != nil {
		return e, nil
	}
	e, err := s.openShard(db, id, g)
	if err != nil {
		return nil, err
	}
	s.opened(e)
	// The gate, which the caller holds, keeps drops and Close out.
	s.mu.Lock()
	s.mu.shards[id] = e
	s.mu.Unlock()
	return e, nil
}
