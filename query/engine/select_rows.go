package engine

import (
	"slices"
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
	"tsdbd/query/expr"
)

// rowset is a table of rows of one group, in order of time.
type rowset struct {
	times []int64
	cols  []column.Vector // one per reference; Unknown is all null
	table []column.Vector // cols and a place before them, for the times; or nil
}

func (rs *rowset) slice(lo, hi int) rowset {
	out := rowset{times: rs.times[lo:hi], cols: make([]column.Vector, len(rs.cols))}
	for i := range rs.cols {
		if rs.cols[i].Type != model.Unknown {
			out.cols[i] = rs.cols[i].Slice(lo, hi)
		}
	}
	return out
}

func (rs *rowset) bytes() int64 {
	n := int64(8 * len(rs.times))
	for i := range rs.cols {
		n += expr.VectorBytes(rs.cols[i].Type, len(rs.times))
		n += expr.TextBytes(&rs.cols[i], 0, len(rs.times))
	}
	return n
}

// append adds the rows of o, which has the same columns.
func (rs *rowset) append(o *rowset) {
	if len(rs.times) == 0 {
		*rs = *o
		return
	}
	n := len(rs.times)
	for i := range rs.cols {
		extend(&rs.cols[i], n, &o.cols[i], 0, len(o.times))
	}
	rs.times = append(rs.times, o.times...)
}

// slabRows is up to how many rows a group's columns of numbers are made in one
// piece of memory: many groups of few rows are mostly the price of allocating.
const slabRows = 16

// reserve makes room for n rows of numbers in an empty row set.
func (rs *rowset) reserve(n int) {
	ints, floats := n, 0
	for i := range rs.cols {
		switch rs.cols[i].Type {
		case model.Integer:
			ints += n
		case model.Float:
			floats += n
		}
	}
	i, f := make([]int64, ints), make([]float64, floats)
	rs.times, i = i[:0:n], i[n:]
	for k := range rs.cols {
		switch v := &rs.cols[k]; v.Type {
		case model.Integer:
			v.Ints, i = i[:0:n], i[n:]
		case model.Float:
			v.Floats, f = f[:0:n], f[n:]
		}
	}
}

// reverse turns the rows around.
func (rs *rowset) reverse() {
	slices.Reverse(rs.times)
	for i := range rs.cols {
		if rs.cols[i].Type != model.Unknown {
			expr.ReverseRows(&rs.cols[i], len(rs.times))
		}
	}
}

// run is the rows of one series in a buffer.
type run struct {
	id     model.SeriesID
	key    string
	lo, hi int
	buf    *rowset
}

// rowRequest says which rows of a unit to read, and in what order.
type rowRequest struct {
	refs  []influxql.VarRef
	rng   model.TimeRange
	asc   bool
	limit int // first rows wanted of each group, 0: all
	ties  tieOrder
	want  func(g int32) bool // groups to read; nil: all
	did   *scanCounts        // of EXPLAIN ANALYZE, else nil
}

// rowScan collects rows of a unit into groups.
type rowScan struct {
	rowRequest
	x  *budget
	u  *unit
	cs *columnSet

	// sizes tells how many series each of u.groups has in the set that is read.
	sizes []uint32

	bytes atomic.Int64      // of the rows read
	held  atomic.Int64      // of narrow, given back at its end
	stop  admission.Stopper // of the caller, who may read ahead of the statement
}

