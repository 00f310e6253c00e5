package read

import (
	"sync/atomic"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
)

// run is the rows of one series in a buffer.
type run struct {
	id     model.SeriesID
	key    string
	tags   model.Tags // of the key; made by merge
	lo, hi int
	buf    *rowset.Set
}

// Request says which rows of a unit to read, and in what order.
type Request struct {
	Refs   []influxql.VarRef
	Range  model.TimeRange
	Asc    bool
	Limit  int // first rows wanted of each group, 0: all
	Ties   rowset.Ties
	Want   func(g int32) bool // groups to read; nil: all
	Counts *Counts            // of EXPLAIN ANALYZE, else nil
}

// rowScan collects rows of a unit into groups.
type rowScan struct {
	Request
	x  *Budget
	u  *Unit
	cs *Columns

	narrowed []int32 // the level's groups whose first rows narrow looks for
	// sizes is the number of series of each group of u in the set that is read.
	sizes []uint32

	bytes atomic.Int64      // of the rows read
	held  atomic.Int64      // of narrow, given back at its end
	stop  admission.Stopper // of the caller, who may read ahead of the statement
}

// Rows reads the wanted groups of one unit: their rows in order of time,
// those of equal time as ties says. It returns the bytes that they are accounted
// for.
func (b *Budget) Rows(u *Unit, req Request) (map[int32]*rowset.Set, int64, error) {
	cs, ok := u.Bind(req.Refs)
	if !ok {
		return nil, 0, nil
	}
	if req.Ties == rowset.AsInfluxChosen {
		cs.needFirst()
	}
	set := u.Series
	if req.Want != nil {
		if set = u.Subset(req.Want); set.IsEmpty() {
			return nil, 0, nil
		}
	}
	if req.Range = req.Range.Intersect(u.Shard.TimeRange()); req.Range.Empty() {
		return nil, 0, nil
	}
	s := &rowScan{Request: req, x: b, u: u, cs: cs, stop: b.Stopper()}
	s.sizes = u.Sizes(set)
	if u.Narrows(set, req.Limit) {
		var err error
		if set, err = s.narrow(set); err != nil || set.IsEmpty() {
			return nil, 0, err
		}
	}
	ps := Parts(set, b.Workers)
	got := make([]map[int32]*groupRows, len(ps))
	err := b.Parallel(len(ps), func(i int) (err error) {
		got[i], err = s.scan(ps[i])
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	out := make(map[int32]*rowset.Set, len(got[0]))
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
	rd := NewChunkReader(s.cs)
	cur, err := rd.Scan(s.x, s.u, set, s.Range, s.Asc, s.Counts)
	if err != nil {
		return nil, err
	}
	defer cur.Close()
	tags := s.cs.NeedsTags()
	var slab groupSlab
	groups := make(map[int32]*groupRows, min(set.GetCardinality(), uint64(len(s.u.Groups)), 1<<10))
	for {
		id, ok := cur.NextSeries()
		if !ok {
			break
		}
		if err := s.x.Check(); err != nil {
			return nil, err // also of many series without rows
		}
		g := s.u.Group(id)
		buf := groups[g]
		if buf == nil {
			buf = slab.next(len(s.cs.Out))
			for i := range buf.Cols {
				if b := &s.cs.Out[i]; b.Index >= 0 {
					buf.Cols[i].Type = b.Type
				}
			}
			if s.Limit > 0 && s.Limit <= rowset.SlabRows {
				buf.Reserve(s.Limit)
			}
			groups[g] = buf
			if err := s.grow(int64(len(buf.Table)) * int64(unsafe.Sizeof(column.Vector{}))); err != nil {
				return nil, err
			}
		}
		r := run{id: id, lo: len(buf.Times), buf: &buf.Set}
		if tags {
			if r.key, err = s.key(rd, id); err != nil {
				return nil, err
			}
			if err := s.grow(int64(len(r.key))); err != nil {
				return nil, err
			}
		}
		if err := s.series(cur, rd, &buf.Set, r.lo); err != nil {
			return nil, err
		}
		if r.hi = len(buf.Times); r.hi > r.lo {
			buf.runs = append(buf.runs, r)
		}
	}
	return groups, cur.Err()
}

// key returns the key of a series. The predicate sees its tags from now on.
func (s *rowScan) key(rd *ChunkReader, id model.SeriesID) (string, error) {
	key, err := s.u.Source.View.SeriesKey(id)
	if err == nil && s.cs.filtersTags() {
		_, rd.Tags = model.ParseSeriesKey(key, rd.Tags[:0])
	}
	return key, err
}

// series appends the rows of the cursor's series, at most Limit of them. With a
// descending scan the chunks come newest first; the rows of the run are put
// in ascending order at the end.
func (s *rowScan) series(cur scan.Cursor, rd *ChunkReader, buf *rowset.Set, lo int) error {
	type piece struct{ lo, hi int }
	var pieces []piece
	for c := cur.NextChunk(); c != nil; c = cur.NextChunk() {
		if err := s.x.Check(); err != nil {
			return err
		}
		if err := s.x.CountPoints(c.Len()); err != nil {
			return err
		}
		rd.Reset(c)
		rows, all := rd.Pick()
		if !all && len(rows) == 0 {
			if rd.Err != nil {
				return rd.Err
			}
			continue
		}
		from, to := 0, c.Len()
		if !all {
			to = len(rows)
		}
		if s.Limit > 0 {
			if room := s.Limit - (len(buf.Times) - lo); to-from > room {
				if s.Asc {
					to = from + room
				} else {
					from = to - room
				}
			}
		}
		start := len(buf.Times)
		if !all {
			rows = rows[from:to]
		}
		if !all || to-from > 1 || s.Limit == 0 || !s.edge(buf, rd, from) {
			times, err := c.Times()
			if err != nil {
				return err
			}
			buf.Times = expr.AppendTaken(buf.Times, times, from, to, rows)
			for i := range buf.Cols {
				if buf.Cols[i].Type != model.Unknown {
					expr.AppendRows(&buf.Cols[i], rd.Output(i), from, to, rows)
				}
			}
		}
		if rd.Err != nil {
			return rd.Err
		}
		if err := s.grow(int64(len(buf.Times)-start)*int64(8*(1+len(buf.Cols))) + rd.OwnTexts(buf, start)); err != nil {
			return err
		}
		if !s.Asc {
			pieces = append(pieces, piece{start, len(buf.Times)})
		}
		if s.Limit > 0 && len(buf.Times)-lo >= s.Limit {
			break
		}
	}
	if len(pieces) > 1 {
		perm := make([]int32, 0, len(buf.Times)-lo)
		for i := len(pieces) - 1; i >= 0; i-- {
			for r := pieces[i].lo; r < pieces[i].hi; r++ {
				perm = append(perm, int32(r-lo))
			}
		}
		tail := buf.Slice(lo, len(buf.Times))
		tail = tail.Permute(perm)
		buf.Truncate(lo)
		buf.Append(&tail)
	}
	return nil
}

// grow accounts for bytes of the rows that are read.
func (s *rowScan) grow(bytes int64) error {
	s.bytes.Add(bytes)
	return s.x.Grow(bytes)
}

// edge appends the first or the last row of the reader's chunk from the statistics,
// and reports false where these do not tell it.
func (s *rowScan) edge(buf *rowset.Set, rd *ChunkReader, row int) bool {
	c, st := rd.c, &rd.stats
	n, last, at := len(buf.Times), c.Len()-1, c.Min()
	switch row {
	case last:
		at = c.Max()
	case 0:
	default:
		return false
	}
	for i := range buf.Cols {
		v, b := &buf.Cols[i], &s.cs.Out[i]
		if v.Type == model.Unknown {
			continue
		}
		if b.Cast || b.Type == model.String || !rd.Stats(b.Index, st) {
			buf.Truncate(n)
			return false
		}
		switch {
		case st.Count > 0 && row == last && st.LastRow == last:
			v.AppendWord(st.Last, nil)
		case st.Count > 0 && row != last && st.FirstRow == 0:
			v.AppendWord(st.First, nil)
		default:
			v.AppendNull()
		}
	}
	buf.Times = append(buf.Times, at)
	return true
}

// groupRows is what a worker has read of a group.
type groupRows struct {
	rowset.Set
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
	g.Table = b.cols[: n+1 : n+1]
	g.Cols = g.Table[1:]
	b.groups, b.cols = b.groups[1:], b.cols[n+1:]
	return g
}
