package shard

import (
	"context"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/cache"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/tsm"
)

// cursor merges what files and caches hold of each series.
//
// The pieces of a series, chunks of files and rows of caches, are sorted by
// time and cut into clusters: a piece that overlaps no other is handed out as
// it lies and decodes lazily; pieces that overlap are read and merged, newer
// source over older, some pieces' worth of time after another. The rows of a
// cache are gathered when the walk reaches them.
type cursor struct {
	ctx        context.Context
	view       *View
	set        *roaring.Bitmap
	fields     []column.Field
	absent     []bool // fields that the shard lacks, their type is made up
	times      model.TimeRange
	descending bool

	charge  func(bytes int64) error // Request.Charge
	charged int64                   // for the present chunk

	sources []source
	caches  []cacheSource
	err     error

	// Iteration over series: either by id through set, or, when one file, or
	// files that split a run by series, hold everything and the set is a good
	// part of it, file order.
	next     roaring.IntPeekable
	sequence bool
	part     int              // source in use when sequence
	ordinal  int              // of ids[0]
	ids      []model.SeriesID // that come next in the source
	page     []model.SeriesID // memory of ids
	dense    []uint64         // bitset of set when sequence
	base     uint32
	steps    int

	id       model.SeriesID
	pieces   []piece
	clusters []cluster
	at       int
	ahead    scan.Chunk // the series' first, found by NextSeries

	direct fileChunk
	mem    rowsChunk
	merged column.Rows
	parts  []column.Rows
	ptrs   []*column.Rows
	slices []column.Rows // of gathered rows, that ptrs points to
	types  []model.FieldType
}

// piece is a chunk of a file or a part of a cache's rows.
type piece struct {
	min, max int64
	source   int // index into sources; len(sources)+i: caches[i]
	chunk    int // or part
	masked   bool
	bytes    int // of a chunk
	rows     int // about
}

// cluster is a run of pieces[lo:hi] that overlap each other, or the part of it
// that lies in times.
type cluster struct {
	lo, hi int
	times  model.TimeRange
}

// A long cluster is merged a part after another: a part begins with a new
// piece after so many pieces, bytes, or rows times fields. It bounds the memory
// of a merge, and what a walk that stops early reads.
const (
	clusterPieces = 16
	clusterBytes  = 16 << 20

	// cacheCells bounds rows times fields of what is gathered of a cache at
	// once, and, twice, of a part of a cluster.
	cacheCells = 2 * maxCells
)

// newestRows are the places at which a walk from the newest row on cuts the
// rows of a cache, so that it gathers little when it stops early.
var newestRows = [...]int{32, 512}

// cacheSource is a cache as seen by a cursor.
type cacheSource struct {
	gather *cache.Gatherer
	parts  []cachePart // of the present series; the walk may leave some empty
	cuts   []int64
}

// cachePart is the rows of the present series in a range of times.
type cachePart struct {
	times    model.TimeRange
	count    int // of rows, about
	gathered bool
	rows     column.Rows
}

// open returns a cursor for the looks of this package; Scan completes it.
func (v *View) open(set *roaring.Bitmap) *cursor {
	c := &cursor{ctx: context.Background(), view: v, set: set, times: model.AllTime}
	c.sources = make([]source, len(v.set.files))
	for i, f := range v.set.files {
		c.sources[i].file, c.sources[i].masks = f, v.masks[i]
	}
	c.caches = make([]cacheSource, len(v.caches))
	for i, ch := range v.caches {
		c.caches[i].gather = cache.NewGatherer(ch)
	}
	return c
}

// start drops sources that cannot have rows in range and chooses the walk.
func (c *cursor) start() {
	for _, f := range c.fields {
		c.types = append(c.types, f.Type)
	}
	c.direct.absent, c.direct.shard, c.direct.cursor = c.absent, c.view.shard, c
	c.sources = slices.DeleteFunc(c.sources, func(s source) bool {
		return !s.file.reader.Info().Range.Overlaps(c.times)
	})
	c.caches = slices.DeleteFunc(c.caches, func(s cacheSource) bool {
		return !s.gather.Cache().TimeRange().Overlaps(c.times)
	})
	if c.set == nil {
		c.set = roaring.New()
	}
	n := c.set.GetCardinality()
	if n > 0 && len(c.sources) > 0 && len(c.caches) == 0 && n >= c.fileSeries()/8 {
		if span := uint64(c.set.Maximum()-c.set.Minimum()) + 1; span <= 64*n+1024 {
			c.sequence = true
			c.base = c.set.Minimum()
			c.dense = make([]uint64, (span+63)/64)
			it := c.set.ManyIterator()
			var buf [1024]uint32
			for k := it.NextMany(buf[:]); k > 0; k = it.NextMany(buf[:]) {
				for _, id := range buf[:k] {
					c.dense[(id-c.base)>>6] |= 1 << ((id - c.base) & 63)
				}
			}
			return
		}
	}
	c.next = c.set.Iterator()
}

