package touched

import (
	"cmp"
	"log/slog"
	"maps"
	"math"
	"path"
	"slices"
	"sync"
	"sync/atomic"

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

	// sources has the shards of policies that are downsampled. It is replaced, never
	// changed; nil if there are none.
	sources atomic.Pointer[map[uint64]source]

	mu    sync.Mutex
	data  *meta.Data // that the tiers are of
	tiers map[uint64]*tier
	dirty bool // the file lacks something

	saving sync.Mutex // held while the file is written
}

// source is a shard of a policy that is downsampled.
type source struct {
	tiers []*tier
	group model.TimeRange
}

// tier has the touched windows of a downsample.
type tier struct {
	meta.Downsample
	all          spans // of all measurements
	measurements map[string]spans
	count        int // spans
	limit        int // of count
	// seen is scratch memory of write: the window that was touched last by rows of
	// each layout.
	seen map[*point.Layout]window
}

type window struct{ from, to int64 }

// Span is a range of windows [From, To) that are to be computed.
type Span struct {
	Measurement string // "": all measurements
	From, To    int64
}

// Open reads the marks in the directory of the catalog. What the file does not have, or
// a file that is damaged or of another data directory, is made up for by marks for all
// that there is.
func Open(fs vfs.FS, dir string, data *meta.Data, logger *slog.Logger) *Marks {
	m := &Marks{fs: fs, name: path.Join(dir, Name), logger: logger, tiers: map[uint64]*tier{}}
	m.read(data.Lineage)
	m.After(0, data)
	return m
}

func newTier(d *meta.Downsample) *tier {
	return &tier{Downsample: *d, measurements: map[string]spans{}, limit: maxSpans, seen: map[*point.Layout]window{}}
}

// Write marks the windows of rows that an entry brings to a shard.
func (m *Marks) Write(sequence, shard uint64, rows []point.Row) {
	sources := m.sources.Load()
	if sources == nil {
		return
	}
	src := (*sources)[shard]
	if len(src.tiers) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range src.tiers {
		t.write(sequence, rows)
	}
	m.dirty = true
}

// Delete marks the windows that an entry deletes rows from. key returns the key of a
// series.
func (m *Marks) Delete(sequence, shard uint64, set *roaring.Bitmap, r model.TimeRange, key func(model.SeriesID) (string, error)) {
	sources := m.sources.Load()
	if sources == nil {
		return
	}
	src := (*sources)[shard]
	r = model.TimeRange{Min: max(r.Min, src.group.Min), Max: min(r.Max, src.group.Max)}
	if len(src.tiers) == 0 || r.Empty() {
		return
	}
	names := measurementsOf(set, key)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range src.tiers {
		for _, name := range names {
			t.touch(name, r, sequence)
		}
	}
	m.dirty = true
}

// Shard marks all windows of a shard for some measurements, "" for all. It is for rows
// that come without the log, and for series that get other names.
func (m *Marks) Shard(sequence, shard uint64, measurements ...string) {
	sources := m.sources.Load()
	if sources == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	src := (*sources)[shard]
	for _, t := range src.tiers {
		for _, name := range measurements {
			t.touch(name, src.group, sequence)
		}
		m.dirty = true
	}
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
		if d := &db.Downsamples[i]; d.From == policy {
			m.tiers[d.ID].touch(measurement, r, sequence)
			m.dirty = true
		}
	}
}

// Before comes before a change of the catalog is applied to data.
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
	case meta.CompleteWindows:
		m.mu.Lock()
		defer m.mu.Unlock()
		if t := m.tiers[c.ID]; t != nil {
			for _, w := range c.Windows {
				t.complete(w, c.Sequence)
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
	m.data = data
	wanted := map[uint64]bool{}
	sources := map[uint64]source{}
	for db, d := range data.Downsamples() {
		wanted[d.ID] = true
		policy := db.RetentionPolicy(d.From)
		t := m.tiers[d.ID]
		if t == nil {
			t = newTier(d)
			m.tiers[d.ID] = t
			m.dirty = true
			for i := range policy.ShardGroups {
				t.touch("", policy.ShardGroups[i].TimeRange(), sequence)
			}
		}
		t.Downsample = *d
		for i := range policy.ShardGroups {
			g := &policy.ShardGroups[i]
			for _, sh := range g.Shards {
				sources[sh.ID] = source{append(slices.Clip(sources[sh.ID].tiers), t), g.TimeRange()}
			}
		}
	}
	for id := range m.tiers {
		if !wanted[id] {
			delete(m.tiers, id)
			m.dirty = true
		}
	}
	if len(sources) == 0 {
		m.sources.Store(nil)
		return
	}
	m.sources.Store(&sources)
}

// write marks the windows of rows.
func (t *tier) write(sequence uint64, rows []point.Row) {
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
		w = t.window(r.Time)
		t.seen[layout] = w
		t.put(layout.Measurement, w, sequence)
	}
}

