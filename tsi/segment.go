package tsi

import (
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/column"
	"tsdbd/internal/vfs"
	"tsdbd/model"
)

// segment is the index of the series added since a Freeze, in memory. Per
// measurement it holds a table: a row per series, a column of value numbers
// per tag key. Rows are only ever appended, so a reader copies the slice
// headers under the lock and then reads what stood there without it.
//
// A row costs 4 bytes and 4 per tag key; a value about 100 bytes, once.
type segment struct {
	mu           sync.RWMutex
	measurements map[string]*segmentMeasurement
	series       idBits
	n            int
	tags         model.Tags // scratch of add
}

type segmentMeasurement struct {
	ids     []uint32
	columns []*segmentColumn // in order of appearance
	byKey   map[string]*segmentColumn
}

// segmentColumn is a tag key. Number 0 means that the series lacks the tag;
// rows may be shorter than the table, the rest lack it.
type segmentColumn struct {
	key     string
	values  []string
	numbers map[string]uint32
	rows    []uint32
	last    uint32 // number of the row added last: sorted keys repeat their values
}

func newSegment() *segment { return &segment{measurements: map[string]*segmentMeasurement{}} }

// add adds a series, once, and returns its measurement.
func (s *segment) add(id uint32, key string) (measurement string) {
	var tags model.Tags
	measurement, tags = model.ParseSeriesKey(key, s.tags[:0])
	s.tags = tags
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.series.get(id) {
		return measurement
	}
	s.series.set(id)
	s.n++
	m := s.measurements[measurement]
	if m == nil {
		m = &segmentMeasurement{byKey: map[string]*segmentColumn{}}
		s.measurements[measurement] = m
	}
	row := len(m.ids)
	m.ids = append(m.ids, id)
	for i := range tags {
		if tags[i].Value == "" {
			continue // the same as no tag
		}
		var c *segmentColumn
		if i < len(m.columns) && m.columns[i].key == tags[i].Key {
			c = m.columns[i]
		} else if c = m.byKey[tags[i].Key]; c == nil {
			c = &segmentColumn{key: tags[i].Key, values: []string{""}, numbers: map[string]uint32{}}
			m.columns = append(m.columns, c)
			m.byKey[c.key] = c
		}
		if len(c.rows) > row {
			continue // the key stands twice in the series key; the first one counts
		}
		if c.values[c.last] != tags[i].Value {
			n, ok := c.numbers[tags[i].Value]
			if !ok {
				n = uint32(len(c.values))
				c.values = append(c.values, tags[i].Value)
				c.numbers[tags[i].Value] = n
			}
			c.last = n
		}
		for len(c.rows) < row {
			c.rows = append(c.rows, 0)
		}
		c.rows = append(c.rows, c.last)
	}
	return measurement
}

// segmentTable is a picture of a segment's measurement.
type segmentTable struct {
	ids     []uint32
	columns []segmentPicture
}

type segmentPicture struct {
	key    string
	values []string
	rows   []uint32
}

// table returns the picture of a measurement, with the columns of the given
// keys only unless all is set; false if there is no such measurement.
func (s *segment) table(measurement string, all bool, keys ...string) (segmentTable, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := s.measurements[measurement]
	if m == nil {
		return segmentTable{}, false
	}
	t := segmentTable{ids: m.ids}
	if all {
		for _, c := range m.columns {
			t.columns = append(t.columns, segmentPicture{c.key, c.values, c.rows})
		}
		return t, true
	}
	for _, k := range keys {
		p := segmentPicture{key: k, values: []string{""}}
		if c := m.byKey[k]; c != nil {
			p.values, p.rows = c.values, c.rows
		}
		t.columns = append(t.columns, p)
	}
	return t, true
}

// number returns the number of a value, 0 if the segment lacks it.
func (s *segment) number(measurement, key, value string) uint32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if m := s.measurements[measurement]; m != nil {
		if c := m.byKey[key]; c != nil {
			return c.numbers[value]
		}
	}
	return 0
}

// names returns the measurements, unsorted.
func (s *segment) names() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names := make([]string, 0, len(s.measurements))
	for n := range s.measurements {
		names = append(names, n)
	}
	return names
}

// write writes the segment's series that are in alive, and the fields.
func (s *segment) write(fs vfs.FS, path string, alive *roaring.Bitmap, fields map[string][]column.Field) (FileInfo, error) {
	w, err := createFile(fs, path)
	if err != nil {
		return FileInfo{}, err
	}
	names := s.names()
	for n := range fields {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		t, _ := s.table(name, true)
		w.table(name, t, alive, fields[name])
	}
	return w.finish(fs)
}

// table writes a measurement. One without series and fields is left out.
func (w *fileWriter) table(name string, t segmentTable, alive *roaring.Bitmap, fields []column.Field) {
	set := roaring.New()
	set.AddMany(t.ids)
	set.And(alive)
	if set.IsEmpty() && len(fields) == 0 {
		return
	}
	m := &measurementWriter{w: w, all: set}
	slices.SortFunc(t.columns, func(a, b segmentPicture) int { return compareStrings(a.key, b.key) })
	keep := make([]bool, len(t.ids))
	for i, id := range t.ids {
		keep[i] = set.Contains(id)
	}
	var scratch []uint32
	for _, c := range t.columns {
		// Counting sort of the rows by value number.
		starts := make([]uint32, len(c.values)+1)
		for i, v := range c.rows {
			if keep[i] {
				starts[v+1]++
			}
		}
		for v := 1; v < len(starts); v++ {
			starts[v] += starts[v-1]
		}
		ids := make([]uint32, starts[len(starts)-1])
		fill := slices.Clone(starts)
		for i, v := range c.rows {
			if keep[i] {
				ids[fill[v]] = t.ids[i]
				fill[v]++
			}
		}
		order := make([]uint32, 0, len(c.values))
		for v := 1; v < len(c.values); v++ {
			if starts[v] < starts[v+1] {
				order = append(order, uint32(v))
			}
		}
		slices.SortFunc(order, func(a, b uint32) int { return compareStrings(c.values[a], c.values[b]) })
		tw := w.tag()
		for _, v := range order {
			part := ids[starts[v]:starts[v+1]]
			if !slices.IsSorted(part) {
				slices.Sort(part)
			}
			scratch = part
			tw.add([]byte(c.values[v]), scratch)
		}
		m.key(c.key, tw)
	}
	m.finish(name, fields)
}
