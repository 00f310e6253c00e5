// Package compare counts what is in two places and names the differences: how many
// values and series a measurement has, and the sums of its fields.
//
// Measurement.Add counts rows that a loader reads, Count those of an open store. Ask has a
// server count what it holds, by InfluxQL that InfluxDB 1.x, 2.x, and 3.x, and tsdbd
// answer. It asks a server that cannot count much at once for halves of the time. Differences
// compares two Totals, and Table prints both.
//
// Counts and sums of integers must be equal. Sums of floats may differ a little,
// because servers add in different orders. A sum that is not finite equals every other: in
// another order it may not overflow.
package compare

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vector"
	"tsdbd/model"
	"tsdbd/model/column"
)

// Name is a measurement of a retention policy.
type Name struct {
	Database    string
	Policy      string
	Measurement string
}

func (n Name) compare(o Name) int {
	return cmp.Or(cmp.Compare(n.Database, o.Database), cmp.Compare(n.Policy, o.Policy), cmp.Compare(n.Measurement, o.Measurement))
}

// Measurement is what a measurement has.
type Measurement struct {
	Series int64 // -1: nobody counted them
	// Set has the series where their ids are known. Merge then counts a series once.
	Set    *roaring.Bitmap
	Fields map[string]*Field
}

// Values returns the number of values of all fields.
func (m *Measurement) Values() (n int64) {
	for _, f := range m.Fields {
		n += f.Count
	}
	return n
}

// Field is what a field of a measurement has.
type Field struct {
	Count int64
	// Type says which of the sums counts. Texts and booleans have none, nor has a
	// field whose values have several types: that is Unknown.
	Type model.FieldType
	// Integer is the sum of integers and of unsigned integers. It wraps.
	Integer uint64
	// Float is the rounded sum of floats, and Lost what rounding took.
	Float float64
	Lost  float64
}

func (f *Field) add(t model.FieldType, count int64, integer uint64, sum, lost float64) {
	if f.Count == 0 {
		f.Type = t
	} else if f.Type != t {
		f.Type = model.Unknown
	}
	f.Count += count
	f.Integer += integer
	s, l := vector.TwoSum(f.Float, sum)
	f.Float, f.Lost = s, f.Lost+(lost+l)
}

// number returns the sum as a number to show, and false if there is none.
func (f *Field) number() (any, bool) {
	switch f.Type {
	case model.Integer:
		return int64(f.Integer), true
	case model.Unsigned:
		return f.Integer, true
	case model.Float:
		return f.sum(), true
	}
	return nil, false
}

// sum returns the sum of floats. Where it is infinite, what rounding took is no number.
func (f *Field) sum() float64 {
	if math.IsInf(f.Float, 0) {
		return f.Float
	}
	return f.Float + f.Lost
}

// Totals are the measurements of some retention policies.
type Totals map[Name]*Measurement

// Of returns a measurement, made if needed, without series.
func (t Totals) Of(n Name) *Measurement {
	m := t[n]
	if m == nil {
		m = &Measurement{Fields: map[string]*Field{}}
		t[n] = m
	}
	return m
}

// Count returns the number of values of a field.
func (t Totals) Count(n Name, key string) int64 {
	if m := t[n]; m != nil && m.Fields[key] != nil {
		return m.Fields[key].Count
	}
	return 0
}

// Names returns the measurements in order.
func (t Totals) Names() []Name { return slices.SortedFunc(maps.Keys(t), Name.compare) }

// Values returns the number of values of all measurements.
func (t Totals) Values() (n int64) {
	for _, m := range t {
		n += m.Values()
	}
	return n
}

// Merge adds the totals of o, which must not be used after it. Of measurements without sets
// no series is in both.
func (t Totals) Merge(o Totals) {
	for name, m := range o {
		to := t[name]
		if to == nil { // there may be very many, and no room for both
			t[name] = m
			continue
		}
		if m.Set != nil {
			if to.Set == nil {
				to.Set = roaring.New()
			}
			to.Set.Or(m.Set)
			to.Series = int64(to.Set.GetCardinality())
		} else if to.Series < 0 || m.Series < 0 {
			to.Series = -1
		} else {
			to.Series += m.Series
		}
		for key, f := range m.Fields {
			to.field(key).add(f.Type, f.Count, f.Integer, f.Float, f.Lost)
		}
	}
}

func (m *Measurement) field(key string) *Field {
	f := m.Fields[key]
	if f == nil {
		f = &Field{}
		m.Fields[key] = f
	}
	return f
}

// Add counts rows of a series. It does not count the series: the caller knows whether
// these are its first rows. NaN is no value, as in InfluxQL.
func (m *Measurement) Add(fields []column.Field, rows *column.Rows) {
	for i := range fields {
		m.addVector(fields[i].Key, &rows.Cols[i], len(rows.Times))
	}
}

// addVector adds the values of a field in n rows.
func (m *Measurement) addVector(key string, v *column.Vector, n int) {
	count := n
	if v.Valid != nil {
		count = v.Valid.Count(n)
	}
	integer, sum, lost := sums(v, n, count)
	if math.IsNaN(sum) {
		count, sum, lost = numbers(v)
	}
	if count > 0 {
		m.field(key).add(v.Type, int64(count), integer, sum, lost)
	}
}

// numbers counts and adds the floats that are not NaN.
func numbers(v *column.Vector) (count int, sum, lost float64) {
	for i, x := range v.Floats {
		if v.IsValid(i) && !math.IsNaN(x) {
			count++
			var l float64
			sum, l = vector.TwoSum(sum, x)
			lost += l
		}
	}
	return count, sum, lost
}

// sums adds the values of a vector of n rows.
func sums(v *column.Vector, n, count int) (integer uint64, sum, lost float64) {
	whole := count == n
	switch v.Type {
	case model.Float:
		if whole {
			sum, lost = vector.SumFloats(v.Floats)
			return 0, sum, lost
		}
		for i, x := range v.Floats {
			if v.Valid.Get(i) {
				var l float64
				sum, l = vector.TwoSum(sum, x)
				lost += l
			}
		}
	case model.Integer:
		if whole {
			return uint64(vector.SumInts(v.Ints)), 0, 0
		}
		for i, x := range v.Ints {
			if v.Valid.Get(i) {
				integer += uint64(x)
			}
		}
	case model.Unsigned:
		for i, x := range v.Uints {
			if whole || v.Valid.Get(i) {
				integer += x
			}
		}
	}
	return integer, sum, lost
}
