package tsi

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// IndexOptions configure an Index. The zero value works.
type IndexOptions struct {
	// Files are the shard's TSI files, oldest first. The index takes over one
	// reference of each.
	Files []*File
	// Removed are the deleted ids that Files name, see Snapshot.Removed.
	Removed *roaring.Bitmap
	// Keys returns series keys by id, ascending: series.File.Keys. Optional;
	// with it small groupings and deletes need not read dictionaries. It is
	// called with the index locked and must not call the index.
	Keys func(ids []model.SeriesID, fn func(i int, key string) error) error
	// Logger gets warnings; nil discards.
	Logger *slog.Logger
}

// Index is the inverted index of one shard.
//
// Which series exist is the living set alone: layers may name more. A
// measurement's fields are those of the newest layer that mentions it, because
// every layer that mentions it lists all of them; they count only while the
// measurement has a living series, so deleting its last series frees the types.
type Index struct {
	opt   IndexOptions
	large int // largeBatch, less in tests

	mu struct {
		sync.RWMutex
		alive        *roaring.Bitmap // copy-on-write
		removed      *roaring.Bitmap // deleted series that files or frozen memtables may name
		measurements map[string]*measurement
		claims       map[fieldName]*claimedType // of writes that are not applied yet
		claimed      map[string]int             // by measurement: its claims of fields that are not registered
		mutable      *memtable
		sealed       []*memtable // of large batches; the next snapshot has them too
		frozen       []*memtable
		files        []*File
		view         *View         // of the present state, or nil
		fields       *fieldsByName // of the present state, or nil
		closed       bool
	}
}

// measurement is what the index knows of a measurement's fields. They are many
// where a client makes names of them: adding one costs no look at the others.
type measurement struct {
	fields []column.Field             // sorted by key; replaced, not changed
	fresh  map[string]model.FieldType // registered since fields was made
	series bool                       // has, or had since its fields were forgotten, a series
	dirty  bool                       // to be mentioned by the next snapshot
}

// fieldType returns the type of a field, and false if it is not registered.
func (m *measurement) fieldType(key string) (model.FieldType, bool) {
	if t, ok := m.fresh[key]; ok {
		return t, true
	}
	if i, ok := column.FindField(m.fields, key); ok {
		return m.fields[i].Type, true
	}
	return model.Unknown, false
}

// count returns the number of fields. A nil measurement has none.
func (m *measurement) count() int {
	if m == nil {
		return 0
	}
	return len(m.fields) + len(m.fresh)
}

// sorted returns all fields, sorted by key. The index is locked.
func (m *measurement) sorted() []column.Field {
	if len(m.fresh) > 0 {
		fields := make([]column.Field, len(m.fields), len(m.fields)+len(m.fresh))
		copy(fields, m.fields)
		for key, t := range m.fresh {
			fields = append(fields, column.Field{Key: key, Type: t})
		}
		m.fields, m.fresh = column.UnionFields(fields), nil
	}
	return m.fields
}

// FieldConflict says that a field is registered with another type.
type FieldConflict struct {
	Field column.Field    // what the layout wants
	Have  model.FieldType // what is registered
}

// Reason says in InfluxDB's words why points of the measurement are dropped.
func (c FieldConflict) Reason(measurement string) string {
	return fmt.Sprintf("field type conflict: input field %q on measurement %q is type %s, already exists as type %s",
		c.Field.Key, measurement, c.Field.Type, c.Have)
}

// NewIndex returns an index of the given files. It reads their directories and
// the sets of their series, and, where ids are removed, the measurements that may
// have lost all series; damage there is an error. On an error the files stay the
// caller's.
func NewIndex(opt IndexOptions) (*Index, error) {
	x := &Index{opt: opt, large: largeBatch}
	alive, err := SeriesOf(opt.Files)
	if err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	alive.SetCopyOnWrite(true)
	x.mu.alive, x.mu.removed = alive, roaring.New()
	if opt.Removed != nil {
		x.mu.removed.Or(opt.Removed)
		x.mu.removed.And(alive)
		alive.AndNot(x.mu.removed)
	}
	x.mu.measurements = map[string]*measurement{}
	x.mu.mutable = newMemtable()
	x.mu.files = slices.Clone(opt.Files)
	for _, f := range opt.Files {
		for _, m := range f.measured {
			if len(m.fields) == 0 && m.series == 0 {
				continue
			}
			x.mu.measurements[m.name] = &measurement{fields: m.fields, series: true}
		}
	}
	intact, err := x.intactLocked()
	if err != nil {
		return nil, fmt.Errorf("open index: %w", err)
	}
	for name := range x.mu.measurements {
		lives, err := x.livesLocked(name, intact)
		if err != nil {
			return nil, fmt.Errorf("open index: %w", err)
		}
		if !lives {
			delete(x.mu.measurements, name)
		}
	}
	x.opt.Files, x.opt.Removed = nil, nil
	return x, nil
}

