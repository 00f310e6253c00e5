package tsi

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/tsi/dictionary"
	"tsdbd/tsi/paged"
)

// memtable is the index of the series added since a Freeze, in memory. Per
// measurement it holds a table: a row per series, a column of value numbers
// per tag key. Rows are only ever appended, so a reader copies the heads of
// the lists under the lock and then reads what stood there without it.
//
// A row costs 4 bytes and 4 per tag key; a value 24 to 34 and its text, once.
type memtable struct {
	mu           sync.RWMutex
	measurements map[string]*memtableMeasurement
	keys         map[string]*memtableKey
	everyKey     []*memtableKey       // the same, only appended to
	last         *memtableMeasurement // added to last
	series       *roaring.Bitmap
	n            int
	bytes        atomic.Int64 // memory, about
	tags         model.Tags   // scratch of add
}

// What things cost in memory, about, besides their text.
const (
	memtableMeasurementBytes = 300
	memtableColumnBytes      = 408
	memtableKeyBytes         = 216
	memtableValueBytes       = 30
	memtableRowBytes         = 4
)

// memtableKey is a tag key of all measurements.
type memtableKey struct {
	key    string
	in     []*memtableMeasurement // that have it; only appended to
	values *paged.TextTable       // of all, nil while one measurement has it
}

func valueBytes(value string) int64 { return memtableValueBytes + int64(len(value)) }

type memtableMeasurement struct {
	name    string
	ids     paged.List[uint32]
	columns []*memtableColumn // in order of appearance
	byKey   map[string]*memtableColumn
}

// memtableColumn is a tag key. Number 0 means that the series lacks the tag;
// rows may be shorter than the table, the rest lack it.
type memtableColumn struct {
	of     *memtableKey
	values paged.TextTable
	rows   paged.Numbers
	last   uint32 // number of the row added last: sorted keys repeat their values
}

func newMemtable() *memtable {
	return &memtable{measurements: map[string]*memtableMeasurement{}, keys: map[string]*memtableKey{}, series: roaring.New()}
}

// add adds a series, once, and returns its measurement. Nothing of key is
// kept.
func (s *memtable) add(id uint32, key string) (measurement string) {
	measurement, s.tags = model.ParseSeriesKey(key, s.tags[:0])
	return s.addTags(id, measurement, s.tags)
}

// addTags adds a series, once, and returns the memtable's text of its measurement.
func (s *memtable) addTags(id uint32, measurement string, tags model.Tags) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes := int64(0)
	defer func() { s.bytes.Add(bytes) }()
	m := s.last
	if m == nil || m.name != measurement {
		if m = s.measurements[measurement]; m == nil {
			m = &memtableMeasurement{name: strings.Clone(measurement), byKey: map[string]*memtableColumn{}}
			s.measurements[m.name] = m
			bytes += memtableMeasurementBytes + int64(len(m.name))
		}
		s.last = m
	}
	if !s.series.CheckedAdd(id) {
		return m.name
	}
	s.n++
	row := m.ids.Len()
	m.ids.Add(id)
	bytes += memtableRowBytes
	for i := range tags {
		if tags[i].Value == "" {
			continue // the same as no tag
		}
		var c *memtableColumn
		if i < len(m.columns) && m.columns[i].of.key == tags[i].Key {
			c = m.columns[i]
		} else if c = m.byKey[tags[i].Key]; c == nil {
			k, kept := s.key(tags[i].Key, m)
			c = &memtableColumn{of: k}
			m.columns = append(m.columns, c)
			m.byKey[k.key] = c
			bytes += memtableColumnBytes + kept
		}
		if c.rows.Len() > row {
			continue // the series key has the tag twice; the first one counts
		}
		if c.values.Texts.Text(c.last) != tags[i].Value {
			added := false
			if c.last, added = c.values.Number(tags[i].Value); added {
				bytes += valueBytes(tags[i].Value)
				if all := c.of.values; all != nil {
					if _, added = all.Number(tags[i].Value); added {
						bytes += valueBytes(tags[i].Value)
					}
				}
			}
		}
		for c.rows.Len() < row {
			c.rows.Add(0)
			bytes += memtableRowBytes
		}
		c.rows.Add(c.last)
		bytes += memtableRowBytes
	}
	return m.name
}

