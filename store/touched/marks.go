package touched

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"path"
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

// maxSpans is how many spans a downsample may have: some 3 MB. With more, spans of a
// measurement are joined, and then those of all measurements.
const maxSpans = 1 << 16

// maxKeys is how many series of a delete are looked up for their measurements. A delete
// of more touches all measurements.
const maxKeys = 1 << 14

// Marks are the touched windows of all downsamples.
type Marks struct {
	fs     vfs.FS
	name   string // of the file
	logger *slog.Logger

	// places has the shards of sources and targets. It is replaced, never changed; nil if
	// there are no downsamples.
	places atomic.Pointer[map[uint64]place]

	mu          sync.Mutex
	data        *meta.Data // that the downsamples are of
	downsamples map[uint64]*downsample
	dirty       bool // the file lacks something

	saving sync.Mutex // held while the file is written
}

// place is a shard of the source or the target of downsamples.
type place struct {
	downsamples []*downsample
	group       model.TimeRange
	// target says that the shard is of the target. covered are then the windows for
	// which the source has shard groups, in order: what is touched elsewhere cannot be
	// computed, and stays as it is.
	target  bool
	covered []window
}

// downsample has the touched windows of a downsample.
type downsample struct {
	meta.Downsample
	source set // windows whose rows in the source have changed
	target set // windows whose rows in the target have changed
	// seen is scratch memory of write: the window that was touched last by rows of
	// each layout.
	seen map[*point.Layout]window
}

// window is a range of windows [from, to).
type window struct{ from, to int64 }

// Span is a range of windows [From, To) that are to be computed.
type Span struct {
	Measurement string // "": all measurements
	From, To    int64
}

// Open reads the marks in the directory of the catalog. What the file does not have, or
// a file that is damaged or of another data directory, is made up for by marks for all
// that there is. Such a file goes to setAside.
func Open(fs vfs.FS, dir string, data *meta.Data, logger *slog.Logger, setAside func(name string, why error) error) *Marks {
	m := &Marks{fs: fs, name: path.Join(dir, Name), logger: logger, downsamples: map[uint64]*downsample{}}
	m.read(data.Lineage, setAside)
	m.After(0, data)
	return m
}

func newDownsample(d *meta.Downsample) *downsample {
	return &downsample{Downsample: *d, source: newSet(), target: newSet(), seen: map[*point.Layout]window{}}
}

