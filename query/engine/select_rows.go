package engine

import (
	"sync/atomic"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
	"tsdbd/query/expr"
)

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
func (b *budget) collectUnit(u *unit, req rowRequest) (map[int32]*rowset, int64, error) {
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
	s := &rowScan{rowRequest: req, x: b, u: u, cs: cs, stop: b.stopper()}
	s.sizes = u.sizes(set)
	if u.narrows(set, req.limit) {
		var err error
		if set, err = s.narrow(set); err != nil || set.IsEmpty() {
			return nil, 0, err
		}
	}
	ps := parts(set, b.workers)
	got := make([]map[int32]*groupRows, len(ps))
	err := b.parallel(len(ps), func(i int) (err error) {
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
		if !all {
			rows = rows[from:to]
		}
		if !all || to-from > 1 || s.limit == 0 || !s.edge(buf, c, from, &rd.edge) {
			times, err := c.Times()
			if err != nil {
				return err
			}
			buf.times = expr.AppendTaken(buf.times, times, from, to, rows)
			for i := range buf.cols {
				if buf.cols[i].Type != model.Unknown {
					expr.AppendRows(&buf.cols[i], rd.output(i), from, to, rows)
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
		tail = tail.permute(perm)
		*buf = buf.slice(0, lo)
		buf.append(&tail)
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

// groupRows is what a worker has read of a group.
type groupRows struct {
	rowset
	runs []run
	one  [1]run // memory of runs, as most groups have one
}

// groupSlab makes the columns of groups, of several at a time.
type groupSlab struct {
	groups []groupRows
	cols   []column.Vector
	size   int // of the last one, in groups
}

// slabColumns bounds the columns of a slab, 30 kB.
const slabColumns = 200

// next returns the rows of a group without any, of n columns.
func (b *groupSlab) next(n int) *groupRows {
	if len(b.groups) == 0 {
		b.size = max(1, min(2*b.size, slabColumns/(n+1)))
		b.groups = make([]groupRows, b.size)
		b.cols = make([]column.Vector, b.size*(n+1))
	}
	g := &b.groups[0]
	g.runs = g.one[:0]
	g.table = b.cols[: n+1 : n+1]
	g.cols = g.table[1:]
	b.groups, b.cols = b.groups[1:], b.cols[n+1:]
	return g
}
