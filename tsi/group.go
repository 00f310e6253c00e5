package tsi

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/tsi/dictionary"
	"tsdbd/tsi/paged"
)

// GroupBy assigns every series of set, which must be series of the
// measurement, to the group of its values of keys. Without keys there is one
// group.
func (v Charged) GroupBy(measurement string, set *roaring.Bitmap, keys []string) (*scan.Groups, error) {
	if len(keys) == 0 {
		return scan.NewGroups([][]string{{}}, nil, nil), nil
	}
	ids := dictionary.AppendIDs(nil, set)
	if len(ids) == 0 {
		return scan.NewGroups(nil, nil, nil), nil
	}
	columns, err := v.groupColumns(measurement, set, ids, keys)
	if err != nil {
		return nil, err
	}
	tuples, groups := tuplesOf(columns, len(ids))
	return scan.NewGroups(tuples, ids, groups), nil
}

// groupColumn holds a tag's value of each series: values[rows[i]], where
// values is sorted and begins with "".
type groupColumn struct {
	values []string
	rows   []uint32
}

func (v Charged) groupColumns(measurement string, set *roaring.Bitmap, ids []uint32, keys []string) ([]groupColumn, error) {
	byKeys, err := v.cheaperByKeys(measurement, ids, keys)
	if err != nil {
		return nil, err
	}
	if byKeys {
		if columns, err := v.columnsFromKeys(ids, keys); err == nil {
			return columns, nil
		}
		// A damaged series file is no reason to fail: the index knows too.
	}
	ranks := dictionary.NewRanks(ids)
	columns := make([]groupColumn, len(keys))
	for i, key := range keys {
		if columns[i], err = v.column(measurement, key, set, ids, &ranks); err != nil {
			return nil, err
		}
	}
	return columns, nil
}

// keysTogether is about how many keys of neighboring ids IndexOptions.Keys
// unpacks together.
const keysTogether = 128

// cheaperByKeys compares what reading the series' keys costs, about 5 us for
// keysTogether and 1 us a key, with the dictionaries: 30 ns a value and 10 ns an
// id, or 5 ns of a memtable.
func (v *View) cheaperByKeys(measurement string, ids []uint32, keys []string) (bool, error) {
	if v.index.opt.Keys == nil {
		return false, nil
	}
	span := float64(ids[len(ids)-1]-ids[0]) + 1
	n := float64(len(ids))
	blocks := math.Min(n, span/keysTogether+1)
	viaKeys := n*(600+100*float64(len(keys))) + blocks*5000
	via := 0.0
	for _, f := range v.files {
		m := f.measurement(measurement)
		if m == nil {
			continue
		}
		for _, key := range keys {
			t, err := f.tag(m, key)
			if err != nil {
				return false, err
			}
			if t != nil {
				via += 30*float64(t.Values) + 10*float64(m.series)
			}
		}
		if via > viaKeys {
			return true, nil
		}
	}
	for _, s := range v.memtables {
		if t, ok := s.table(measurement, false); ok {
			via += 5 * float64(t.ids.Len()*len(keys))
		}
	}
	return via > viaKeys, nil
}

// columnsFromKeys reads the values from the series' keys.
func (v Charged) columnsFromKeys(ids []uint32, keys []string) ([]groupColumn, error) {
	columns := make([]groupColumn, len(keys))
	numbers := make([]map[string]uint32, len(keys))
	for i := range keys {
		columns[i] = groupColumn{values: []string{""}, rows: make([]uint32, len(ids))}
		numbers[i] = map[string]uint32{"": 0}
	}
	list := make([]model.SeriesID, len(ids))
	for i, id := range ids {
		list[i] = model.SeriesID(id)
	}
	var tags model.Tags
	texts := paged.Arena{Charge: v.charge}
	add := func(row int, key string) error {
		_, tags = model.ParseSeriesKey(key, tags[:0])
		for i, k := range keys {
			value := tags.Get(k)
			n, ok := numbers[i][value]
			if !ok {
				if err := texts.Take(paged.MapEntryBytes + len(value)); err != nil {
					return err
				}
				value = strings.Clone(value)
				n = uint32(len(columns[i].values))
				columns[i].values = append(columns[i].values, value)
				numbers[i][value] = n
			}
			columns[i].rows[row] = n
		}
		return nil
	}
	// A charge may wait for memory. It must not wait under the lock of the series
	// file, which Keys holds.
	const run = 256
	read := make([]string, min(run, len(list)))
	for lo := 0; lo < len(list); lo += run {
		part := list[lo:min(lo+run, len(list))]
		err := v.index.opt.Keys(part, func(i int, key string) error {
			read[i] = key
			return nil
		})
		for i := 0; i < len(part) && err == nil; i++ {
			err = add(lo+i, read[i])
		}
		if err != nil {
			return nil, err
		}
	}
	if err := texts.Settle(); err != nil {
		return nil, err
	}
	for i := range columns {
		columns[i].sort()
	}
	return columns, nil
}

// sort renumbers the values in their order.
func (c *groupColumn) sort() {
	if slices.IsSorted(c.values) {
		return
	}
	order := make([]uint32, len(c.values))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return strings.Compare(c.values[a], c.values[b]) })
	rename := make([]uint32, len(order))
	sorted := make([]string, len(order))
	for i, o := range order {
		rename[o] = uint32(i)
		sorted[i] = c.values[o]
	}
	c.values = sorted
	for i, n := range c.rows {
		c.rows[i] = rename[n]
	}
}

