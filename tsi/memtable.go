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
	last         *memtableMeasurement // added to last
	series       *roaring.Bitmap
	n            int
	bytes        atomic.Int64 // memory, about
	tags         model.Tags   // scratch of add
}

// What things cost in memory, about, besides their text.
const (
	memtableMeasurementBytes = 300
	memtableColumnBytes      = 400
	memtableValueBytes       = 30
	memtableRowBytes         = 4
)

type memtableMeasurement struct {
	name    string
	ids     paged[uint32]
	columns []*memtableColumn // in order of appearance
	byKey   map[string]*memtableColumn
}

// memtableColumn is a tag key. Number 0 means that the series lacks the tag;
// rows may be shorter than the table, the rest lack it.
type memtableColumn struct {
	key    string
	values valueTable
	rows   numbers
	last   uint32 // number of the row added last: sorted keys repeat their values
}

func newMemtable() *memtable {
	return &memtable{measurements: map[string]*memtableMeasurement{}, series: roaring.New()}
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
	row := m.ids.n
	m.ids.add(id)
	bytes += memtableRowBytes
	for i := range tags {
		if tags[i].Value == "" {
			continue // the same as no tag
		}
		var c *memtableColumn
		if i < len(m.columns) && m.columns[i].key == tags[i].Key {
			c = m.columns[i]
		} else if c = m.byKey[tags[i].Key]; c == nil {
			c = &memtableColumn{key: strings.Clone(tags[i].Key)}
			m.columns = append(m.columns, c)
			m.byKey[c.key] = c
			bytes += memtableColumnBytes + int64(len(c.key))
		}
		if c.rows.n > row {
			continue // the series key has the tag twice; the first one counts
		}
		if c.values.values.text(c.last) != tags[i].Value {
			before := c.values.values.count()
			c.last = c.values.number(tags[i].Value)
			if c.values.values.count() > before {
				bytes += memtableValueBytes + int64(len(tags[i].Value))
			}
		}
		for c.rows.n < row {
			c.rows.add(0)
			bytes += memtableRowBytes
		}
		c.rows.add(c.last)
		bytes += memtableRowBytes
	}
	return m.name
}

// measurementPicture is a picture of a memtable's measurement.
type measurementPicture struct {
	ids     paged[uint32]
	columns []columnPicture
}

// columnPicture is a column of it, of at most as many rows.
type columnPicture struct {
	key    string
	values valueList
	rows   numbers
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
			t.columns = append(t.columns, columnPicture{c.key, c.values.values, c.rows})
		}
		return t, true
	}
	for _, k := range keys {
		p := columnPicture{key: k}
		if c := m.byKey[k]; c != nil {
			p.values, p.rows = c.values.values, c.rows
		}
		t.columns = append(t.columns, p)
	}
	return t, true
}

// rowsIn returns which rows are of series in set.
func (t *measurementPicture) rowsIn(set *roaring.Bitmap) []bool {
	in := make([]bool, t.ids.n)
	t.ids.each(func(first int, ids []uint32) {
		for i, id := range ids {
			in[first+i] = set.Contains(id)
		}
	})
	return in
}

// valueIDs are the ids of a memtable's column by value number.
type valueIDs struct{ starts, ids []uint32 }

func (v *valueIDs) of(number uint32) []uint32 { return v.ids[v.starts[number]:v.starts[number+1]] }

func (v *valueIDs) has(number uint32) bool { return v.starts[number] < v.starts[number+1] }

// byValue sorts the ids of the rows in keep by their value of a column: a counting
// sort.
func (t *measurementPicture) byValue(c *columnPicture, keep []bool) valueIDs {
	starts := make([]uint32, c.values.count()+2)
	c.rows.each(func(first int, rows []uint32) {
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
	c.rows.each(func(first int, rows []uint32) {
		for i, v := range rows {
			if keep[first+i] {
				ids[fill[v]] = t.ids.at(first + i)
				fill[v]++
			}
		}
	})
	return valueIDs{starts, ids}
}

// valuesOf returns the values of a column that rows in keep have, with the ids of these.
func (t *measurementPicture) valuesOf(c *columnPicture, keep []bool) *memtableValues {
	ids := t.byValue(c, keep)
	return &memtableValues{values: c.values, order: c.values.order(ids.has), ids: ids}
}

// number returns the number of a value, 0 if the memtable lacks it.
func (s *memtable) number(measurement, key, value string) uint32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m := s.measurements[measurement]; m != nil {
		if c := m.byKey[key]; c != nil {
			return c.values.find(value)
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
		for row := range t.ids.n {
			s.tags = s.tags[:0]
			for i := range t.columns {
				if c := &t.columns[i]; row < c.rows.n && c.rows.at(row) != 0 {
					s.tags = append(s.tags, model.Tag{Key: c.key, Value: c.values.text(c.rows.at(row))})
				}
			}
			s.addTags(t.ids.at(row), name, s.tags)
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
		tables[i].ids.each(func(_ int, ids []uint32) { set.AddMany(ids) })
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