// key returns a tag key that a measurement has got, and the memory that it takes more.
func (s *memtable) key(key string, m *memtableMeasurement) (k *memtableKey, bytes int64) {
	if k = s.keys[key]; k == nil {
		k = &memtableKey{key: strings.Clone(key)}
		s.keys[k.key] = k
		s.everyKey = append(s.everyKey, k)
		bytes = memtableKeyBytes + int64(len(key))
	}
	if k.in = append(k.in, m); len(k.in) > 1 {
		bytes += dictionary.UnionBytes // when the file is written
	}
	if len(k.in) == 2 {
		bytes += dictionary.UnionBytes
		k.values = &paged.TextTable{}
		only := &k.in[0].byKey[key].values
		for n := range only.Count() {
			text := only.Text(uint32(n) + 1)
			k.values.Number(text)
			bytes += valueBytes(text)
		}
	}
	return k, bytes
}

// keyPicture is a picture of a tag key of all measurements.
type keyPicture struct {
	key    string
	in     []*memtableMeasurement
	values paged.Texts
}

// pictureOf returns the picture of a tag key, false if no measurement has it.
func (s *memtable) pictureOf(key string) (keyPicture, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k := s.keys[key]
	if k == nil {
		return keyPicture{}, false
	}
	p := keyPicture{key: k.key, in: k.in}
	if k.values != nil {
		p.values = k.values.Texts
	} else {
		p.values = k.in[0].byKey[k.key].values.Texts
	}
	return p, true
}

// allKeys returns all tag keys, unsorted. Only what never changes of them may be read.
func (s *memtable) allKeys() []*memtableKey {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.everyKey
}

// anyHas reports whether one of some measurements has a tag key.
func (s *memtable) anyHas(key string, measurements []string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.ContainsFunc(measurements, func(name string) bool {
		m := s.measurements[name]
		return m != nil && m.byKey[key] != nil
	})
}

// having returns the measurements that have one of the values of a tag key; without
// values, those that have the key.
func (s *memtable) having(key string, values []string) (names []string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	k := s.keys[key]
	if k == nil {
		return nil
	}
	if k.values != nil && values != nil {
		values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return k.values.Find(v) == 0 })
	}
	for _, m := range k.in {
		c := m.byKey[key]
		if values == nil || slices.ContainsFunc(values, func(v string) bool { return c.values.Find(v) != 0 }) {
			names = append(names, m.name)
		}
	}
	return names
}

// measurementPicture is a picture of a memtable's measurement.
type measurementPicture struct {
	ids     paged.List[uint32]
	columns []columnPicture
}

// columnPicture is a column of it, of at most as many rows.
type columnPicture struct {
	key    string
	values paged.Texts
	rows   paged.Numbers
}

// table returns the picture of a measurement, with the columns of the given
// keys only unless all is set; false if there is no such measurement.
func (s *memtable) table(measurement string, all bool, keys ...string) (measurementPicture, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := s.measurements[measurement]
	if m == nil {
		return measurementPicture{}, false
	}
	t := measurementPicture{ids: m.ids}
	if all {
		for _, c := range m.columns {
			t.columns = append(t.columns, columnPicture{c.of.key, c.values.Texts, c.rows})
		}
		return t, true
	}
	for _, k := range keys {
		p := columnPicture{key: k}
		if c := m.byKey[k]; c != nil {
			p.values, p.rows = c.values.Texts, c.rows
		}
		t.columns = append(t.columns, p)
	}
	return t, true
}

// rowsIn returns which rows are of series in set.
func (t *measurementPicture) rowsIn(set *roaring.Bitmap) []bool {
	in := make([]bool, t.ids.Len())
	t.ids.Each(func(first int, ids []uint32) {
		for i, id := range ids {
			in[first+i] = set.Contains(id)
		}
	})
	return in
}

// used returns, by number, which values of the first column living series of set have.
func (t *measurementPicture) used(set, alive *roaring.Bitmap) []bool {
	used := make([]bool, t.columns[0].values.Count()+1)
	t.columns[0].rows.Each(func(first int, numbers []uint32) {
		for i, n := range numbers {
			if id := t.ids.At(first + i); !used[n] && n != 0 && set.Contains(id) && alive.Contains(id) {
				used[n] = true
			}
		}
	})
	return used
}