// column reads one tag of the series from the layers.
func (v Charged) column(measurement, key string, set *roaring.Bitmap, ids []uint32, ranks *dictionary.Ranks) (groupColumn, error) {
	col := groupColumn{values: []string{""}, rows: make([]uint32, len(ids))}
	w, err := v.walkValues(measurement, key, func(t *measurementPicture) *memtableValues {
		keep := make([]bool, t.ids.Len())
		t.ids.Each(func(first int, ids []uint32) {
			for i, id := range ids {
				keep[first+i] = ranks.Of(id) >= 0
			}
		})
		return t.valuesOf(&t.columns[0], keep)
	})
	if err != nil {
		return col, err
	}
	most := 1
	for _, c := range w.cursors {
		most += c.Tag().Values
	}
	for _, sv := range w.memtables {
		most += len(sv.order)
	}
	col.values = slices.Grow(col.values, min(most, len(ids)))
	// A value gets its number with its first series of the set.
	var buf []uint32
	texts := paged.Arena{Charge: v.charge}
	for w.next() {
		number := uint32(len(col.values))
		hit := false
		for _, c := range w.files {
			if id, ok := c.Posting.Single(); ok {
				buf = append(buf[:0], id)
			} else {
				var bm *roaring.Bitmap
				var err error
				if buf, bm, err = c.Posting.Unpack(buf[:0]); err != nil {
					return col, c.At(err)
				}
				if bm != nil {
					bm.And(set)
					buf = dictionary.AppendIDs(buf, bm)
				}
			}
			for _, id := range buf {
				if r := ranks.Of(id); r >= 0 {
					col.rows[r] = number
					hit = true
				}
			}
		}
		for _, sv := range w.mems {
			for _, id := range sv.current() {
				col.rows[ranks.Of(id)] = number
			}
			hit = true
		}
		if hit {
			text, err := texts.Add(w.value)
			if err != nil {
				return col, err
			}
			col.values = append(col.values, text)
		}
	}
	return col, errors.Join(w.err, texts.Settle())
}

// TagValueCount returns the number of values of a tag key in the measurement.
// Where one file knows all and nothing in it is deleted it costs no walk.
func (v *View) TagValueCount(measurement, key string) (int, error) {
	var only *dictionary.Tag
	tags := 0
	for _, f := range v.files {
		if m := f.measurement(measurement); m != nil {
			t, err := f.tag(m, key)
			if err != nil {
				return 0, err
			}
			if t != nil {
				only = t
				tags++
			}
		}
	}
	for _, s := range v.memtables {
		if t, ok := s.table(measurement, false, key); ok && t.columns[0].rows.Len() > 0 {
			tags = 2
		}
	}
	if tags == 1 && only.Present.AndCardinality(v.alive) == only.Present.GetCardinality() {
		return only.Values, nil
	}
	w, err := v.walkTagValues(measurement, key, nil, math.MaxInt, false)
	if err != nil {
		return 0, err
	}
	n := 0
	err = w.each(func([]byte) bool {
		n++
		return true
	})
	return n, err
}

// boundsOf returns a slice that has the set's length, first and last id.
func boundsOf(set *roaring.Bitmap) []uint32 {
	ids := make([]uint32, min(set.GetCardinality(), 1<<20))
	ids[0] = set.Minimum()
	ids[len(ids)-1] = set.Maximum()
	return ids
}

// tuplesOf returns the sorted distinct tuples of n rows and each row's tuple.
// A stable counting sort per column, last column first, brings the rows into
// the order of their tuples.
func tuplesOf(columns []groupColumn, n int) ([][]string, []uint32) {
	if len(columns) == 1 {
		return singlesOf(&columns[0])
	}
	order := make([]uint32, n)
	for i := range order {
		order[i] = uint32(i)
	}
	spare := make([]uint32, n)
	for c := len(columns) - 1; c >= 0; c-- {
		col := &columns[c]
		starts := make([]uint32, len(col.values)+1)
		for _, v := range col.rows {
			starts[v+1]++
		}
		for v := 1; v < len(starts); v++ {
			starts[v] += starts[v-1]
		}
		for _, row := range order {
			v := col.rows[row]
			spare[starts[v]] = row
			starts[v]++
		}
		order, spare = spare, order
	}
	groups := spare
	var count uint32
	var firsts []uint32
	for i, row := range order {
		if i > 0 {
			for c := range columns {
				if rows := columns[c].rows; rows[row] != rows[order[i-1]] {
					count++
					break
				}
			}
		}
		if i == 0 || uint32(len(firsts)) == count {
			firsts = append(firsts, row)
		}
		groups[row] = count
	}
	texts := make([]string, 0, len(firsts)*len(columns))
	tuples := make([][]string, len(firsts))
	for g, row := range firsts {
		for c := range columns {
			texts = append(texts, columns[c].values[columns[c].rows[row]])
		}
		tuples[g] = texts[g*len(columns) : len(texts) : len(texts)]
	}
	return tuples, groups
}

// singlesOf is tuplesOf of one column: its values are in order already, some
// may be of no row.
func singlesOf(c *groupColumn) ([][]string, []uint32) {
	groups := make([]uint32, len(c.values))
	for _, v := range c.rows {
		groups[v] = 1
	}
	tuples := make([][]string, 0, len(c.values))
	for v, used := range groups {
		if used != 0 {
			groups[v] = uint32(len(tuples))
			tuples = append(tuples, c.values[v:v+1:v+1])
		}
	}
	for i, v := range c.rows {
		c.rows[i] = groups[v]
	}
	return tuples, c.rows
}
