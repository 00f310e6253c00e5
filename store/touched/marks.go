package touched

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"path"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
)

// maxKeys is how many series of a delete are looked up for their measurements. A delete
// of more touches all measurements.
const maxKeys = 1 << 14

// Marks are the touched windows of all downsamples.
type Marks struct {
	fs     vfs.FS
	name   string // of the file
	logger *slog.Logger

	setAside func(name string, why error) error

	// places has the shards of sources and targets. It is replaced, never changed; nil if
	// there are no downsamples.
	places atomic.Pointer[map[uint64]place]

	mu          sync.Mutex
	data        *meta.Data // that the downsamples are of
	downsamples map[uint64]*downsample
	gone        map[uint64]*downsample // that were dropped and whose targets have rows: of these Lost is known
	dirty       bool                   // the file lacks something

	saving sync.Mutex // held while the file is written
}

// place is a shard of the source or the target of downsamples.
type place struct {
	roles []role
	group model.TimeRange
}

// role is what a shard is to a downsample.
type role struct {
	*downsample
	target bool // else it is of the source
}

// Span is a range of windows [From, To) that are to be computed.
type Span struct {
	Measurement string // "": all measurements
	From, To    int64
}

// Open reads the marks in the directory of the catalog. What the file does not have, or
// a file that is damaged or of another data directory, is made up for by marks for all
// that there is. Such a file goes to setAside, by its name in the directory. sequence is that
// of the last entry that the log does not give again: windows that were computed before it may
// lack its rows.
func Open(fs vfs.FS, dir string, data *meta.Data, sequence uint64, logger *slog.Logger, setAside func(name string, why error) error) *Marks {
	m := &Marks{fs: fs, name: path.Join(dir, Name), logger: logger, setAside: setAside, downsamples: map[uint64]*downsample{}}
	m.read(data.Lineage)
	m.After(sequence, data)
	return m
}

// Write marks the windows of rows that an entry brings to a shard.
func (m *Marks) Write(sequence, shard uint64, rows []point.Row) {
	p := m.place(shard)
	if p == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range p.roles {
		r.write(sequence, r.target, rows)
	}
	m.dirty = true
}

// place returns what a shard is to downsamples, nil if it is nothing.
func (m *Marks) place(shard uint64) *place {
	places := m.places.Load()
	if places == nil {
		return nil
	}
	if p, ok := (*places)[shard]; ok {
		return &p
	}
	return nil
}

// Delete marks the windows that an entry deletes rows from. key returns the key of a
// series.
func (m *Marks) Delete(sequence, shard uint64, set *roaring.Bitmap, r model.TimeRange, key func(model.SeriesID) (string, error)) {
	p := m.place(shard)
	if p == nil {
		return
	}
	r = model.TimeRange{Min: max(r.Min, p.group.Min), Max: min(r.Max, p.group.Max)}
	if r.Empty() {
		return
	}
	names := measurementsOf(set, key)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		p.touch(sequence, name, r)
	}
	m.dirty = true
}

// Shard marks all windows of a shard for some measurements, "" for all. It is for rows
// that come without the log, and for series that get other names.
func (m *Marks) Shard(sequence, shard uint64, measurements ...string) {
	p := m.place(shard)
	if p == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range measurements {
		p.touch(sequence, name, p.group)
	}
	m.dirty = true
}