// fileSeries returns how many series the files hold if no series is in two of
// them, else a number that is too large.
func (c *cursor) fileSeries() uint64 {
	n := uint64(0)
	for i := range c.sources {
		if i > 0 && !c.sources[i].file.splits(c.sources[0].file) {
			return math.MaxUint64
		}
		n += uint64(c.sources[i].file.reader.Len())
	}
	return n
}

// Narrow implements scan.Cursor. collect asks times for each series anew.
func (c *cursor) Narrow(r model.TimeRange) { c.times = c.times.Intersect(r) }

// NextSeries moves to the next series that has rows.
func (c *cursor) NextSeries() (model.SeriesID, bool) {
	for c.err == nil {
		if c.steps++; c.steps&255 == 0 {
			if err := c.ctx.Err(); err != nil {
				c.err = err
				break
			}
		}
		id, ok := c.step()
		if !ok {
			break
		}
		c.id = id
		if !c.collect() {
			continue
		}
		// Whether a cache or a masked chunk has a row shows when it is read.
		if c.ahead = c.nextChunk(); c.ahead != nil {
			return id, true
		}
	}
	c.clusters, c.at, c.ahead = c.clusters[:0], 0, nil
	return 0, false
}

// step finds the next series id and, walking a file, loads its entry.
func (c *cursor) step() (model.SeriesID, bool) {
	if !c.sequence {
		if !c.next.HasNext() {
			return 0, false
		}
		id := model.SeriesID(c.next.Next())
		for i := range c.sources {
			if _, err := c.sources[i].find(id); err != nil {
				c.err = err
				return 0, false
			}
		}
		return id, true
	}
	for c.part < len(c.sources) {
		s := &c.sources[c.part]
		for k, id := range c.ids {
			off := uint32(id) - c.base
			if uint32(id) < c.base || uint64(off>>6) >= uint64(len(c.dense)) || c.dense[off>>6]>>(off&63)&1 == 0 {
				continue
			}
			i := c.ordinal + k
			c.ids, c.ordinal = c.ids[k+1:], i+1
			if err := s.load(i); err != nil {
				c.err = err
				return 0, false
			}
			return id, true
		}
		c.ordinal += len(c.ids)
		if c.ids = nil; c.ordinal == s.file.reader.Len() {
			s.loaded = false
			c.part, c.ordinal = c.part+1, 0
			continue
		}
		var err error
		if c.page, err = s.file.reader.IDs(c.ordinal, c.page[:0]); err != nil {
			c.err = err
			return 0, false
		}
		c.ids = c.page
	}
	return 0, false
}

// collect gathers the pieces of the present series and forms clusters.
func (c *cursor) collect() bool {
	c.pieces, c.clusters, c.at, c.ahead = c.pieces[:0], c.clusters[:0], 0, nil
	used := 0
	for i := range c.sources {
		s := &c.sources[i]
		if !s.loaded || !s.project(c.fields) {
			continue
		}
		before := len(c.pieces)
		for k := range s.series.Chunks {
			e := &s.series.Chunks[k]
			if e.Max < c.times.Min || e.Min > c.times.Max {
				continue
			}
			var partly, wholly bool
			if len(s.masks) > 0 {
				partly, wholly = s.masked(c.id, e.Min, e.Max)
			}
			if !wholly {
				c.pieces = append(c.pieces, piece{e.Min, e.Max, i, k, partly, e.Bytes, e.Rows})
			}
		}
		if len(c.pieces) > before {
			used++
		}
	}
	for i := range c.caches {
		if n := c.cached(&c.caches[i]); n > 0 {
			for k := range n {
				p := &c.caches[i].parts[k]
				c.pieces = append(c.pieces, piece{p.times.Min, p.times.Max, len(c.sources) + i, k, false, 0, p.count})
			}
			used += n
		}
	}
	if len(c.pieces) == 0 {
		return false
	}
	if used > 1 {
		slices.SortStableFunc(c.pieces, func(a, b piece) int {
			if a.min < b.min {
				return -1
			} else if a.min > b.min {
				return 1
			}
			return 0
		})
	}
	for lo := 0; lo < len(c.pieces); {
		hi, end := lo+1, c.pieces[lo].max
		for hi < len(c.pieces) && c.pieces[hi].min <= end {
			end = max(end, c.pieces[hi].max)
			hi++
		}
		c.cluster(lo, hi, end)
		lo = hi
	}
	if c.descending {
		slices.Reverse(c.clusters)
	}
	return true
}

