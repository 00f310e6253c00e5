package read

import (
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/expr"
	"tsdbd/query/result"
)

// GroupTable numbers the output series of a level: measurement and values of
// the group keys.
type GroupTable struct {
	index  map[string]int32
	Names  []string
	Tuples [][]string
}

// ids returns the numbers of distinct tuples. The first tuples of a table are
// numbered without looking: most queries read one shard.
func (t *GroupTable) ids(name string, tuples [][]string) []int32 {
	out := make([]int32, len(tuples))
	if len(t.Names) == 0 {
		t.Tuples = slices.Clone(tuples)
		t.Names = make([]string, len(tuples))
		for i := range tuples {
			t.Names[i] = name
			out[i] = int32(i)
		}
		return out
	}
	for i, tuple := range tuples {
		out[i] = t.ID(name, tuple)
	}
	return out
}

// ID returns the number of a group, which the table has from now on.
func (t *GroupTable) ID(name string, tuple []string) int32 {
	var buf [128]byte
	if t.index == nil {
		t.index = make(map[string]int32, len(t.Names))
		for i := range t.Names {
			t.index[string(scan.GroupKey(buf[:0], t.Names[i], t.Tuples[i]))] = int32(i)
		}
	}
	key := scan.GroupKey(buf[:0], name, tuple)
	if id, ok := t.index[string(key)]; ok {
		return id
	}
	id := int32(len(t.Names))
	t.index[string(key)] = id
	t.Names = append(t.Names, name)
	t.Tuples = append(t.Tuples, tuple)
	return id
}

func (t *GroupTable) compare(a, b int32) int {
	if c := strings.Compare(t.Names[a], t.Names[b]); c != 0 {
		return c
	}
	return slices.Compare(t.Tuples[a], t.Tuples[b])
}

// Order returns the groups in the order of output.
func (t *GroupTable) Order(asc bool) []int32 {
	out := make([]int32, len(t.Names))
	for i := range out {
		out[i] = int32(i)
	}
	slices.SortFunc(out, t.compare)
	if !asc {
		slices.Reverse(out)
	}
	return out
}

// Measurement is what one entry of FROM reads that is no subquery.
type Measurement struct {
	Name   string
	View   scan.View
	Shards []scan.Shard // with the measurement, oldest first
}

// Selection says which series to read, and how to group them.
type Selection struct {
	Sources []*Measurement // nil: a subquery
	Where   influxql.Expr  // WHERE
	Keys    []string       // keys of the groups
	Range   model.TimeRange

	Limit, Offset int // of the groups of each source; limit 0: none
}

// Unit is the part of a measurement source that lies in one shard.
type Unit struct {
	Source  *Measurement
	Order   int // place among the level's sources
	Shard   scan.Shard
	Series  *roaring.Bitmap
	byShard *scan.Groups
	Groups  []int32         // the level's group of each group of the shard; -1: cut by SLIMIT
	Filter  influxql.Expr   // predicate left for the rows
	Range   model.TimeRange // of the selection and the shard
	// Columns is what the columns of a subquery stand for, by name, if the unit is read
	// in its place.
	Columns map[string]influxql.Expr
	// Lead is for how long, from the start of Range, rows are only the predecessors of
	// others.
	Lead int64
	// Part tells the times between those of stored rows apart: steps are within one of them and
	// its lead.
	Part int32
}

// Bounds returns a range that holds all rows of a shard, as narrow as is known without
// reading them.
func Bounds(sh scan.Shard) model.TimeRange {
	if b, ok := sh.TimeBounds(nil); ok {
		return b.Intersect(sh.TimeRange())
	}
	return sh.TimeRange()
}

// Within returns the unit with the rows of r only.
func (u *Unit) Within(r model.TimeRange) *Unit {
	if r == u.Range {
		return u
	}
	part := *u
	part.Range = r
	return &part
}

// Group returns the level's group of a series.
func (u *Unit) Group(id model.SeriesID) int32 { return u.Groups[u.byShard.Of(id)] }

// What a unit holds in bytes, about: itself, per series its row in the sort and its
// group, per group its tuple and its place in the GroupTable.
const (
	unitBytes    = 600
	groupedBytes = 16
	groupBytes   = 160
)