// measurementsOf returns the measurements of series, or "" for all.
func measurementsOf(set *roaring.Bitmap, key func(model.SeriesID) (string, error)) []string {
	if set.GetCardinality() > maxKeys {
		return []string{""}
	}
	names := map[string]bool{}
	for it := set.Iterator(); it.HasNext(); {
		k, err := key(model.SeriesID(it.Next()))
		if err != nil {
			return []string{""}
		}
		names[model.SeriesMeasurement(k)] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Touch marks the windows of a range for one measurement of a policy, "" for all. It is
// for entries that change rows in another way than Write and Delete.
func (m *Marks) Touch(sequence uint64, database, policy, measurement string, r model.TimeRange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	db := m.data.Database(database)
	if db == nil || r.Empty() {
		return
	}
	for _, d := range db.Downsamples {
		if policy == d.From || policy == d.Into {
			m.downsamples[d.ID].touch(sequence, policy == d.Into, measurement, r)
			m.dirty = true
		}
	}
	if rp := db.RetentionPolicy(policy); rp != nil && rp.Downsampled != nil {
		if t := m.gone[rp.Downsampled.ID]; t != nil {
			t.lost = sequence
		}
	}
}

// Before comes before a change of the catalog is applied to data. What is not in the
// catalog when it is opened must be marked here: the files may get the change before After.
func (m *Marks) Before(sequence uint64, cmd meta.Command, data *meta.Data) {
	switch c := cmd.(type) {
	case meta.DropShard:
		if at, ok := data.Shard(c.ID); ok {
			m.Touch(sequence, at.Database.Name, at.Policy.Name, "", at.Group.TimeRange())
		}
	case meta.DropShardGroup:
		policy, err := data.RetentionPolicy(c.Database, c.RetentionPolicy)
		if err != nil || c.IfDuration != 0 { // what is gone by its age stays in the downsample
			return
		}
		for _, g := range policy.ShardGroups {
			if g.ID == c.ID {
				m.Touch(sequence, c.Database, policy.Name, "", g.TimeRange())
			}
		}
	case meta.AlterRetentionPolicy:
		policy, err := data.RetentionPolicy(c.Database, c.Policy.Name)
		if err != nil || c.Policy.Duration == nil || !longer(*c.Policy.Duration, policy.Duration) {
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if d := data.Database(c.Database).Downsample(policy.Name); d != nil { // windows that the target did not keep were not computed
			m.downsamples[d.ID].touchAll(sequence)
			m.dirty = true
		}
	case meta.AlterDownsample:
		m.mu.Lock()
		defer m.mu.Unlock()
		change := c.Every > 0 || len(c.Add)+len(c.Drop) > 0
		if db := data.Database(c.Database); change && db != nil && db.Downsample(c.Into) != nil { // it is compared with the new definition
			m.downsamples[db.Downsample(c.Into).ID].touchAll(sequence)
			m.dirty = true
		}
	case meta.CompleteWindows:
		m.mu.Lock()
		defer m.mu.Unlock()
		if t := m.downsamples[c.ID]; t != nil {
			for i := range c.Windows {
				w := &c.Windows[i]
				t.complete(w, c.Sequence, w.Target)
				for _, name := range w.Except {
					t.put(name, span{from: w.From, to: w.To, source: c.Sequence})
				}
			}
			m.dirty = true
		}
	}
}

// After comes after the change of the catalog that made data. A downsample that it has
// created gets all windows of the shard groups that its source has.
func (m *Marks) After(sequence uint64, data *meta.Data) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if data == m.data {
		return
	}
	before := m.data
	m.data = data
	if before != nil && slices.EqualFunc(before.Databases, data.Databases, alike) {
		return
	}
	wanted := map[uint64]bool{}
	places := map[uint64]place{}
	for db, d := range data.Downsamples() {
		wanted[d.ID] = true
		t := m.downsamples[d.ID]
		fresh := t == nil
		if fresh {
			t = newDownsample(d)
			m.downsamples[d.ID] = t
		}
		changed := !reflect.DeepEqual(t.Definitions, d.Definitions) // also if it is from the file
		if t.Downsample = *d; changed {
			t.takes = d.Takes()
			t.align()
		}
		from := db.RetentionPolicy(d.From)
		t.cover(from)
		if had := policyBefore(before, db.Name, d.From); had != nil && had.Expired < from.Expired {
			// What the source has lost by its age stays in the target.
			t.complete(&meta.ComputedWindows{From: model.MinTime, To: t.floor}, math.MaxUint64, math.MaxUint64)
			m.dirty = true
		}
		if fresh {
			t.touchAll(sequence)
			m.dirty = true
		}
		for _, rp := range []*meta.RetentionPolicy{from, db.RetentionPolicy(d.Into)} {
			for _, g := range rp.ShardGroups {
				for _, sh := range g.Shards {
					places[sh.ID] = place{append(slices.Clip(places[sh.ID].roles), role{t, rp != from}), g.TimeRange()}
				}
			}
		}
	}
	had := m.gone
	m.gone = map[uint64]*downsample{}
	for _, db := range data.Databases {
		for d, gone := range db.Makers() {
			if !gone {
				continue
			}
			t := had[d.ID]
			if t == nil {
				t = newDownsample(d)
			}
			m.gone[d.ID] = t
			for _, g := range db.RetentionPolicy(d.Into).ShardGroups {
				for _, sh := range g.Shards {
					places[sh.ID] = place{append(slices.Clip(places[sh.ID].roles), role{t, true}), g.TimeRange()}
				}
			}
		}
	}
	for id := range m.downsamples {
		if !wanted[id] {
			delete(m.downsamples, id)
			m.dirty = true
		}
	}
	if len(wanted)+len(m.gone) == 0 {
		m.places.Store(nil)
		return
	}
	m.places.Store(&places)
}

// alike reports whether a change of a database has left alone what marks are made of: its
// policies, and its downsamples except for what is counted of them.
func alike(before, after *meta.Database) bool {
	return before == after || slices.Equal(before.RetentionPolicies, after.RetentionPolicies) &&
		slices.EqualFunc(before.Downsamples, after.Downsamples, func(a, b meta.Downsample) bool {
			a.Computed = b.Computed
			return reflect.DeepEqual(a, b)
		})
}

// policyBefore returns a policy as it was before a change, nil if it was not there.
func policyBefore(before *meta.Data, database, policy string) *meta.RetentionPolicy {
	if before == nil || before.Database(database) == nil {
		return nil
	}
	return before.Database(database).RetentionPolicy(policy)
}

// longer reports whether a policy keeps rows for longer than before. 0 is for ever.
func longer(now, before time.Duration) bool { return before > 0 && (now == 0 || now > before) }

// touch marks the windows of a range.
func (p *place) touch(sequence uint64, measurement string, r model.TimeRange) {
	for _, of := range p.roles {
		of.touch(sequence, of.target, measurement, r)
	}
}

// Waiting returns the windows of a downsample that are to be computed and end at before
// or earlier: spans of measurements, the earliest first, and then the earliest span of
// all measurements.
func (m *Marks) Waiting(id uint64, before int64) []Span {
	m.mu.Lock()
	found, whole := m.waitingLocked(id, before)
	m.mu.Unlock()
	// Writers do not wait for this.
	slices.SortFunc(found, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Measurement, b.Measurement))
	})
	return append(found, whole[:min(1, len(whole))]...)
}

