package query

import (
	"slices"

	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
)

// reading is the rows of one range of times in one order, read once for all
// calls of a level that want them.
type reading struct {
	rng    model.TimeRange
	ties   tieOrder
	ofTags bool // for functions of tags, which see only what subqueries give

	refs []influxql.VarRef  // columns that some call wants, each once
	subs map[int32][]rowset // rows of the subqueries, by group
	got  map[int32]*rowset  // rows of the present batch of groups
}

// reading returns the reading for a call.
func (r *callRun) reading(c *call) *reading {
	ofTags := c.ref.Type == influxql.Tag
	for _, rd := range r.readings {
		// Rows that only another field has would change InfluxDB's order.
		sameRows := c.ties() == bySeries || rd.refs[0] == c.ref
		if rd.rng == c.rng && rd.ties == c.ties() && rd.ofTags == ofTags && sameRows {
			return rd
		}
	}
	rd := &reading{rng: c.rng, ties: c.ties(), ofTags: ofTags, subs: map[int32][]rowset{}}
	r.readings = append(r.readings, rd)
	return rd
}

// refColumn returns the place of a reference in refs, where it is added if it
// is new.
func refColumn(refs []influxql.VarRef, ref influxql.VarRef) ([]influxql.VarRef, int) {
	if i := slices.Index(refs, ref); i >= 0 {
		return refs, i
	}
	return append(refs, ref), len(refs)
}

// read reads the rows of a batch of groups.
func (rd *reading) read(r *callRun, batch []int32) error {
	l := r.l
	member := make([]bool, len(r.t.names))
	for _, g := range batch {
		member[g] = true
	}
	want := func(g int32) bool { return member[g] }
	if len(batch) == len(r.t.names) {
		want = nil
	}
	us := slices.Clone(r.us)
	if !l.asc {
		slices.SortStableFunc(us, func(a, b *unit) int {
			if a.order != b.order {
				return a.order - b.order
			}
			return -cmpInt(a.shard.TimeRange().Min, b.shard.TimeRange().Min)
		})
	}
	if rd.ofTags {
		us = nil
	}
	lists := map[int32][]*rowset{}
	bySrc := map[int32]int{}
	for _, u := range us {
		m, _, err := r.x.collectUnit(u, rd.refs, rd.rng, l.asc, 0, rd.ties, want)
		if err != nil {
			return err
		}
		for g, rs := range m {
			if n := len(lists[g]); n > 0 && bySrc[g] == u.order {
				lists[g][n-1].append(rs)
			} else {
				lists[g] = append(lists[g], rs)
				bySrc[g] = u.order
			}
		}
	}
	rd.got = map[int32]*rowset{}
	for _, g := range batch {
		list := lists[g]
		for i := range rd.subs[g] {
			list = append(list, &rd.subs[g][i])
		}
		if len(list) > 0 {
			rd.got[g] = mergeSets(&r.x.stop, list, l.asc, min(rd.ties, l.subTies()))
		}
	}
	return nil
}

// rows returns the rows of a group for a call, nil if there are none. Its
// columns are those that the call wants; the first has no null.
func (c *call) rows(g int32) *rowset {
	rs := c.reading.got[g]
	if rs == nil {
		return nil
	}
	part := rs.pick(c.columns)
	return dropNulls(&part)
}

// pick returns the rows with some of the columns.
func (rs *rowset) pick(columns []int) rowset {
	out := rowset{times: slices.Clip(rs.times), cols: make([]column.Vector, len(columns))}
	for i, k := range columns {
		out.cols[i] = rs.cols[k]
	}
	return out
}

// ties returns the order of rows of equal time that the function sees.
func (c *call) ties() tieOrder {
	if c.tagOrder {
		return bySeries
	}
	return asInflux
}

// dropNulls removes the rows whose first column is null.
func dropNulls(rs *rowset) *rowset {
	v := &rs.cols[0]
	if v.Type == model.Unknown {
		return &rowset{cols: rs.cols}
	}
	if v.Valid == nil {
		return rs
	}
	var rows []int32
	for i := range rs.times {
		if v.Valid.Get(i) {
			rows = append(rows, int32(i))
		}
	}
	if len(rows) == len(rs.times) {
		return rs
	}
	if rows == nil {
		rows = []int32{}
	}
	out := rs.permute(rows)
	out.cols[0].Valid = nil
	return &out
}