// window returns the window that holds a time.
func (t *tier) window(at int64) window {
	from := t.Start(at)
	to := from + int64(t.Every)
	if to < from {
		to = math.MaxInt64
	}
	return window{from, to}
}

// touch marks the windows of a range.
func (t *tier) touch(measurement string, r model.TimeRange, sequence uint64) {
	t.put(measurement, window{t.window(r.Min).from, t.window(r.Max).to}, sequence)
}

func (t *tier) put(measurement string, w window, sequence uint64) {
	if measurement == "" {
		before := len(t.all)
		t.all = t.all.touch(w.from, w.to, sequence)
		t.count += len(t.all) - before
	} else {
		old := t.measurements[measurement]
		next := old.touch(w.from, w.to, sequence)
		t.count += len(next) - len(old)
		t.measurements[measurement] = next
	}
	if t.count > t.limit {
		t.coarsen()
	}
}

// coarsen makes the spans half as many as there may be, or fewer.
func (t *tier) coarsen() {
	for gap := int64(0); t.count > t.limit/2; gap = max(int64(t.Every), 2*gap) {
		before := t.count
		t.all = t.all.join(gap)
		t.count = len(t.all)
		for name, s := range t.measurements {
			t.measurements[name] = s.join(gap)
			t.count += len(t.measurements[name])
		}
		if t.count == before && t.count <= len(t.measurements)+1 || gap < 0 || gap > math.MaxInt64/4 {
			break
		}
	}
	if t.count <= t.limit/2 {
		return
	}
	// There are very many measurements.
	for _, name := range slices.Sorted(maps.Keys(t.measurements)) {
		for _, sp := range t.measurements[name] {
			t.all = t.all.touch(sp.from, sp.to, sp.sequence)
		}
	}
	clear(t.measurements)
	for gap := int64(t.Every); len(t.all) > t.limit/2 && gap > 0; gap *= 2 {
		t.all = t.all.join(gap)
	}
	t.count = len(t.all)
}

// complete removes the marks of windows that have been computed from the entries up to a
// sequence.
func (t *tier) complete(w meta.ComputedWindows, sequence uint64) {
	for name, s := range t.measurements {
		if w.Measurement != "" && name != w.Measurement {
			continue
		}
		before := len(s)
		s = s.clear(w.From, w.To, sequence)
		t.count += len(s) - before
		if len(s) == 0 {
			delete(t.measurements, name)
			continue
		}
		t.measurements[name] = s
	}
	if w.Measurement == "" {
		before := len(t.all)
		t.all = t.all.clear(w.From, w.To, sequence)
		t.count += len(t.all) - before
		for _, name := range w.Except {
			t.put(name, window{w.From, w.To}, sequence)
		}
	}
	if t.count > t.limit { // a span may have become two
		t.coarsen()
	}
}

// Waiting returns windows of a downsample that are to be computed and end at before or
// earlier: up to limit spans of measurements, the earliest first, and the earliest span
// of all measurements.
func (m *Marks) Waiting(id uint64, before int64, limit int) []Span {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tiers[id]
	if t == nil {
		return nil
	}
	var found []Span
	for name, s := range t.measurements {
		s.upTo(before, func(sp span) { found = append(found, Span{name, sp.from, sp.to}) })
	}
	slices.SortFunc(found, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Measurement, b.Measurement))
	})
	found = found[:min(limit, len(found))]
	if len(t.all) > 0 && t.all[0].from < before {
		found = append(found, Span{"", t.all[0].from, min(t.all[0].to, before)})
	}
	return found
}

// Until returns the start of the earliest window of a measurement that is to be computed,
// end at most.
func (m *Marks) Until(id uint64, measurement string, end int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tiers[id]
	if t == nil {
		return model.MinTime
	}
	for _, s := range []spans{t.all, t.measurements[measurement]} {
		if len(s) > 0 {
			end = min(end, s[0].from)
		}
	}
	return end
}

// State sums up the windows of a downsample that are to be computed.
type State struct {
	Windows  int64 // of measurements
	Earliest int64 // start of the earliest, or what State was asked with
	// Whole is how much time is to be computed for all measurements.
	Whole int64
}

// State returns what is waiting of a downsample, of windows that end at before or earlier.
func (m *Marks) State(id uint64, before int64) State {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := State{Earliest: before}
	t := m.tiers[id]
	if t == nil {
		return state
	}
	add := func(sp span) {
		state.Windows += (sp.to - sp.from) / int64(t.Every)
		state.Earliest = min(state.Earliest, sp.from)
	}
	for _, s := range t.measurements {
		s.upTo(before, add)
	}
	t.all.upTo(before, func(sp span) {
		add(sp)
		state.Whole += sp.to - sp.from
	})
	return state
}
