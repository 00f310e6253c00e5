package route

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/series"
	"tsdbd/shard"
	"tsdbd/store/cardinality"
)

// Store is what a Router needs of the store.
type Store interface {
	// Shard returns the shard of a group, made if needed.
	Shard(g *meta.ShardGroup) (*shard.Shard, error)
	// Shards returns the open shards of the database.
	Shards() []*shard.Shard
	// MakeGroups makes the shard groups that hold some times, and returns the policy with
	// them.
	MakeGroups(policy string, times []int64) (*meta.RetentionPolicy, error)
	// Reserve takes memory for what shards get to know of the batch, ReserveKeys for the keys
	// of its new series, until the write ends. Their errors end Route.
	Reserve(bytes int64) error
	ReserveKeys(bytes int64) error
}

// Router splits a batch by shard and drops what may not be stored. All fields above
// Targets are required.
type Router struct {
	Store  Store
	Batch  *point.Batch
	Policy *meta.RetentionPolicy
	Now    int64
	Pool   *point.RowPool
	Table  func() *point.Table // of the database
	// What the store has of the database.
	Database string // its name
	Series   *series.File
	Counter  *cardinality.Counter
	// ValidateKeys drops rows whose series has a key that is not printable.
	ValidateKeys bool
	// Staging drops rows of measurements that moves stage rows in: the policy is the target of
	// a downsample, and the rows are those of a client.
	Staging bool

	Targets []Target
	Claims  []*point.Series // those with an id that is a claim
	Tally

	newcomers newcomers
	fresh     bool                 // some layout has fields that its shard does not know
	full      bool                 // no new series has room
	first     []*Layout            // layouts seen, the first few
	checked   map[layoutIn]*Layout // and the others
	late      []int                // rows outside of the policy's times, by place in the batch
	owed      int64                // bytes to reserve
	again     bool                 // the second pass: all targets are known
	taken     []point.Row          // of Pool
}

// Release ends the write's hold on its new fields and series, and gives the rows of the
// targets back to the pool.
func (r *Router) Release() {
	r.giveBack()
	r.Pool.Give(r.taken)
}

// Tally is what a write reports of its dropped rows.
type Tally struct {
	Reason  string // the first
	Dropped int
	Over    int // of Dropped, those of new series for which there is no room
}

// layoutIn is a layout in a target.
type layoutIn struct {
	layout *point.Layout
	target int
}

// Target is the part of the batch that goes to one shard.
type Target struct {
	Shard  *shard.Shard
	Rows   []point.Row
	bounds model.TimeRange
}

// Layout is what is known of a layout in the shard of a target.
type Layout struct {
	*point.Layout
	Use    *point.Layout // without the field "time", nil: drop
	Fresh  bool          // the shard does not know all its fields
	Reason string        // to drop rows, or for the field "time"

	target  int
	strings bool
	stripAt int // position of the field "time", -1
}

// What a layout costs a shard until its rows are in files, about, and what it costs in
// addition as the first of its measurement: its place in the index of the shard.
const (
	layoutBytes = 300
	freshBytes  = 1700
)

// reserveBytes is for how much a Router asks at once.
const reserveBytes = 256 << 10

// Drop refuses one row for good.
func (t *Tally) Drop(reason string) {
	if t.Reason == "" {
		t.Reason = reason
	}
	t.Dropped++
}

// reserve reserves what is owed.
func (r *Router) reserve() error {
	owed := r.owed
	r.owed = 0
	return r.Store.Reserve(owed)
}

// Route fills Targets with the rows that are to be stored, and gives ids to their series.
func (r *Router) Route(ctx context.Context) error {
	r.full = r.Counter.Full.Load()
	if err := r.fill(); err != nil {
		return err
	}
	if err := r.reserve(); err != nil {
		return err
	}
	return r.register(ctx)
}

func (r *Router) fill() error {
	if err := r.pass(); err != nil {
		return err
	}
	if !r.Policy.Limited() && slices.ContainsFunc(r.late, func(i int) bool { return r.find(r.Batch.Rows[i].Time) >= 0 }) {
		// A row that is too old is stored after all, as InfluxDB does, where
		// rows of the same batch have opened its shard group. It must keep its
		// place among them, for the last of equal times wins, so the rows are
		// gone through again.
		for i := range r.Targets {
			r.Targets[i].Rows = r.Targets[i].Rows[:0]
		}
		r.again, r.late, r.Tally = true, nil, Tally{}
		if err := r.pass(); err != nil {
			return err
		}
	}
	for range r.late {
		r.Drop("points beyond retention policy")
	}
	return nil
}

// pass sends every row to its target, to late, or drops it.
func (r *Router) pass() error {
	rows := r.Batch.Rows
	floor, ceiling := r.Policy.Window(r.Now)
	cur := -1
	var last *Layout
	for i := range rows {
		row := &rows[i]
		inside := cur >= 0 && r.Targets[cur].bounds.Contains(row.Time)
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
		if r.ValidateKeys && !model.ValidKey(row.Series.Key()) {
			r.Drop(fmt.Sprintf("key contains invalid unicode: %q", row.Series.Key()))
			continue
		}
		if r.full && !r.known(row.Series) {
			r.Over++
			r.Drop(r.Counter.SeriesReason())
			continue
		}
		if last == nil || last.Layout != row.Layout {
			last = r.Check(row.Layout, cur)
			if r.owed >= reserveBytes {
				if err := r.reserve(); err != nil {
					return err
				}
			}
		}
		if last.Use != last.Layout || last.strings || row.Series.ID() == 0 {
			var ok bool
			if row, ok = r.inspect(row, last); !ok {
				continue
			}
		}
		t := &r.Targets[cur]
		t.Rows = append(t.Rows, *row)
	}
	return nil
}

