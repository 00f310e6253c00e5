package engine

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

// groupTable numbers the output series of a level: measurement and values of
// the group keys.
type groupTable struct {
	index  map[string]int32
	names  []string
	tuples [][]string
}

// ids returns the numbers of distinct tuples. The first tuples of a table are
// numbered without looking: most queries read one shard.
func (t *groupTable) ids(name string, tuples [][]string) []int32 {
	out := make([]int32, len(tuples))
	if len(t.names) == 0 {
		t.tuples = slices.Clone(tuples)
		t.names = make([]string, len(tuples))
		for i := range tuples {
			t.names[i] = name
			out[i] = int32(i)
		}
		return out
	}
	for i, tuple := range tuples {
		out[i] = t.id(name, tuple)
	}
	return out
}

func (t *groupTable) id(name string, tuple []string) int32 {
	var buf [128]byte
	if t.index == nil {
		t.index = make(map[string]int32, len(t.names))
		for i := range t.names {
			t.index[string(scan.GroupKey(buf[:0], t.names[i], t.tuples[i]))] = int32(i)
		}
	}
	key := scan.GroupKey(buf[:0], name, tuple)
	if id, ok := t.index[string(key)]; ok {
		return id
	}
	id := int32(len(t.names))
	t.index[string(key)] = id
	t.names = append(t.names, name)
	t.tuples = append(t.tuples, tuple)
	return id
}

func (t *groupTable) compare(a, b int32) int {
	if c := strings.Compare(t.names[a], t.names[b]); c != 0 {
		return c
	}
	return slices.Compare(t.tuples[a], t.tuples[b])
}

// order returns the groups in the order of output.
func (t *groupTable) order(asc bool) []int32 {
	out := make([]int32, len(t.names))
	for i := range out {
		out[i] = int32(i)
	}
	slices.SortFunc(out, t.compare)
	if !asc {
		slices.Reverse(out)
	}
	return out
}

// measurement is what one entry of FROM reads that is no subquery.
type measurement struct {
	name   string
	view   scan.View
	shards []scan.Shard // with the measurement, oldest first
}

// selection says which series to read, and how to group them.
type selection struct {
	sources []*measurement // nil: a subquery
	cond    influxql.Expr  // WHERE
	dims    []string       // keys of the groups
	rng     model.TimeRange

	limit, offset int // of the groups of each source; limit 0: none
}

// unit is the part of a measurement source that lies in one shard.
type unit struct {
	src    *measurement
	order  int // place among the level's sources
	shard  scan.Shard
	set    *roaring.Bitmap
	groups *scan.Groups
	gid    []int32       // the level's group of each of groups; -1: cut by SLIMIT
	rest   influxql.Expr // predicate left for the rows
}

func (u *unit) group(id model.SeriesID) int32 { return u.gid[u.groups.Of(id)] }

// What the grouping of a shard holds in bytes, about: per series its row in the
// sort and its group, per group its tuple and its place in the groupTable.
const (
	groupedBytes = 16
	groupBytes   = 160
)