// cached sets the parts of a cache that the present series has, to be gathered
// later, and returns their number. They are more than one where a walk from
// the newest row may stop early, and where rows of many fields would take much
// memory.
func (c *cursor) cached(s *cacheSource) int {
	t, rows, ok := s.gather.Range(c.id)
	if t = t.Intersect(c.times); !ok || t.Empty() {
		return 0
	}
	n := 0
	add := func(times model.TimeRange, count int) {
		if n == len(s.parts) {
			s.parts = append(s.parts, cachePart{})
		}
		s.parts[n].times, s.parts[n].count, s.parts[n].gathered = times, count, false
		n++
	}
	if c.descending {
		s.cuts = s.gather.Newest(c.id, newestRows[:], s.cuts[:0])
		for i, cut := range s.cuts {
			if cut > t.Min && cut <= t.Max {
				add(model.TimeRange{Min: cut, Max: t.Max}, newestRows[i])
				t.Max = cut - 1
			}
		}
	}
	if most := max(c.view.shard.cells/max(len(c.fields), 1), 1); rows > most {
		s.cuts = s.gather.Cuts(c.id, t, most, s.cuts[:0])
		for _, cut := range s.cuts {
			add(model.TimeRange{Min: t.Min, Max: cut - 1}, most)
			t.Min = cut
		}
		rows = most
	}
	add(t, rows)
	return n
}

// cluster appends the overlapping pieces[lo:hi], of which the last time is
// end, in parts.
func (c *cursor) cluster(lo, hi int, end int64) {
	for {
		n, bytes, cells := lo, 0, 0
		from := c.pieces[lo].min
		if k := len(c.clusters); k > 0 && from <= c.clusters[k-1].times.Max {
			from = c.clusters[k-1].times.Max + 1
		}
		// A part ends where a piece begins: after it no piece of it but those
		// that reach over is read again.
		fresh := 0
		for n < hi && (fresh < clusterPieces && bytes < clusterBytes && cells < 2*c.view.shard.cells || c.pieces[n].min <= from) {
			if c.pieces[n].min >= from {
				fresh++
				bytes += c.pieces[n].bytes
				cells += c.pieces[n].rows * len(c.fields)
			}
			n++
		}
		if n == hi {
			c.clusters = append(c.clusters, cluster{lo, hi, model.TimeRange{Min: from, Max: end}})
			return
		}
		to := c.pieces[n].min - 1
		c.clusters = append(c.clusters, cluster{lo, n, model.TimeRange{Min: from, Max: to}})
		for lo < n && c.pieces[lo].max <= to {
			lo++
		}
	}
}

// NextChunk returns the next chunk of the present series.
func (c *cursor) NextChunk() scan.Chunk {
	if ch := c.ahead; ch != nil {
		c.ahead = nil
		return ch
	}
	return c.nextChunk()
}

func (c *cursor) nextChunk() scan.Chunk {
	c.letGo()
	for c.err == nil && c.at < len(c.clusters) {
		if err := c.ctx.Err(); err != nil {
			c.err = err
			return nil
		}
		cl := c.clusters[c.at]
		c.at++
		if c.alone(cl) {
			if ch := c.single(c.pieces[cl.lo]); ch != nil {
				return ch
			}
			continue
		}
		if rows := c.merge(cl); rows != nil && rows.Len() > 0 {
			return c.memory(rows)
		}
	}
	return nil
}

// alone reports whether a cluster is one whole piece.
func (c *cursor) alone(cl cluster) bool {
	return cl.hi-cl.lo == 1 && c.pieces[cl.lo].min >= cl.times.Min && c.pieces[cl.lo].max <= cl.times.Max
}

// gather returns the rows of a piece of a cache. The walk is at times: what was
// gathered of others gives its memory.
func (c *cursor) gather(p piece, times model.TimeRange) *column.Rows {
	s := &c.caches[p.source-len(c.sources)]
	part := &s.parts[p.chunk]
	if !part.gathered {
		for i := range s.parts {
			if q := &s.parts[i]; q != part && cap(q.rows.Times) > 0 && !(q.gathered && q.times.Overlaps(times)) {
				q.rows, part.rows, q.gathered = part.rows, q.rows, false
				break
			}
		}
		s.gather.Gather(&part.rows, c.id, c.fields, part.times)
		part.gathered = true
	}
	return &part.rows
}

func (c *cursor) memory(rows *column.Rows) scan.Chunk {
	c.mem = rowsChunk{rows: rows, absent: c.absent}
	return &c.mem
}

