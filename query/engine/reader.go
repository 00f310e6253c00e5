package engine

import (
	"cmp"
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/query/engine/read"
	"tsdbd/query/engine/rowset"
)

// reader is the operator that returns the rows of a level's sources, group by group
// and in order of time. Several calls may share a reader, which reads their rows
// once.
type reader struct {
	refs   []influxql.VarRef       // columns of the rows, each once
	refAt  map[influxql.VarRef]int // places of refs, for calls
	rng    model.TimeRange
	ties   rowset.Ties
	limit  int  // first rows wanted of each group, 0: all
	pieces bool // the rows of a group may come in several pieces
	ofTags bool // for functions of tags, which see only what subqueries give

	r       *levelRun
	did     *read.Counts           // of EXPLAIN ANALYZE, else nil
	sources []*read.Unit           // in the order of reading
	subs    map[int32][]rowset.Set // rows of the subqueries, by group
	alone   bool                   // the present batch is one group, which rows reads in pieces
	got     []*rowset.Set          // rows of the present batch of groups, unless alone
	place   []int32                // of each group in got, counted from 1
}

// open implements operator.
func (rd *reader) open(r *levelRun) error {
	rd.r, rd.subs, rd.did = r, map[int32][]rowset.Set{}, r.x.prof.open(rd)
	if rd.ofTags {
		return nil
	}
	rd.sources = slices.Clone(r.units)
	if !r.l.Asc {
		// Newest shards first; the sources stay in their order.
		slices.SortStableFunc(rd.sources, func(a, b *read.Unit) int {
			if a.Order != b.Order {
				return a.Order - b.Order
			}
			return -cmp.Compare(a.Shard.TimeRange().Min, b.Shard.TimeRange().Min)
		})
	}
	return nil
}

// wants implements operator.
func (rd *reader) wants() ([]influxql.VarRef, model.TimeRange) { return rd.refs, rd.rng }

// run implements operator. A reader has nothing to do before the first batch.
func (rd *reader) run() error { return nil }

// take implements operator.
func (rd *reader) take(g int32, rs *rowset.Set) error {
	rd.subs[g] = append(rd.subs[g], *rs)
	return rd.r.x.Keep(rs.Bytes())
}

// request returns what to read of the groups that want accepts.
func (rd *reader) request(rng model.TimeRange, ties rowset.Ties, want func(int32) bool) read.Request {
	return read.Request{Refs: rd.refs, Range: rng, Asc: rd.r.l.Asc, Limit: rd.limit, Ties: ties, Want: want, Counts: rd.did}
}

// read implements operator.
func (rd *reader) read(batch []int32) error {
	l, t := rd.r.l, rd.r.groups
	if rd.alone = rd.pieces && len(batch) == 1 && rd.r.sources == 1 && !l.HasSubs(); rd.alone {
		return nil
	}
	defer rd.r.x.prof.operator(rd, rd.r.x.prof.start())
	place := make([]int32, len(t.Names))
	for i, g := range batch {
		place[g] = int32(i) + 1
	}
	sets := make([]groupSets, len(batch))
	full := 0 // groups that have what they need of the present source
	lastOrder := -1
	for _, u := range rd.sources {
		if u.Order != lastOrder {
			lastOrder, full = u.Order, 0
		}
		want := func(g int32) bool { return place[g] > 0 && sets[place[g]-1].full != u.Order+1 }
		if full == 0 && len(batch) == len(t.Names) {
			want = nil
		} else if full == len(batch) {
			continue
		}
		m, _, err := rd.r.x.Rows(u, rd.request(rd.rng, rd.ties, want))
		if err != nil {
			return err
		}
		for g, rs := range m {
			s := &sets[place[g]-1]
			if s.add(rs, u.Order); rd.limit > 0 && s.full != u.Order+1 && len(s.list[len(s.list)-1].Times) >= rd.limit {
				s.full = u.Order + 1
				full++
			}
		}
	}
	rd.got, rd.place = make([]*rowset.Set, len(batch)), place
	for i, g := range batch {
		list := sets[i].list
		for k := range rd.subs[g] {
			list = append(list, &rd.subs[g][k])
		}
		if len(list) > 0 {
			rd.got[i] = rowset.Merge(&rd.r.x.stop, list, l.Asc, min(rd.ties, subTies(l)))
		}
	}
	return nil
}

// of returns the rows of a group of the present batch, nil if there are none.
func (rd *reader) of(g int32) *rowset.Set { return rd.got[rd.place[g]-1] }

// rows passes the rows of a group of the present batch to out.
func (rd *reader) rows(g int32, out *seriesOut) error {
	if !rd.alone {
		if rs := rd.of(g); rs != nil {
			return out.rowset(rs)
		}
		return nil
	}
	s := &stream{reader: rd, x: rd.r.x, out: out}
	if len(rd.r.groups.Names) > 1 {
		s.want = func(group int32) bool { return group == g }
	}
	for _, u := range rd.sources {
		if err := s.unit(u); err != nil || out.full() {
			return err
		}
	}
	return nil
}

// groupSets is the rows of a group, a set for each source.
type groupSets struct {
	list []*rowset.Set
	one  [1]*rowset.Set // memory of list
	of   int            // order of the source of the last one
	full int            // order of the last source that gave enough rows, plus one
}

func (s *groupSets) add(rs *rowset.Set, order int) {
	switch {
	case s.list == nil:
		s.one[0] = rs
		s.list = s.one[:]
	case s.of != order:
		s.list = append(s.list, rs)
	default:
		s.list[len(s.list)-1].Append(rs)
	}
	s.of = order
}
