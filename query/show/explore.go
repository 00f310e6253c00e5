package show

import (
	"bytes"
	"cmp"
	"container/heap"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
)

// Exploration asks how many series of a database have which measurement, tag key and value.
type Exploration struct {
	Database    string
	Measurement string // "" is all
	Key         string // "" is all tag keys
	// Top is how many of each list are wanted, the largest first.
	Top int
	// Range leaves out the shards that do not overlap it.
	Range model.TimeRange
	// Keys and Values ask for what has their name in Explored; Pairs comes with
	// either.
	Keys, Values bool
}

// Explored is what Explore found. Series count once, in however many shards and
// retention policies they are.
type Explored struct {
	Series       int64 // in all
	Pairs        int64 // different pairs of tag key and value, in all
	Measurements []MeasurementCount
	Keys         []KeyCount
	Values       []ValueCount
}

// MeasurementCount is a measurement and the number of its series.
type MeasurementCount struct {
	Name   string
	Series int64
}

// KeyCount is a tag key, its different values, and the series that have it.
type KeyCount struct {
	Key            string
	Values, Series int64
}

// ValueCount is a value of a tag key and the series that have it.
type ValueCount struct {
	Key, Value string
	Series     int64
}

// Explore counts the series of a database by measurement, tag key and value,
// from the index alone.
func (s *Statement) Explore(x Exploration) (*Explored, error) {
	db, err := s.Database(x.Database)
	if err != nil {
		return nil, err
	}
	ctx := s.Ctx
	v, err := s.view(db.Name, policyNames(db), x.Range)
	defer v.release()
	if err != nil {
		return nil, err
	}
	var names []string
	if x.Measurement != "" {
		names = []string{x.Measurement}
	}
	list, err := v.measurements(ctx, names, nil)
	if err != nil {
		return nil, err
	}
	out := &Explored{}
	parts := map[string][]tagValues{} // by key: series that no other part has
	series := map[string]int64{}      // by key
	for _, m := range list {
		n, err := s.exploreMeasurement(m, &x, parts, series)
		if err != nil {
			return nil, err
		}
		out.Series += n
		out.Measurements = append(out.Measurements, MeasurementCount{m.name, n})
	}
	values := newTop(x.Top, func(a, b ValueCount) int {
		return cmp.Or(cmp.Compare(b.Series, a.Series), strings.Compare(a.Key, b.Key), strings.Compare(a.Value, b.Value))
	})
	for _, key := range slices.Sorted(maps.Keys(parts)) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		k := KeyCount{Key: key, Series: series[key]}
		if x.Values {
			err = countByValue(parts[key], func(value []byte, n int64) {
				k.Values++
				if last, full := values.last(); !full || n > last.Series { // values come in order
					values.add(ValueCount{key, string(value), n})
				}
			})
		} else {
			k.Values, err = countValues(ctx, parts[key])
		}
		if err != nil {
			return nil, err
		}
		out.Pairs += k.Values
		out.Keys = append(out.Keys, k)
	}
	out.Values = values.list
	slices.SortFunc(out.Measurements, func(a, b MeasurementCount) int {
		return cmp.Or(cmp.Compare(b.Series, a.Series), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(out.Keys, func(a, b KeyCount) int {
		return cmp.Or(cmp.Compare(b.Values, a.Values), cmp.Compare(b.Series, a.Series), strings.Compare(a.Key, b.Key))
	})
	return out, nil
}

// exploreMeasurement returns the number of a measurement's series and adds what
// they have of the keys that are asked for to parts and series.
func (s *Statement) exploreMeasurement(m indexMeasurement, x *Exploration, parts map[string][]tagValues, series map[string]int64) (int64, error) {
	seen := roaring.New()
	all, err := s.parts(m, seen, func(scan.Shard) *model.TagExpr { return nil })
	if err != nil {
		return 0, err
	}
	if !x.Keys && !x.Values {
		all = nil
	}
	for _, p := range all {
		keys, err := p.shard.TagKeys(m.name)
		if err != nil {
			return 0, err
		}
		for _, key := range keys {
			if x.Key != "" && key != x.Key {
				continue
			}
			with, err := p.shard.Select(s.Ctx, m.name, &model.TagExpr{Op: model.TagNotEqual, Key: key})
			if err != nil {
				return 0, err
			}
			if n := int64(with.AndCardinality(p.set)); n > 0 {
				series[key] += n
				parts[key] = append(parts[key], tagValues{p, key})
			}
		}
	}
	return int64(seen.GetCardinality()), nil
}

// countByValue calls f with each different value of parts, which share a key
// and no series, ascending, and with the number of series that have it. The
// value is f's until it returns.
func countByValue(parts []tagValues, f func(value []byte, n int64)) error {
	if len(parts) == 1 { // the usual case
		return parts[0].count(func(value []byte, n int64) bool {
			f(value, n)
			return true
		})
	}
	var walks walkHeap
	defer func() {
		for _, w := range walks {
			w.stop()
		}
	}()
	for i := range parts {
		w := &partWalk{}
		w.next, w.stop = iter.Pull2(parts[i].all(&w.err))
		if !w.advance() {
			w.stop()
			if w.err != nil {
				return w.err
			}
			continue
		}
		walks = append(walks, w)
	}
	heap.Init(&walks)
	var value []byte
	for len(walks) > 0 {
		value = append(value[:0], walks[0].value...)
		n := int64(0)
		for len(walks) > 0 && bytes.Equal(walks[0].value, value) {
			w := walks[0]
			n += w.n
			if w.advance() {
				heap.Fix(&walks, 0)
				continue
			}
			heap.Pop(&walks)
			w.stop()
			if w.err != nil {
				return w.err
			}
		}
		f(value, n)
	}
	return nil
}

// partWalk is a walk over the values of a part, at one of them.
type partWalk struct {
	value []byte
	n     int64
	err   error
	next  func() ([]byte, int64, bool)
	stop  func()
}

func (w *partWalk) advance() (ok bool) {
	w.value, w.n, ok = w.next()
	return ok
}

// walkHeap has the walk with the least value first.
type walkHeap []*partWalk

// Len implements heap.Interface.
func (h walkHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h walkHeap) Less(i, j int) bool { return bytes.Compare(h[i].value, h[j].value) < 0 }

// Swap implements heap.Interface.
func (h walkHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is part of heap.Interface.
func (h *walkHeap) Push(w any) { *h = append(*h, w.(*partWalk)) }

// Pop is part of heap.Interface.
func (h *walkHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	*h = (*h)[:last]
	return w
}

// all returns the values and their numbers of series as a sequence, whose error
// is set at its end.
func (v *tagValues) all(failed *error) iter.Seq2[[]byte, int64] {
	return func(yield func([]byte, int64) bool) {
		// It runs on a goroutine of its own.
		*failed = admission.Guard(func() error { return v.count(yield) })
	}
}

// count calls f with each value, ascending, and the number of series that have
// it, until f returns false.
func (v *tagValues) count(f func(value []byte, n int64) bool) error {
	return v.shard.CountByTagValue(v.name, v.key, v.index(), func(value []byte, n int) bool { return f(value, int64(n)) })
}

// top keeps the first n of what it is given, in order.
type top[T any] struct {
	n       int
	compare func(a, b T) int
	list    []T
}

func newTop[T any](n int, compare func(a, b T) int) *top[T] { return &top[T]{n: n, compare: compare} }

func (t *top[T]) add(x T) {
	i, _ := slices.BinarySearchFunc(t.list, x, t.compare)
	if i >= t.n {
		return
	}
	if len(t.list) == t.n {
		t.list = t.list[:t.n-1]
	}
	t.list = slices.Insert(t.list, i, x)
}

// last returns the last of a full list.
func (t *top[T]) last() (last T, full bool) {
	if t.n == 0 || len(t.list) < t.n {
		return last, t.n == 0
	}
	return t.list[t.n-1], true
}