// collectUnit reads the wanted groups of one unit: their rows in order of time,
// those of equal time as ties says. It returns the bytes that they are accounted
// for.
func (x *budget) collectUnit(u *unit, req rowRequest) (map[int32]*rowset, int64, error) {
	cs, ok := u.bind(req.refs)
	if !ok {
		return nil, 0, nil
	}
	if req.ties == asInfluxChosen {
		cs.needFirst()
	}
	set := u.set
	if req.want != nil {
		if set = u.subset(req.want); set.IsEmpty() {
			return nil, 0, nil
		}
	}
	if req.rng = req.rng.Intersect(u.shard.TimeRange()); req.rng.Empty() {
		return nil, 0, nil
	}
	s := &rowScan{rowRequest: req, x: x, u: u, cs: cs, stop: x.stopper()}
	s.sizes = u.sizes(set)
	if u.narrows(set, req.limit) {
		var err error
		if set, err = s.narrow(set); err != nil || set.IsEmpty() {
			return nil, 0, err
		}
	}
	ps := parts(set, x.workers)
	got := make([]map[int32]*groupRows, len(ps))
	err := x.parallel(len(ps), func(i int) (err error) {
		got[i], err = s.scan(ps[i])
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	out := make(map[int32]*rowset, len(got[0]))
	for k, m := range got {
		for g, rows := range m {
			if len(rows.runs) == 0 || out[g] != nil {
				continue
			}
			runs := rows.runs
			for _, later := range got[k+1:] {
				if more := later[g]; more != nil {
					runs = append(runs, more.runs...)
				}
			}
			if out[g], err = s.merge(runs); err != nil {
				return nil, 0, err
			}
		}
	}
	return out, s.bytes.Load(), nil
}

func (s *rowScan) scan(set *roaring.Bitmap) (map[int32]*groupRows, error) {
	rd := newChunkReader(s.cs)
	cur, err := rd.scan(s.x, s.u, set, s.rng, s.asc, s.did)
	if err != nil {
		return nil, err
	}
	defer cur.Close()
	tags := s.cs.needsTags()
	var slab groupSlab
	groups := make(map[int32]*groupRows, min(set.GetCardinality(), uint64(len(s.u.gid)), 1<<10))
	for {
		id, ok := cur.NextSeries()
		if !ok {
			break
		}
		if err := s.x.check(); err != nil {
			return nil, err // also of many series without rows
		}
		g := s.u.group(id)
		buf := groups[g]
		if buf == nil {
			buf = slab.next(len(s.cs.out))
			for i := range buf.cols {
				if b := &s.cs.out[i]; b.index >= 0 {
					buf.cols[i].Type = b.typ
				}
			}
			if s.limit > 0 && s.limit <= slabRows {
				buf.reserve(s.limit)
			}
			groups[g] = buf
		}
		r := run{id: id, lo: len(buf.times), buf: &buf.rowset}
		if tags {
			if r.key, err = s.key(rd, id); err != nil {
				return nil, err
			}
			if err := s.grow(int64(len(r.key))); err != nil {
				return nil, err
			}
		}
		if err := s.series(cur, rd, &buf.rowset, r.lo); err != nil {
			return nil, err
		}
		if r.hi = len(buf.times); r.hi > r.lo {
			buf.runs = append(buf.runs, r)
		}
	}
	return groups, cur.Err()
}

// key returns the key of a series, and tells the predicate its tags.
func (s *rowScan) key(rd *chunkReader, id model.SeriesID) (string, error) {
	key, err := s.u.src.view.SeriesKey(id)
	if err == nil && s.cs.filtersTags() {
		_, rd.tags = model.ParseSeriesKey(key, rd.tags[:0])
	}
	return key, err
}

// series appends the rows of the cursor's series, at most cap of them. With a
// descending scan the chunks come newest first; the rows of the run are put
// in ascending order at the end.
func (s *rowScan) series(cur scan.Cursor, rd *chunkReader, buf *rowset, lo int) error {
	type piece struct{ lo, hi int }
	var pieces []piece
	for c := cur.NextChunk(); c != nil; c = cur.NextChunk() {
		if err := s.x.check(); err != nil {
			return err
		}
		if err := s.x.countPoints(c.Len()); err != nil {
			return err
		}
		rd.reset(c)
		rows, all := rd.pick()
		if !all && len(rows) == 0 {
			if rd.err != nil {
				return rd.err
			}
			continue
		}
		from, to := 0, c.Len()
		if !all {
			to = len(rows)
		}
		if s.limit > 0 {
			if room := s.limit - (len(buf.times) - lo); to-from > room {
				if s.asc {
					to = from + room
				} else {
					from = to - room
				}
			}
		}
		start := len(buf.times)
		if all && to-from == 1 && s.limit > 0 && s.edge(buf, c, from, &rd.edge) {
			if !s.asc {
				pieces = append(pieces, piece{start, start + 1})
			}
			if len(buf.times)-lo >= s.limit {
				break
			}
			continue
		}
		times, err := c.Times()
		if err != nil {
			return err
		}
		if !all {
			rows = rows[from:to]
		}
		if all {
			buf.times = append(buf.times, times[from:to]...)
		} else {
			for _, r := range rows {
				buf.times = append(buf.times, times[r])
			}
		}
		for i := range buf.cols {
			if buf.cols[i].Type != model.Unknown {
				if all {
					expr.AppendRows(&buf.cols[i], rd.output(i), from, to, nil)
				} else {
					expr.AppendRows(&buf.cols[i], rd.output(i), 0, 0, rows)
				}
			}
		}
		if rd.err != nil {
			return rd.err
		}
		if err := s.grow(int64(len(buf.times)-start)*int64(8*(1+len(buf.cols))) + rd.ownTexts(buf, start)); err != nil {
			return err
		}
		if !s.asc {
			pieces = append(pieces, piece{start, len(buf.times)})
		}
		if s.limit > 0 && len(buf.times)-lo >= s.limit {
			break
		}
	}
	if len(pieces) > 1 {
		perm := make([]int32, 0, len(buf.times)-lo)
		for i := len(pieces) - 1; i >= 0; i-- {
			for r := pieces[i].lo; r < pieces[i].hi; r++ {
				perm = append(perm, int32(r-lo))
			}
		}
		tail := buf.slice(lo, len(buf.times))
		sorted := tail.permute(perm)
		copy(buf.times[lo:], sorted.times)
		for i := range buf.cols {
			if t := buf.cols[i].Type; t != model.Unknown {
				head := buf.cols[i].Slice(0, lo)
				var v column.Vector
				v.Type = t
				expr.AppendRows(&v, &head, 0, lo, nil)
				expr.AppendRows(&v, &sorted.cols[i], 0, len(perm), nil)
				buf.cols[i] = v
			}
		}
	}
	return nil
}

// grow accounts for bytes of the rows that are read.
func (s *rowScan) grow(bytes int64) error {
	s.bytes.Add(bytes)
	return s.x.grow(bytes)
}

// edge appends the first or the last row of a chunk from the statistics, and
// reports false where these do not tell it.
func (s *rowScan) edge(buf *rowset, c scan.Chunk, row int, scratch *edgeScratch) bool {
	last := c.Len() - 1
	if row != 0 && row != last {
		return false
	}
	words := scratch.words[:0]
	for i := range buf.cols {
		if buf.cols[i].Type == model.Unknown {
			words = append(words, edgeWord{})
			continue
		}
		b := &s.cs.out[i]
		if b.cast || b.typ == model.String {
			return false
		}
		st := &scratch.stats
		if !c.Stats(b.index, st) {
			return false
		}
		w := edgeWord{st.First, st.Count > 0 && st.FirstRow == 0}
		if row == last {
			w = edgeWord{st.Last, st.Count > 0 && st.LastRow == last}
		}
		words = append(words, w)
	}
	scratch.words = words
	at := c.Min()
	if row == last {
		at = c.Max()
	}
	buf.times = append(buf.times, at)
	for i := range buf.cols {
		switch v := &buf.cols[i]; {
		case v.Type == model.Unknown:
		case words[i].valid:
			v.AppendWord(words[i].bits, nil)
		default:
			v.AppendNull()
		}
	}
	return true
}

// edgeScratch is memory of edge.
type edgeScratch struct {
	words []edgeWord
	stats scan.Stats
}

// edgeWord is a value of a chunk's first or last row.
type edgeWord struct {
	bits  uint64
	valid bool
}

// permute returns the rows perm lists.
func (rs *rowset) permute(perm []int32) rowset {
	out := rowset{times: expr.AppendTaken(nil, rs.times, 0, 0, perm), cols: make([]column.Vector, len(rs.cols))}
	for i := range rs.cols {
		if rs.cols[i].Type != model.Unknown {
			out.cols[i] = expr.Gather(&rs.cols[i], perm)
		}
	}
	return out
}

// merge brings the runs of a group into one order, that of time in the scan's
// direction.
func (s *rowScan) merge(runs []run) (*rowset, error) {
	if len(runs) > 1 {
		for i := range runs {
			if runs[i].key == "" {
				// The key only breaks ties; an unreadable one sorts first.
				runs[i].key, _ = s.u.src.view.SeriesKey(runs[i].id)
				if err := s.grow(int64(len(runs[i].key))); err != nil {
					return nil, err
				}
			}
		}
		sortRuns(runs)
	}
	total := 0
	for _, r := range runs {
		total += r.hi - r.lo
	}
	hasTags := s.cs.needsTags()
	if r := runs[0]; len(runs) == 1 && !hasTags && r.lo == 0 && r.hi == len(r.buf.times) {
		if !s.asc {
			r.buf.reverse()
		}
		return r.buf, nil
	}
	dst := &rowset{times: make([]int64, 0, total)}
	alone := len(runs) == 1 && total == len(runs[0].buf.times)
	if alone {
		dst.cols, dst.table = runs[0].buf.cols, runs[0].buf.table // nobody else reads the buffer
	} else {
		dst.cols = make([]column.Vector, len(s.cs.out))
	}
	bounds := make([]int, 1, len(runs)+1)
	for _, r := range runs {
		dst.times = append(dst.times, r.buf.times[r.lo:r.hi]...)
		bounds = append(bounds, len(dst.times))
	}
	tags := make([]model.Tags, len(runs))
	for i := range runs {
		if hasTags {
			_, tags[i] = model.ParseSeriesKey(runs[i].key, nil)
		}
	}
	perm := s.order(dst.times, bounds, runs, tags)
	var of []int32 // run of each row, before perm
	if perm != nil {
		dst.times = expr.AppendTaken(nil, dst.times, 0, 0, perm)
		if hasTags {
			of = make([]int32, total)
			for i := range runs {
				for k := bounds[i]; k < bounds[i+1]; k++ {
					of[k] = int32(i)
				}
			}
		}
	}
	var texts []string // of the tag columns
	if hasTags && perm == nil {
		texts = make([]string, s.cs.tags()*total)
	}
	var all column.Vector // a column in the order of the runs
	for i := range dst.cols {
		b, v := &s.cs.out[i], &dst.cols[i]
		if b.index < 0 && !b.tag {
			continue
		}
		v.Type = b.typ
		switch {
		case b.tag && perm != nil:
			tagRows(v, b.ref.Val, tags, of, perm)
		case b.tag:
			v.Strings, texts = texts[:0:total], texts[total:]
			for k, r := range runs {
				appendTag(v, tags[k].Get(b.ref.Val), r.hi-r.lo)
			}
		case perm != nil:
			all.Reset(b.typ)
			reserve(&all, total)
			for _, r := range runs {
				expr.AppendRows(&all, &r.buf.cols[i], r.lo, r.hi, nil)
			}
			expr.AppendRows(v, &all, 0, 0, perm)
		case alone:
		default:
			reserve(v, total)
			for _, r := range runs {
				expr.AppendRows(v, &r.buf.cols[i], r.lo, r.hi, nil)
			}
		}
	}
	if perm == nil && !s.asc {
		dst.reverse()
	}
	return dst, nil
}

// tagRows fills a column with the value of a tag: row i is of run of[perm[i]].
func tagRows(v *column.Vector, key string, tags []model.Tags, of, perm []int32) {
	values, missing := make([]string, len(tags)), false
	for i := range tags {
		values[i] = tags[i].Get(key)
		missing = missing || values[i] == ""
	}
	v.Strings = make([]string, len(perm))
	for i, p := range perm {
		v.Strings[i] = values[of[p]]
	}
	if missing {
		v.Valid = column.NewBitmap(len(perm))
		for i := range v.Strings {
			if v.Strings[i] != "" {
				v.Valid.Set(i)
			}
		}
	}
}

// reserve makes room for n rows in an empty column.
func reserve(v *column.Vector, n int) {
	v.Resize(n)
	v.Resize(0)
}

// appendTag appends a tag value n times; a missing tag is null.
func appendTag(v *column.Vector, value string, n int) {
	if value == "" {
		for range n {
			v.AppendNull()
		}
		return
	}
	one := column.Vector{Type: model.String, Strings: []string{value}}
	if v.Valid == nil {
		for range n {
			v.Strings = append(v.Strings, value)
		}
		return
	}
	for range n {
		v.AppendFrom(&one, 0)
	}
}