// find returns the place of the target that holds time, or -1.
func (r *Router) find(t int64) int {
	return slices.IndexFunc(r.Targets, func(g Target) bool { return g.bounds.Contains(t) })
}

// target returns the place of the shard that holds the time of row i, making
// the shard group if there is none.
func (r *Router) target(i int, floor, ceiling int64) (int, error) {
	t := r.Batch.Rows[i].Time
	if n := r.find(t); n >= 0 {
		return n, nil
	}
	g := r.Policy.ShardGroupAt(t)
	if g == nil {
		if err := r.makeGroups(i, floor, ceiling); err != nil {
			return 0, err
		}
		if g = r.Policy.ShardGroupAt(t); g == nil {
			return 0, fmt.Errorf("create shard group for %s: none holds the time", time.Unix(0, t).UTC())
		}
	}
	e, err := r.Store.Shard(g)
	if err != nil {
		return 0, err
	}
	next := Target{Shard: e, bounds: g.TimeRange()}
	if len(r.Targets) == 0 {
		next.Rows = r.Pool.Take(len(r.Batch.Rows) - i) // most batches are for one shard
		r.taken = next.Rows
	}
	r.Targets = append(r.Targets, next)
	return len(r.Targets) - 1, nil
}

// makeGroups creates all shard groups that rows[i:] need with one change of the
// catalog. A batch of old data can need hundreds, and each change is a log entry.
func (r *Router) makeGroups(i int, floor, ceiling int64) error {
	times := r.Policy.GroupsMissing(func(yield func(int64) bool) {
		for _, row := range r.Batch.Rows[i:] {
			if row.Time >= floor && row.Time <= ceiling && !yield(row.Time) {
				return
			}
		}
	})
	policy, err := r.Store.MakeGroups(r.Policy.Name, times)
	if err == nil {
		r.Policy = policy
	}
	return err
}

// Check looks a layout up in the shard of a target, and leaves no trace there.
func (r *Router) Check(l *point.Layout, target int) *Layout {
	for _, c := range r.first {
		if c.Layout == l && c.target == target {
			return c
		}
	}
	if c := r.checked[layoutIn{l, target}]; c != nil {
		return c
	}
	c := &Layout{Layout: l, target: target, Use: l, stripAt: -1}
	for i, f := range l.Fields {
		if f.Type == model.String {
			c.strings = true
		}
		if f.Key == "time" {
			c.stripAt = i
			c.Reason = fmt.Sprintf("invalid field name: input field %q on measurement %q is invalid", "time", l.Measurement)
			if len(l.Fields) == 1 {
				c.Use = nil
				break
			}
			c.Reason += `. Field "time" has been stripped from point.`
			c.Use = r.Table().Layout(l.Measurement, slices.Delete(slices.Clone(l.Fields), i, i+1))
		}
	}
	if r.Staging && meta.Staged(l.Measurement) {
		c.Use, c.Reason = nil, meta.StagedReason(l.Measurement)
	}
	if c.Use != nil {
		fresh, conflicts := r.Targets[target].Shard.CheckFields(c.Use)
		c.Fresh = fresh
		r.fresh = r.fresh || fresh
		if r.owed += layoutBytes; fresh {
			r.owed += freshBytes
		}
		if len(conflicts) > 0 {
			c.Use, c.Reason = nil, conflicts[0].Reason(l.Measurement)
		}
	}
	if len(r.first) < 16 {
		r.first = append(r.first, c)
		return c
	}
	if r.checked == nil {
		r.checked = map[layoutIn]*Layout{}
	}
	r.checked[layoutIn{l, target}] = c
	return c
}

// inspect handles rows outside the common case. It returns the row to store,
// or false when it was dropped.
func (r *Router) inspect(row *point.Row, c *Layout) (*point.Row, bool) {
	if row.Series.ID() == 0 {
		if problem := model.ReservedTag(row.Series.Key(), row.Layout.Measurement); problem != "" {
			r.Drop(problem)
			return nil, false
		}
	}
	if c.Use == nil {
		r.Drop(c.Reason)
		return nil, false
	}
	if c.strings {
		for i, f := range c.Layout.Fields {
			if f.Type != model.String {
				continue
			}
			if n := len(column.StringAt(r.Batch.Values[int(row.First)+i], r.Batch.Strings)); n > column.MaxStringLength {
				r.Drop(fmt.Sprintf("input field %q on measurement %q is too long, %d > %d", f.Key, c.Layout.Measurement, n, column.MaxStringLength))
				return nil, false
			}
		}
	}
	if c.stripAt < 0 {
		return row, true
	}
	if r.Reason == "" {
		r.Reason = c.Reason
	}
	out := point.Row{Series: row.Series, Layout: c.Use, Time: row.Time, First: uint32(len(r.Batch.Values))}
	for i := range c.Layout.Fields {
		if i != c.stripAt {
			r.Batch.Values = append(r.Batch.Values, r.Batch.Values[int(row.First)+i])
		}
	}
	return &out, true
}