// single hands out a piece that overlaps no other, as it lies if possible.
func (c *cursor) single(p piece) scan.Chunk {
	if p.source >= len(c.sources) {
		rows := c.gather(p, model.TimeRange{Min: p.min, Max: p.max})
		if rows.Len() == 0 {
			return nil
		}
		return c.memory(rows)
	}
	s := &c.sources[p.source]
	if !p.masked {
		if err := s.file.reader.Chunk(&s.series, p.chunk, &s.chunk); err != nil {
			c.err = err
			return nil
		}
		ok, err := c.direct.set(s, c.times, c.types)
		if err != nil {
			c.err = err
			return nil
		}
		if ok {
			if c.direct.Len() == 0 {
				return nil
			}
			return &c.direct
		}
	}
	c.merged.Reset(c.types)
	if err := s.read(c, p.chunk, c.times, &c.merged); err != nil {
		c.err = err
		return nil
	}
	if c.merged.Len() == 0 {
		return nil
	}
	return c.memory(&c.merged)
}

// merge reads overlapping pieces within a cluster's times and merges them,
// newer source over older.
func (c *cursor) merge(cl cluster) *column.Rows {
	c.ptrs = c.ptrs[:0]
	times := cl.times.Intersect(c.times)
	c.slices = slices.Grow(c.slices[:0], cl.hi-cl.lo) // ptrs points into it
	used := 0
	for src := range len(c.sources) + len(c.caches) {
		var rows *column.Rows
		for _, p := range c.pieces[cl.lo:cl.hi] {
			if p.source != src || p.max < times.Min || p.min > times.Max {
				continue
			}
			if src >= len(c.sources) {
				// The parts of a cache do not overlap: a source each will do.
				if all := c.gather(p, times); all.Len() > 0 {
					if lo, hi := all.Bounds(times); lo < hi {
						c.slices = append(c.slices, all.Slice(lo, hi, nil))
						c.ptrs = append(c.ptrs, &c.slices[len(c.slices)-1])
					}
				}
				continue
			}
			if rows == nil {
				if c.parts == nil {
					c.parts = make([]column.Rows, len(c.sources))
				}
				rows = &c.parts[used]
				used++
				rows.Reset(c.types)
			}
			if err := c.sources[src].read(c, p.chunk, times, rows); err != nil {
				c.err = err
				return nil
			}
		}
		if rows != nil && rows.Len() > 0 {
			c.ptrs = append(c.ptrs, rows)
		}
	}
	c.merged.Reset(c.types)
	column.Merge(&c.merged, c.ptrs)
	return &c.merged
}

// Err returns the error that ended the walk.
func (c *cursor) Err() error {
	if c.err != nil {
		c.view.shard.blame(c.err, c.view.set.files)
	}
	return c.err
}

// Close ends the cursor; the view stays.
func (c *cursor) Close() { c.letGo() }

// chargeText charges the reader for the texts of a chunk's field before they are
// decoded (W9).
func (c *cursor) chargeText(chunk *tsm.Chunk, field int) error {
	if c.charge == nil {
		return nil
	}
	n, err := chunk.TextBytes(field)
	if err != nil || n == 0 {
		return err
	}
	c.charged += int64(n)
	return c.charge(int64(n))
}

// letGo gives back what the present chunk was charged.
func (c *cursor) letGo() {
	if c.charged != 0 {
		_ = c.charge(-c.charged) // giving back does not fail
		c.charged = 0
	}
}

// bounds returns a range that holds the rows of one series.
func (c *cursor) bounds(id model.SeriesID) (model.TimeRange, bool, error) {
	r := model.TimeRange{Min: math.MaxInt64, Max: math.MinInt64}
	for i := range c.sources {
		s := &c.sources[i]
		ok, err := s.find(id)
		if err != nil {
			return r, false, err
		}
		if ok {
			for _, e := range s.series.Chunks {
				if _, wholly := s.masked(id, e.Min, e.Max); !wholly {
					r = r.Union(model.TimeRange{Min: e.Min, Max: e.Max})
				}
			}
		}
	}
	for i := range c.caches {
		if t, _, ok := c.caches[i].gather.Range(id); ok {
			r = r.Union(t)
		}
	}
	return r, !r.Empty(), nil
}

// hasRows reports whether a series has a living row.
func (c *cursor) hasRows(id model.SeriesID) (bool, error) {
	for i := range c.caches {
		if c.caches[i].gather.HasRows(id) {
			return true, nil
		}
	}
	for i := range c.sources {
		s := &c.sources[i]
		ok, err := s.find(id)
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		for k, e := range s.series.Chunks {
			partly, wholly := s.masked(id, e.Min, e.Max)
			if wholly {
				continue
			}
			if !partly {
				return true, nil
			}
			if err := s.file.reader.Chunk(&s.series, k, &s.chunk); err != nil {
				return false, err
			}
			times, err := s.chunk.Times()
			if err != nil {
				return false, err
			}
			for _, t := range times {
				if !s.hidden(id, t) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}