// valueIDs are the ids of a memtable's column by value number.
type valueIDs struct{ starts, ids []uint32 }

func (v *valueIDs) of(number uint32) []uint32 { return v.ids[v.starts[number]:v.starts[number+1]] }

func (v *valueIDs) has(number uint32) bool { return v.starts[number] < v.starts[number+1] }

// byValue sorts the ids of the rows in keep by their value of a column: a counting
// sort.
func (t *measurementPicture) byValue(c *columnPicture, keep []bool) valueIDs {
	starts := make([]uint32, c.values.Count()+2)
	c.rows.Each(func(first int, rows []uint32) {
		for i, v := range rows {
			if keep[first+i] {
				starts[v+1]++
			}
		}
	})
	for v := 1; v < len(starts); v++ {
		starts[v] += starts[v-1]
	}
	ids := make([]uint32, starts[len(starts)-1])
	fill := slices.Clone(starts)
	c.rows.Each(func(first int, rows []uint32) {
		for i, v := range rows {
			if keep[first+i] {
				ids[fill[v]] = t.ids.At(first + i)
				fill[v]++
			}
		}
	})
	return valueIDs{starts, ids}
}

// valuesOf returns the values of a column that rows in keep have, with the ids of these.
func (t *measurementPicture) valuesOf(c *columnPicture, keep []bool) *memtableValues {
	ids := t.byValue(c, keep)
	return &memtableValues{values: c.values, order: c.values.Order(ids.has), ids: ids}
}

// number returns the number of a value, 0 if the memtable lacks it.
func (s *memtable) number(measurement, key, value string) uint32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m := s.measurements[measurement]; m != nil {
		if c := m.byKey[key]; c != nil {
			return c.values.Find(value)
		}
	}
	return 0
}

// names returns the measurements, unsorted.
func (s *memtable) names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := make([]string, 0, len(s.measurements))
	for n := range s.measurements {
		names = append(names, n)
	}
	return names
}

// take adds the series of another memtable, one by one.
func (s *memtable) take(o *memtable) {
	for _, name := range o.names() {
		t, _ := o.table(name, true)
		for row := range t.ids.Len() {
			s.tags = s.tags[:0]
			for i := range t.columns {
				if c := &t.columns[i]; row < c.rows.Len() && c.rows.At(row) != 0 {
					s.tags = append(s.tags, model.Tag{Key: c.key, Value: c.values.Text(c.rows.At(row))})
				}
			}
			s.addTags(t.ids.At(row), name, s.tags)
		}
	}
}

// writeMemtables writes the series of memtables that are in alive, and the fields.
func writeMemtables(fs vfs.FS, path string, memtables []*memtable, alive *roaring.Bitmap, fields map[string][]column.Field) (FileInfo, error) {
	names := slices.Collect(maps.Keys(fields))
	for _, s := range memtables {
		names = append(names, s.names()...)
	}
	slices.Sort(names)
	return writeFile(fs, path, MergeOptions{}, func(w *fileWriter) error {
		for _, name := range slices.Compact(names) {
			var tables []measurementPicture
			for _, s := range memtables {
				if t, ok := s.table(name, true); ok {
					tables = append(tables, t)
				}
			}
			if err := w.table(name, tables, alive, fields[name]); err != nil {
				return err
			}
		}
		return nil
	})
}

// table writes a measurement. One without series and fields is left out.
func (w *fileWriter) table(name string, tables []measurementPicture, alive *roaring.Bitmap, fields []column.Field) error {
	set := roaring.New()
	var keys []string
	for i := range tables {
		tables[i].ids.Each(func(_ int, ids []uint32) { set.AddMany(ids) })
		for _, c := range tables[i].columns {
			keys = append(keys, c.key)
		}
	}
	set.And(alive)
	if set.IsEmpty() && len(fields) == 0 {
		return nil
	}
	keep := make([][]bool, len(tables))
	for i := range tables {
		keep[i] = tables[i].rowsIn(set)
	}
	return w.measurement(name, fields, set, keys, func(walk *valueWalk, key string) error {
		for i := range tables {
			t := &tables[i]
			if at := slices.IndexFunc(t.columns, func(c columnPicture) bool { return c.key == key }); at >= 0 {
				walk.memtables = append(walk.memtables, t.valuesOf(&t.columns[at], keep[i]))
			}
		}
		return nil
	})
}
