package tsi

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/column"
)

// View is an immutable picture of an Index: later writes do not show in it.
// It may be used by many goroutines until its Release.
type View struct {
	index     *Index
	refs      atomic.Int64
	alive     *roaring.Bitmap // read-only
	dead      bool            // layers may name series that are not alive
	fields    *fieldsByName
	memtables []*memtable
	files     []*File
}

// View returns the present state. The caller must Release it. Without a change
// since the last call it costs a counter.
func (x *Index) View() *View {
	x.mu.RLock()
	if v := x.mu.view; v != nil {
		v.refs.Add(1)
		x.mu.RUnlock()
		return v
	}
	x.mu.RUnlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if v := x.mu.view; v != nil {
		v.refs.Add(1)
		return v
	}
	if x.mu.fields == nil {
		x.mu.fields = x.fieldsLocked()
	}
	v := &View{
		index: x, alive: x.mu.alive.Clone(), dead: !x.mu.removed.IsEmpty(), fields: x.mu.fields, files: x.mu.files,
		memtables: x.memtablesLocked(),
	}
	for _, f := range v.files {
		f.Acquire()
	}
	v.refs.Store(2) // the caller's and the index's
	x.mu.view = v
	return v
}

// Charged is a View whose lists of texts are charged before their memory is
// taken. It needs no Release of its own.
type Charged struct {
	*View
	charge func(bytes int64) error
}

// Charged returns the view with charge, whose error ends a list; nil charges
// nobody.
func (v *View) Charged(charge func(bytes int64) error) Charged { return Charged{v, charge} }

// Release gives the view back.
func (v *View) Release() { v.index.release(v) }

func (x *Index) release(v *View) {
	if v.refs.Add(-1) == 0 {
		for _, f := range v.files {
			x.closeFile(f)
		}
	}
}

// fieldsByName are the fields of the measurements with series.
type fieldsByName struct {
	fields map[string][]column.Field
	names  func() []string // sorted
	texts  func() []string // those that have string fields only, sorted
}

func (x *Index) fieldsLocked() *fieldsByName {
	f := &fieldsByName{fields: make(map[string][]column.Field, len(x.mu.measurements))}
	for name, m := range x.mu.measurements {
		if m.series {
			f.fields[name] = m.sorted()
		}
	}
	f.names = sync.OnceValue(func() []string { return slices.Sorted(maps.Keys(f.fields)) })
	f.texts = sync.OnceValue(func() (texts []string) {
		for _, name := range f.names() {
			if !slices.ContainsFunc(f.fields[name], func(f column.Field) bool { return f.Type != model.String }) {
				texts = append(texts, name)
			}
		}
		return texts
	})
	return f
}

// Measurements returns the names of the measurements with series, sorted. The slice must
// not be changed.
func (v *View) Measurements() []string { return v.fields.names() }

// TextMeasurements returns those of Measurements that have only string fields. The slice
// must not be changed.
func (v *View) TextMeasurements() []string { return v.fields.texts() }

// Fields returns the fields of a measurement, sorted by key; nil if it has no
// series. The slice must not be changed.
func (v *View) Fields(measurement string) []column.Field { return v.fields.fields[measurement] }

// Contains reports whether a series id is in the view.
func (v *View) Contains(id uint32) bool { return v.alive.Contains(id) }

// All returns the set of all series. The caller owns it.
func (v *View) All() *roaring.Bitmap {
	set := roaring.New()
	set.Or(v.alive) // not Clone, which would write to alive
	set.CloneCopyOnWriteContainers()
	return set
}

// Since returns the series that v has and an older view of the index has not.
// The caller owns the set.
func (v *View) Since(old *View) *roaring.Bitmap {
	set := v.All()
	set.AndNot(old.alive)
	return set
}

// Series returns the series of a measurement. The caller owns the set.
func (v *View) Series(measurement string) (*roaring.Bitmap, error) {
	set := roaring.New()
	for _, s := range v.memtables {
		if t, ok := s.table(measurement, false); ok {
			t.ids.Each(func(_ int, ids []uint32) { set.AddMany(ids) })
		}
	}
	for _, f := range v.files {
		m := f.measurement(measurement)
		if m == nil {
			continue
		}
		b, err := f.bodyOf(m)
		if err != nil {
			return nil, err
		}
		set.Or(b.set)
	}
	set.And(v.alive)
	return set, nil
}

// TagKeys returns the tag keys that series of a measurement carry, sorted.
func (v *View) TagKeys(measurement string) ([]string, error) {
	var keys []string // of the layers before, sorted
	lacks := func(key string) bool {
		_, found := slices.BinarySearch(keys, key)
		return !found
	}
	for _, s := range v.memtables {
		var more []string
		t, _ := s.table(measurement, true)
		for _, c := range t.columns {
			for row := 0; row < c.rows.Len() && lacks(c.key); row++ {
				if c.rows.At(row) != 0 && v.alive.Contains(t.ids.At(row)) {
					more = append(more, c.key)
					break
				}
			}
		}
		keys = sortedNames(append(keys, more...))
	}
	for _, f := range v.files {
		m := f.measurement(measurement)
		if m == nil {
			continue
		}
		b, err := f.bodyOf(m)
		if err != nil {
			return nil, err
		}
		more := make([]string, 0, len(b.tags))
		for _, r := range b.tags {
			if !lacks(r.key) {
				continue
			}
			if v.dead {
				t, err := f.loadTag(b, r)
				if err != nil {
					return nil, err
				}
				if !t.Present.Intersects(v.alive) {
					continue
				}
			}
			more = append(more, r.key)
		}
		keys = sortedNames(append(keys, more...))
	}
	return keys, nil
}