// intactLocked returns the files in which no series is deleted. On an error it
// returns those that it could read.
func (x *Index) intactLocked() (intact map[*File]bool, err error) {
	intact = map[*File]bool{}
	for _, f := range x.mu.files {
		if x.mu.removed.IsEmpty() {
			intact[f] = true
			continue
		}
		set, serr := f.Series()
		err = errors.Join(err, serr)
		intact[f] = serr == nil && !set.Intersects(x.mu.removed)
	}
	return intact, err
}

// livesLocked reports whether a measurement has a living series.
func (x *Index) livesLocked(name string, intact map[*File]bool) (bool, error) {
	for _, s := range x.memtablesLocked() {
		t, _ := s.table(name, false)
		for row := range t.ids.Len() {
			if x.mu.alive.Contains(t.ids.At(row)) {
				return true, nil
			}
		}
	}
	for _, f := range x.mu.files {
		m := f.measurement(name)
		if m == nil || m.series == 0 {
			continue
		}
		if intact[f] {
			return true, nil
		}
		b, err := f.bodyOf(m)
		if err != nil {
			return true, err
		}
		if b.set.Intersects(x.mu.alive) {
			return true, nil
		}
	}
	return false, nil
}

// Contains reports whether a series is in the index.
func (x *Index) Contains(id model.SeriesID) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.mu.alive.Contains(uint32(id))
}

// AddSeries adds a series to the mutable memtable, or back to the living. key
// is its canonical key; the index keeps no part of it. Only the writer calls it.
func (x *Index) AddSeries(id model.SeriesID, key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.addLocked(uint32(id), key)
}

// AddKeys is AddSeries of many, by their ids and keys.
func (x *Index) AddKeys(ids []model.SeriesID, keys []string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, id := range ids {
		x.addLocked(uint32(id), keys[i])
	}
}

// AddAll is AddSeries of many.
func (x *Index) AddAll(series []*point.Series) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range series {
		if id := uint32(s.ID()); id != 0 && !x.mu.alive.Contains(id) {
			x.addLocked(id, s.Key())
		}
	}
}

func (x *Index) addLocked(id uint32, key string) {
	if id == 0 || !x.mu.alive.CheckedAdd(id) {
		return
	}
	x.mu.removed.Remove(id)
	x.staleLocked()
	// A deleted series goes to the memtable too, though older layers may have
	// it: a merge that runs may be dropping it from its file right now, and
	// the next file must mention the measurement and its fields.
	x.hasSeriesLocked(x.mu.mutable.add(id, key))
}

// hasSeriesLocked notes that a measurement has a new series.
func (x *Index) hasSeriesLocked(name string) {
	m := x.mu.measurements[name]
	if m == nil {
		m = &measurement{}
		x.mu.measurements[name] = m
	}
	if !m.series {
		m.series = true
		x.mu.fields = nil
	}
	m.dirty = true
}

// memtablesLocked returns all memtables.
func (x *Index) memtablesLocked() []*memtable {
	return append(slices.Concat(x.mu.frozen, x.mu.sealed), x.mu.mutable)
}

// staleLocked drops the view of a state that has passed.
func (x *Index) staleLocked() {
	if v := x.mu.view; v != nil {
		x.mu.view = nil
		x.release(v)
	}
}