// Units selects the series of all measurement sources, groups them, and limits
// the groups. Units are sorted by source, then time.
func (b *Budget) Units(t *GroupTable, sel Selection) ([]*Unit, error) {
	var out []*Unit
	tags, rest := expr.SplitTags(sel.Where, expr.IsFieldRef)
	for i, src := range sel.Sources {
		if src == nil || sel.Range.Empty() {
			continue
		}
		first := len(out)
		var shards []scan.Shard
		for _, sh := range src.Shards {
			if sh.TimeRange().Overlaps(sel.Range) {
				shards = append(shards, sh)
			}
		}
		found := make([]*Unit, len(shards))
		err := b.Parallel(len(shards), func(j int) error {
			u := &Unit{Source: src, Order: i, Shard: shards[j], Filter: rest, Range: sel.Range.Intersect(shards[j].TimeRange())}
			err := b.Check()
			if err != nil {
				return err
			}
			if u.Series, err = u.Shard.Select(b.Ctx, src.Name, tags); err != nil {
				return fmt.Errorf("select series of %s: %w", src.Name, err)
			}
			if u.Series == nil || u.Series.IsEmpty() {
				return nil
			}
			if err := b.KeepUnits(unitBytes + int64(u.Series.GetCardinality())*groupedBytes); err != nil {
				return err
			}
			if u.byShard, err = u.Shard.GroupBy(src.Name, u.Series, sel.Keys); err != nil {
				return fmt.Errorf("group series of %s: %w", src.Name, err)
			}
			found[j] = u
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, u := range found {
			if u == nil {
				continue
			}
			if err := b.countSeries(int(u.Series.GetCardinality())); err != nil {
				return nil, err
			}
			if err := b.KeepUnits(int64(len(u.byShard.Tuples)) * int64(groupBytes+16*len(sel.Keys))); err != nil {
				return nil, err
			}
			if u.Groups = t.ids(src.Name, u.byShard.Tuples); len(u.Groups) == 0 {
				u.Groups = []int32{t.ID(src.Name, make([]string, len(sel.Keys)))}
			}
			out = append(out, u)
		}
		if sel.Limit > 0 || sel.Offset > 0 {
			out = append(out[:first], sel.limitGroups(t, out[first:])...)
		}
	}
	return out, nil
}

// limitGroups cuts the groups of one source to the limit and the offset.
func (sel *Selection) limitGroups(t *GroupTable, us []*Unit) []*Unit {
	var ids []int32
	for _, u := range us {
		ids = append(ids, u.Groups...)
	}
	slices.SortFunc(ids, t.compare)
	ids = slices.Compact(ids)
	lo := min(sel.Offset, len(ids))
	hi := min(result.AddLimits(lo, sel.Limit), len(ids))
	keep := map[int32]bool{}
	for _, id := range ids[lo:hi] {
		keep[id] = true
	}
	var out []*Unit
	for _, u := range us {
		any := false
		for j, id := range u.Groups {
			if keep[id] {
				any = true
			} else {
				u.Groups[j] = -1
			}
		}
		if any {
			u.Series = u.Subset(func(g int32) bool { return g >= 0 })
			out = append(out, u)
		}
	}
	return out
}

// each calls f for the series of a set with their group of the shard.
func (u *Unit) each(set *roaring.Bitmap, f func(id uint32, g int)) {
	it := set.ManyIterator()
	buf := make([]uint32, 1024)
	for n := it.NextMany(buf); n > 0; n = it.NextMany(buf) {
		for _, id := range buf[:n] {
			f(id, u.byShard.Of(model.SeriesID(id)))
		}
	}
}

// Subset returns the series whose group satisfies keep.
func (u *Unit) Subset(keep func(int32) bool) *roaring.Bitmap {
	var ids []uint32
	u.each(u.Series, func(id uint32, g int) {
		if keep(u.Groups[g]) {
			ids = append(ids, id)
		}
	})
	return roaring.BitmapOf(ids...)
}

// Sizes returns how many series of a set each group of the shard has.
func (u *Unit) Sizes(set *roaring.Bitmap) []uint32 {
	out := make([]uint32, max(1, len(u.byShard.Tuples)))
	if len(out) == 1 {
		out[0] = uint32(set.GetCardinality())
		return out
	}
	u.each(set, func(_ uint32, g int) { out[g]++ })
	return out
}

// members returns the series of a set by group of the shard.
func (u *Unit) members(set *roaring.Bitmap) map[int]*roaring.Bitmap {
	if len(u.byShard.Tuples) <= 1 {
		return map[int]*roaring.Bitmap{0: set}
	}
	ids := map[int][]uint32{}
	u.each(set, func(id uint32, g int) { ids[g] = append(ids[g], id) })
	out := make(map[int]*roaring.Bitmap, len(ids))
	for g, list := range ids {
		out[g] = roaring.BitmapOf(list...)
	}
	return out
}

// stripe is how many ids go to a part before the next one's turn. Ids are given
// in the order in which series come up: the busy ones are often neighbours.
const stripe = 256

// Parts cuts a set of series into n disjoint sets of about the same size, in
// stripes if it is large.
func Parts(set *roaring.Bitmap, n int) []*roaring.Bitmap {
	total := set.GetCardinality()
	if n <= 1 || total < uint64(2*n) {
		return []*roaring.Bitmap{set}
	}
	out := make([]*roaring.Bitmap, 0, n)
	if first, last := uint64(set.Minimum()), uint64(set.Maximum()); total >= uint64(16*stripe*n) {
		for i := range uint64(n) {
			p := roaring.New()
			for at := first + i*stripe; at <= last; at += uint64(n) * stripe {
				p.AddRange(at, min(at+stripe, last+1))
			}
			p.And(set)
			out = append(out, p)
		}
		return out
	}
	from := uint64(0)
	for i := 1; i <= n; i++ {
		to := uint64(1) << 32
		if i < n {
			v, err := set.Select(uint32(total * uint64(i) / uint64(n)))
			if err != nil {
				break
			}
			to = uint64(v)
		}
		p := set.Clone()
		p.RemoveRange(0, from)
		p.RemoveRange(to, 1<<32)
		out = append(out, p)
		from = to
	}
	return out
}