// units selects the series of all measurement sources, groups them, and limits
// the groups. Units are sorted by source, then time.
func (b *budget) units(t *groupTable, sel selection) ([]*unit, error) {
	var out []*unit
	tags, rest := expr.SplitTags(sel.cond, expr.IsFieldRef)
	for i, src := range sel.sources {
		if src == nil || sel.rng.Empty() {
			continue
		}
		first := len(out)
		var shards []scan.Shard
		for _, sh := range src.shards {
			if sh.TimeRange().Overlaps(sel.rng) {
				shards = append(shards, sh)
			}
		}
		found := make([]*unit, len(shards))
		err := b.parallel(len(shards), func(j int) error {
			u := &unit{src: src, order: i, shard: shards[j], rest: rest}
			err := b.check()
			if err != nil {
				return err
			}
			if u.set, err = u.shard.Select(b.ctx, src.name, tags); err != nil {
				return fmt.Errorf("select series of %s: %w", src.name, err)
			}
			if u.set == nil || u.set.IsEmpty() {
				return nil
			}
			if err := b.keep(int64(u.set.GetCardinality()) * groupedBytes); err != nil {
				return err
			}
			if u.groups, err = u.shard.GroupBy(src.name, u.set, sel.dims); err != nil {
				return fmt.Errorf("group series of %s: %w", src.name, err)
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
			if err := b.countSeries(int(u.set.GetCardinality())); err != nil {
				return nil, err
			}
			if err := b.keep(int64(len(u.groups.Tuples)) * int64(groupBytes+16*len(sel.dims))); err != nil {
				return nil, err
			}
			if u.gid = t.ids(src.name, u.groups.Tuples); len(u.gid) == 0 {
				u.gid = []int32{t.id(src.name, make([]string, len(sel.dims)))}
			}
			out = append(out, u)
		}
		if sel.limit > 0 || sel.offset > 0 {
			out = append(out[:first], sel.limitGroups(t, out[first:])...)
		}
	}
	return out, nil
}

// limitGroups cuts the groups of one source to the limit and the offset.
func (sel *selection) limitGroups(t *groupTable, us []*unit) []*unit {
	var ids []int32
	for _, u := range us {
		ids = append(ids, u.gid...)
	}
	slices.SortFunc(ids, t.compare)
	ids = slices.Compact(ids)
	lo := min(sel.offset, len(ids))
	hi := min(result.AddLimits(lo, sel.limit), len(ids))
	keep := map[int32]bool{}
	for _, id := range ids[lo:hi] {
		keep[id] = true
	}
	var out []*unit
	for _, u := range us {
		any := false
		for j, id := range u.gid {
			if keep[id] {
				any = true
			} else {
				u.gid[j] = -1
			}
		}
		if any {
			u.set = u.subset(func(g int32) bool { return g >= 0 })
			out = append(out, u)
		}
	}
	return out
}

// subset returns the series whose group satisfies keep.
func (u *unit) subset(keep func(int32) bool) *roaring.Bitmap {
	var ids []uint32
	it := u.set.ManyIterator()
	buf := make([]uint32, 1024)
	for n := it.NextMany(buf); n > 0; n = it.NextMany(buf) {
		for _, id := range buf[:n] {
			if keep(u.group(model.SeriesID(id))) {
				ids = append(ids, id)
			}
		}
	}
	out := roaring.New()
	out.AddMany(ids)
	return out
}

// sizes returns how many series of a set each of u.groups has.
func (u *unit) sizes(set *roaring.Bitmap) []uint32 {
	out := make([]uint32, max(1, len(u.groups.Tuples)))
	if len(out) == 1 {
		out[0] = uint32(set.GetCardinality())
		return out
	}
	it := set.ManyIterator()
	buf := make([]uint32, 1024)
	for n := it.NextMany(buf); n > 0; n = it.NextMany(buf) {
		for _, id := range buf[:n] {
			out[u.groups.Of(model.SeriesID(id))]++
		}
	}
	return out
}

// members returns the series of a set by group of u.groups.
func (u *unit) members(set *roaring.Bitmap) map[int]*roaring.Bitmap {
	if len(u.groups.Tuples) <= 1 {
		return map[int]*roaring.Bitmap{0: set}
	}
	ids := map[int][]uint32{}
	it := set.ManyIterator()
	buf := make([]uint32, 1024)
	for n := it.NextMany(buf); n > 0; n = it.NextMany(buf) {
		for _, id := range buf[:n] {
			g := u.groups.Of(model.SeriesID(id))
			ids[g] = append(ids[g], id)
		}
	}
	out := make(map[int]*roaring.Bitmap, len(ids))
	for g, list := range ids {
		out[g] = roaring.New()
		out[g].AddMany(list)
	}
	return out
}

// stripe is how many ids go to a part before the next one's turn. Ids are given
// in the order in which series come up: the busy ones are often neighbours.
const stripe = 256

// parts cuts a set of series into n disjoint sets of about the same size, in
// stripes if it is large.
func parts(set *roaring.Bitmap, n int) []*roaring.Bitmap {
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