// waitingLocked returns the spans of measurements, and those of all measurements in order
// of time.
func (m *Marks) waitingLocked(id uint64, before int64) (found, whole []Span) {
	t := m.downsamples[id]
	if t == nil {
		return nil, nil
	}
	found = make([]Span, 0, len(t.marks))
	for name, s := range t.marks {
		if name == "" {
			whole = s.appendUpTo(nil, name, before)
		} else {
			found = s.appendUpTo(found, name, before)
		}
	}
	return found, whole
}

// Expirable returns an error if a shard group must outlive its age: a window that needs
// its rows is to be computed. The downsample could not get these rows any more.
// Nothing may be written meanwhile.
func (m *Marks) Expirable(c meta.DropShardGroup, data *meta.Data) error {
	db := data.Database(c.Database)
	policy, err := data.RetentionPolicy(c.Database, c.RetentionPolicy)
	if db == nil || err != nil {
		return err
	}
	i := slices.IndexFunc(policy.ShardGroups, func(g *meta.ShardGroup) bool { return g.ID == c.ID })
	if i < 0 {
		return nil
	}
	end := policy.ShardGroups[i].End
	for _, d := range db.Downsamples {
		if d.From != policy.Name {
			continue
		}
		free := d.Free(end)
		if first := m.First(d.ID, free); first < free {
			return fmt.Errorf("%w: from %s into %s, from %s on", meta.ErrDownsampleWaits, d.From, d.Into, time.Unix(0, first).UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// First returns the start of the earliest window of a downsample that is to be computed, end
// at most. It holds the shard groups of the source that end after it.
func (m *Marks) First(id uint64, end int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.downsamples[id]; t != nil {
		return t.first(end)
	}
	return end
}

// Until returns the start of the earliest window of a measurement that is to be computed,
// end at most.
func (m *Marks) Until(id uint64, measurement string, end int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.downsamples[id]
	if t == nil {
		return model.MinTime
	}
	for of := t; of != nil; of = m.sourceOf(of) { // windows of aggregates need all of them
		end = t.Start(min(of.marks[""].first(end), of.marks[measurement].first(end)))
	}
	return end
}

// sourceOf returns the downsample that makes the rows of which those of t are, nil if there is
// none.
func (m *Marks) sourceOf(t *downsample) *downsample {
	if !t.Folds {
		return nil
	}
	for db, d := range m.data.Downsamples() {
		if d.ID == t.ID {
			if from := db.Downsample(d.From); from != nil {
				return m.downsamples[from.ID]
			}
		}
	}
	return nil
}

// Lost returns the sequence of the last entry that touched rows of the target which cannot be
// computed again, other than by staging rows; 0 if there was none since the start.
func (m *Marks) Lost(id uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := cmp.Or(m.downsamples[id], m.gone[id]); t != nil {
		return t.lost
	}
	return 0
}

// State sums up the windows of a downsample that are to be computed.
type State struct {
	Windows  int64 // of measurements
	Earliest int64 // start of the earliest, of the downsamples that make the source as well, or what State was asked with
	// Whole is how many windows are to be computed for all measurements.
	Whole int64
}

// State returns what is waiting of a downsample, of windows that end at before or earlier.
func (m *Marks) State(id uint64, before int64) State {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := State{Earliest: before}
	t := m.downsamples[id]
	if t == nil {
		return state
	}
	found, whole := m.waitingLocked(id, before)
	for _, list := range [][]Span{found, whole} {
		for _, sp := range list {
			n := t.Windows(sp.From, sp.To)
			state.Windows += n
			state.Earliest = min(state.Earliest, sp.From)
			if sp.Measurement == "" {
				state.Whole += n
			}
		}
	}
	for of := m.sourceOf(t); of != nil; of = m.sourceOf(of) {
		state.Earliest = t.Start(of.first(state.Earliest))
	}
	return state
}