// RegisterFields makes sure that the fields of a layout are registered. If any
// is registered with another type none is registered and the conflicts are
// returned. A layout whose fields are all known costs a read lock.
func (x *Index) RegisterFields(l *point.Layout) []FieldConflict {
	x.mu.RLock()
	missing, conflicts := missingFields(x.mu.measurements[l.Measurement], l)
	x.mu.RUnlock()
	if len(conflicts) > 0 || missing == 0 {
		return conflicts
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	m := x.mu.measurements[l.Measurement]
	if missing, conflicts = missingFields(m, l); len(conflicts) > 0 || missing == 0 {
		return conflicts
	}
	if m == nil {
		m = &measurement{}
		x.mu.measurements[l.Measurement] = m
	}
	if m.fresh == nil {
		m.fresh = make(map[string]model.FieldType, missing)
	}
	for _, f := range l.Fields {
		if _, known := m.fieldType(f.Key); !known {
			m.fresh[f.Key] = f.Type
			x.registerClaimedLocked(fieldName{l.Measurement, f.Key})
		}
	}
	m.dirty = true
	x.mu.fields = nil
	x.staleLocked()
	return nil
}

// RenameField gives a field of a measurement another key, which the measurement has no
// field of. It does nothing if there is no such field.
func (x *Index) RenameField(name, from, to string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := x.mu.measurements[name]
	if m == nil {
		return
	}
	i, ok := column.FindField(m.sorted(), from)
	if !ok {
		return
	}
	fields := slices.Clone(m.fields)
	fields[i].Key = to
	m.fields = column.UnionFields(fields)
	m.dirty = true
	x.mu.fields = nil
	x.staleLocked()
}

func missingFields(m *measurement, l *point.Layout) (missing int, conflicts []FieldConflict) {
	if m == nil {
		return len(l.Fields), nil
	}
	for _, f := range l.Fields {
		switch have, known := m.fieldType(f.Key); {
		case !known:
			missing++
		case have != f.Type:
			conflicts = append(conflicts, FieldConflict{Field: f, Have: have})
		}
	}
	return missing, conflicts
}

// RemoveSeries takes series out of the index and returns, sorted, the
// measurements that have no series left: their fields are forgotten, and a
// caller that remembers layouts as registered must forget those too. On an
// error, which is of reading a file, the series are removed and the
// measurements it could not decide about keep their fields.
func (x *Index) RemoveSeries(set *roaring.Bitmap) (emptied []string, err error) {
	defer vfs.CatchFault(&err)()
	x.mu.Lock()
	defer x.mu.Unlock()
	gone := roaring.And(set, x.mu.alive)
	if gone.IsEmpty() {
		return nil, nil
	}
	candidates := x.measurementsOfLocked(gone)
	x.mu.alive.AndNot(gone)
	x.mu.removed.Or(gone)
	x.staleLocked()
	intact, err := x.intactLocked()
	for _, name := range candidates {
		m := x.mu.measurements[name]
		if m == nil || !m.series {
			continue
		}
		lives, lerr := x.livesLocked(name, intact)
		err = errors.Join(err, lerr)
		if !lives && lerr == nil {
			delete(x.mu.measurements, name)
			x.mu.fields = nil
			emptied = append(emptied, name)
		}
	}
	slices.Sort(emptied)
	return emptied, err
}

// measurementsOfLocked returns measurements that series of the set may belong
// to: by their keys if they are few, else all.
func (x *Index) measurementsOfLocked(set *roaring.Bitmap) []string {
	if x.opt.Keys != nil && set.GetCardinality() <= 4096 {
		names := map[string]bool{}
		err := x.opt.Keys(seriesIDs(set), func(_ int, key string) error {
			names[model.SeriesMeasurement(key)] = true
			return nil
		})
		if err == nil {
			out := make([]string, 0, len(names))
			for n := range names {
				out = append(out, n)
			}
			return out
		}
	}
	out := make([]string, 0, len(x.mu.measurements))
	for n := range x.mu.measurements {
		out = append(out, n)
	}
	return out
}

func seriesIDs(set *roaring.Bitmap) []model.SeriesID {
	ids := make([]model.SeriesID, 0, set.GetCardinality())
	it := set.Iterator()
	for it.HasNext() {
		ids = append(ids, model.SeriesID(it.Next()))
	}
	return ids
}

// Named returns the series that files or memtables name, the deleted ones too. The
// caller owns the set.
func (x *Index) Named() *roaring.Bitmap {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return roaring.Or(x.mu.alive, x.mu.removed)
}

// Flushed returns the living series that are in files and in no memtable. The caller
// owns the set.
func (x *Index) Flushed() *roaring.Bitmap {
	x.mu.RLock()
	defer x.mu.RUnlock()
	set := x.mu.alive.Clone()
	for _, s := range x.memtablesLocked() {
		set.AndNot(s.series)
	}
	return set
}

// Snapshot is memtables cut off by Freeze, on their way into a file.
type Snapshot struct {
	memtables []*memtable
	alive     *roaring.Bitmap
	removed   *roaring.Bitmap
	fields    map[string][]column.Field
}

// Empty reports whether the snapshot holds neither series nor fields, so that
// there is nothing to write.
func (s *Snapshot) Empty() bool {
	return len(s.fields) == 0 && !slices.ContainsFunc(s.memtables, func(t *memtable) bool { return t.n > 0 })
}

// Removed returns the deleted ids, as of the cut, that files may still name. The
// shard keeps the set in its manifest, with the files. Replay from the cut on must
// start from this set, not from a newer one: it brings the later changes itself,
// in their order. The set must not be changed.
func (s *Snapshot) Removed() *roaring.Bitmap { return s.removed }

// WriteFile writes the snapshot as a TSI file, synced; the file's name is
// durable once its directory is. It may be called again after an error.
func (s *Snapshot) WriteFile(fs vfs.FS, path string) (FileInfo, error) {
	return writeMemtables(fs, path, s.memtables, s.alive, s.fields)
}

// Freeze cuts the memtables off that no snapshot has. They stay readable until
// Publish puts their file in their place; the snapshots must be published in order.
func (x *Index) Freeze() *Snapshot {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := &Snapshot{
		memtables: append(slices.Clone(x.mu.sealed), x.mu.mutable),
		alive:     x.mu.alive.Clone(), removed: x.mu.removed.Clone(), fields: map[string][]column.Field{},
	}
	for name, m := range x.mu.measurements {
		if m.dirty {
			s.fields[name] = m.sorted()
			m.dirty = false
		}
	}
	x.mu.frozen = slices.Concat(x.mu.frozen, s.memtables)
	x.mu.sealed, x.mu.mutable = nil, newMemtable()
	x.staleLocked()
	return s
}

// Publish replaces a frozen snapshot by its file and takes over a reference to the
// file. file may be nil for an Empty snapshot.
func (x *Index) Publish(s *Snapshot, file *File) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.mu.frozen = slices.DeleteFunc(slices.Clone(x.mu.frozen), func(f *memtable) bool { return slices.Contains(s.memtables, f) })
	if file != nil {
		x.mu.files = append(slices.Clone(x.mu.files), file)
	}
	x.staleLocked()
}