// Write marks the windows of rows that an entry brings to a shard.
func (m *Marks) Write(sequence, shard uint64, rows []point.Row) {
	p := m.place(shard)
	if p == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range p.downsamples {
		t.write(p, sequence, rows)
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
		p.touch(name, r, sequence)
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
		p.touch(name, p.group, sequence)
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
	for i := range db.Downsamples {
		d := &db.Downsamples[i]
		t := m.downsamples[d.ID]
		switch policy {
		case d.From:
			(&place{downsamples: []*downsample{t}}).touch(measurement, r, sequence)
		case d.Into:
			(&place{downsamples: []*downsample{t}, target: true, covered: t.covered(db)}).touch(measurement, r, sequence)
		default:
			continue
		}
		m.dirty = true
	}
}

// covered returns the windows for which the source has shard groups, in order.
func (t *downsample) covered(db *meta.Database) (out []window) {
	for _, g := range db.RetentionPolicy(t.From).ShardGroups {
		r := g.TimeRange()
		w := window{t.Start(r.Min), t.End(r.Max)}
		if n := len(out); n > 0 && w.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, w.to)
			continue
		}
		out = append(out, w)
	}
	return out
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
		db := data.Database(c.Database)
		if d := db.Downsample(policy.Name); d != nil { // windows that the target did not keep were not computed
			t := m.downsamples[d.ID]
			for _, w := range t.covered(db) {
				t.source.put("", w, sequence)
			}
			m.dirty = true
		}
	case meta.CompleteWindows:
		m.mu.Lock()
		defer m.mu.Unlock()
		if t := m.downsamples[c.ID]; t != nil {
			for i := range c.Windows {
				w := &c.Windows[i]
				t.source.complete(w, c.Sequence)
				t.target.complete(w, w.Target)
				for _, name := range w.Except {
					t.source.put(name, window{w.From, w.To}, c.Sequence)
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
		t.Downsample = *d
		from, into := db.RetentionPolicy(d.From), db.RetentionPolicy(d.Into)
		covered := t.covered(db)
		for _, s := range []*set{&t.source, &t.target} {
			s.every, s.covered = int64(d.Every), covered
		}
		if had := policyBefore(before, db.Name, d.From); had != nil && had.Expired < from.Expired {
			// What the source has lost by its age stays in the target.
			gone := meta.ComputedWindows{From: model.MinTime, To: t.Ceil(from.Expired)}
			t.source.complete(&gone, math.MaxUint64)
			t.target.complete(&gone, math.MaxUint64)
			m.dirty = true
		}
		if fresh {
			for _, w := range covered {
				t.source.put("", w, sequence)
			}
			m.dirty = true
		}
		for i := range from.ShardGroups {
			g := &from.ShardGroups[i]
			for _, sh := range g.Shards {
				places[sh.ID] = place{downsamples: append(slices.Clip(places[sh.ID].downsamples), t), group: g.TimeRange()}
			}
		}
		for i := range into.ShardGroups {
			g := &into.ShardGroups[i]
			for _, sh := range g.Shards {
				places[sh.ID] = place{downsamples: []*downsample{t}, group: g.TimeRange(), target: true, covered: covered}
			}
		}
	}
	for id := range m.downsamples {
		if !wanted[id] {
			delete(m.downsamples, id)
			m.dirty = true
		}
	}
	if len(wanted) == 0 {
		m.places.Store(nil)
		return
	}
	m.places.Store(&places)
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

// write marks the windows of rows.
func (t *downsample) write(p *place, sequence uint64, rows []point.Row) {
	clear(t.seen)
	var layout *point.Layout
	var w window
	for i := range rows {
		r := &rows[i]
		if r.Layout == layout && r.Time >= w.from && r.Time < w.to {
			continue
		}
		layout = r.Layout
		if w = t.seen[layout]; r.Time >= w.from && r.Time < w.to {
			continue
		}
		w = window{t.Start(r.Time), t.End(r.Time)}
		t.seen[layout] = w
		p.put(t, layout.Measurement, w, sequence)
	}
}

// touch marks the windows of a range.
func (p *place) touch(measurement string, r model.TimeRange, sequence uint64) {
	for _, t := range p.downsamples {
		p.put(t, measurement, window{t.Start(r.Min), t.End(r.Max)}, sequence)
	}
}

// put marks windows.
func (p *place) put(t *downsample, measurement string, w window, sequence uint64) {
	if !p.target {
		t.source.put(measurement, w, sequence)
		return
	}
	for _, c := range p.covered {
		if from, to := max(w.from, c.from), min(w.to, c.to); from < to {
			t.target.put(measurement, window{from, to}, sequence)
		}
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
	found = make([]Span, 0, len(t.source.measurements))
	for name, s := range t.source.measurements {
		found = union(found, name, s, t.target.measurements[name], before)
	}
	for name, s := range t.target.measurements {
		if t.source.measurements[name] == nil {
			found = union(found, name, s, nil, before)
		}
	}
	return found, union(nil, "", t.source.all, t.target.all, before)
}

// union appends the spans up to a time that are in a or in b.
func union(dst []Span, measurement string, a, b spans, before int64) []Span {
	first := len(dst)
	for len(a)+len(b) > 0 {
		if len(a) == 0 || len(b) > 0 && b[0].from < a[0].from {
			a, b = b, a
		}
		sp := a[0]
		a = a[1:]
		if sp.from >= before {
			break
		}
		to := min(sp.to, before)
		if n := len(dst); n > first && sp.from <= dst[n-1].To {
			dst[n-1].To = max(dst[n-1].To, to)
			continue
		}
		dst = append(dst, Span{measurement, sp.from, to})
	}
	return dst
}

// Expirable returns an error if a shard group must outlive its age: a window that begins
// before its end is to be computed. The downsample could not get these rows any more.
// Nothing may be written meanwhile.
func (m *Marks) Expirable(c meta.DropShardGroup, data *meta.Data) error {
	db := data.Database(c.Database)
	policy, err := data.RetentionPolicy(c.Database, c.RetentionPolicy)
	if db == nil || err != nil {
		return err
	}
	i := slices.IndexFunc(policy.ShardGroups, func(g meta.ShardGroup) bool { return g.ID == c.ID })
	if i < 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range db.Downsamples {
		t := m.downsamples[d.ID]
		if d.From != policy.Name || t == nil {
			continue
		}
		end := policy.ShardGroups[i].End
		if first := min(t.source.first(end), t.target.first(end)); first < end {
			return fmt.Errorf("%w: from %s into %s, from %s on", meta.ErrDownsampleWaits, d.From, d.Into, time.Unix(0, first).UTC().Format(time.RFC3339))
		}
	}
	return nil
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
	return t.target.earliest(measurement, t.source.earliest(measurement, end))
}

// State sums up the windows of a downsample that are to be computed.
type State struct {
	Windows  int64 // of measurements
	Earliest int64 // start of the earliest, or what State was asked with
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
	return state
}