// ReplaceFiles replaces old, which must be neighbors, by merged. It takes over a
// reference to merged and releases old. The caller publishes the change in the
// manifest first, and calls Obsolete.
func (x *Index) ReplaceFiles(old []*File, merged *File) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var files []*File
	for _, f := range x.mu.files {
		if !slices.Contains(old, f) {
			files = append(files, f)
			continue
		}
		if merged != nil {
			files = append(files, merged)
			merged = nil
		}
	}
	x.mu.files = files
	x.trimRemovedLocked()
	x.staleLocked()
	for _, f := range old {
		x.closeFile(f)
	}
}

// trimRemovedLocked forgets removed series that nothing names any more. A file that
// cannot be read names all of them.
func (x *Index) trimRemovedLocked() {
	if x.mu.removed.IsEmpty() {
		return
	}
	named, err := SeriesOf(x.mu.files)
	if err != nil {
		return
	}
	for _, s := range x.memtablesLocked() {
		named.Or(s.series)
	}
	x.mu.removed.And(named)
}

// Files returns the files, oldest first, without references: they stay open
// while the index holds them.
func (x *Index) Files() []*File {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return slices.Clone(x.mu.files)
}

// SeriesCount returns the number of series in the index.
func (x *Index) SeriesCount() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return int(x.mu.alive.GetCardinality())
}

// MutableBytes estimates the memory of the series added since the last Freeze.
func (x *Index) MutableBytes() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n := x.mu.mutable.bytes.Load()
	for _, s := range x.mu.sealed {
		n += s.bytes.Load()
	}
	return n
}

// Bytes estimates the memory of all series that are not in files yet.
func (x *Index) Bytes() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n := int64(0)
	for _, s := range x.memtablesLocked() {
		n += s.bytes.Load()
	}
	return n
}

// Close releases the files. Views in use keep theirs.
func (x *Index) Close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.mu.closed {
		return
	}
	x.mu.closed = true
	x.staleLocked()
	for _, f := range x.mu.files {
		x.closeFile(f)
	}
	x.mu.files = nil
}

func (x *Index) closeFile(f *File) {
	if err := f.Release(); err != nil && x.opt.Logger != nil {
		x.opt.Logger.Warn("tsi file not closed", "path", f.Path(), "err", err)
	}
}
