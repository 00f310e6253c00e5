package tsm1

import (
	"bytes"
	"math"
	"sort"

	"tsdbd/exchange/rows"
	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/tsm1/block"
)

// A column is one field of one series. Its values come from sources: the blocks of one
// file, or the log. The source of the highest rank wins where several have a time. The
// cursor of a column hands out its values as views, each of them ascending.

// timeList is decoded times. Blocks of a series often have the same times, byte by byte:
// they share one list.
type timeList struct {
	encoded []byte // empty: not those of a block
	times   []int64
	users   int
}

// timePool decodes times, and keeps lists for later blocks.
type timePool struct {
	block.Decoder
	free   []*timeList
	latest *timeList // the list decoded last
}

// decode returns the list of encoded times, which its user releases.
func (p *timePool) decode(encoded []byte) (*timeList, error) {
	if l := p.latest; l != nil && l.users > 0 && len(l.encoded) > 0 && bytes.Equal(l.encoded, encoded) {
		l.users++
		return l, nil
	}
	l := p.empty()
	var err error
	if l.times, err = p.AppendTimes(l.times, encoded); err != nil {
		p.release(l)
		return nil, err
	}
	l.encoded = append(l.encoded[:0], encoded...)
	p.latest = l
	return l, nil
}

// empty returns an empty list.
func (p *timePool) empty() *timeList {
	var l *timeList
	if n := len(p.free); n > 0 {
		l, p.free = p.free[n-1], p.free[:n-1]
		l.encoded, l.times = l.encoded[:0], l.times[:0]
	} else {
		l = &timeList{}
	}
	l.users = 1
	return l
}

func (p *timePool) release(l *timeList) {
	if l == nil {
		return
	}
	if l.users--; l.users == 0 {
		if p.latest == l {
			p.latest = nil
		}
		p.free = append(p.free, l)
	}
}

// source is where values of a column come from.
type source struct {
	rank    int // a higher one is newer
	field   string
	kind    model.FieldType
	file    *tsmFile          // nil: of the log
	entry   int64             // of its key in the index of file
	refs    []blockRef        // not yet decoded, the first one maybe in part
	skip    int               // rows of the first of refs that were decoded
	deletes []model.TimeRange // sorted by their beginning
	list    *timeList         // of the present block; nil: none
	values  column.Vector
	at      int // of the next row in the block
}

// peek returns the time of the next row, or a time before it if the block is not yet
// decoded.
func (s *source) peek() (t int64, ok bool) {
	if s.list != nil {
		return s.list.times[s.at], true
	}
	if len(s.refs) > 0 {
		return s.refs[0].times.Min, true
	}
	return 0, false
}

// columnCursor merges the sources of a column.
type columnCursor struct {
	column.Field
	sources []*source
	checked bool // the names are
	// The present view: rows [at, end) of list and of values.
	list    *timeList
	values  *column.Vector
	at, end int

	merged column.Vector // values of several sources
}

// times returns the times of the present view.
func (c *columnCursor) times() []int64 { return c.list.times[c.at:c.end] }

// longRun is the number of rows from which on a view of the source is better than a copy.
const longRun = 64

// fill makes sure that the present view has rows. It returns false at the end.
func (c *columnCursor) fill(r *reader) bool {
	if c.list != nil && c.at < c.end {
		return true
	}
	r.pool.release(c.list)
	c.list = nil
	m := r.pool.empty()
	c.merged.Reset(c.Type)
	for len(m.times) < r.rows {
		first, limit, tied := c.first(r)
		if first == nil {
			break
		}
		s := first
		if tied {
			m.times = append(m.times, s.list.times[s.at])
			c.merged.AppendFrom(&s.values, s.at)
			c.skip(r, s.list.times[s.at])
			continue
		}
		end := s.at + sort.Search(len(s.list.times)-s.at, func(i int) bool { return s.list.times[s.at+i] >= limit })
		if limit == math.MaxInt64 {
			end = len(s.list.times)
		}
		whole := end-s.at >= longRun || limit == math.MaxInt64
		if whole && len(m.times) > 0 {
			break
		}
		if whole {
			r.pool.release(m)
			s.list.users++
			c.list, c.values, c.at, c.end = s.list, &s.values, s.at, end
			r.advance(s, end)
			return true
		}
		m.times = append(m.times, s.list.times[s.at:end]...)
		c.merged.AppendVector(&s.values, s.at, end)
		r.advance(s, end)
	}
	if len(m.times) == 0 {
		r.pool.release(m)
		return false
	}
	c.list, c.values, c.at, c.end = m, &c.merged, 0, len(m.times)
	return true
}

// first returns the source of the next row, decoded; limit is the time of the next row of
// another source. If several sources have the row, tied is true and first is the newest.
func (c *columnCursor) first(r *reader) (first *source, limit int64, tied bool) {
again:
	first, limit, tied = nil, math.MaxInt64, false
	least := int64(0)
	for _, s := range c.sources {
		t, ok := s.peek()
		if !ok {
			continue
		}
		switch {
		case first == nil || t < least:
			if first != nil {
				limit = least
			}
			first, least, tied = s, t, false
		case t > least:
			limit = min(limit, t)
			continue
		default:
			tied = true
			if s.list == nil || first.list != nil && s.rank > first.rank {
				first = s
			}
		}
	}
	if first != nil && first.list == nil {
		r.load(first)
		goto again
	}
	return first, limit, tied
}

// skip passes the row of a time in all sources.
func (c *columnCursor) skip(r *reader, t int64) {
	for _, s := range c.sources {
		if s.list != nil && s.list.times[s.at] == t {
			r.advance(s, s.at+1)
		}
	}
}

// advance moves a source to a row of its block, and beyond it.
func (r *reader) advance(s *source, at int) {
	if s.at = at; at == len(s.list.times) {
		r.pool.release(s.list)
		s.list, s.at = nil, 0
	}
}

// load decodes the next block of a source that has rows to hand out, if there is one. It
// reports damaged blocks and passes them.
func (r *reader) load(s *source) {
	for len(s.refs) > 0 && s.list == nil {
		ref := s.refs[0]
		if r.hidden(s, ref.times) {
			s.refs, s.skip = s.refs[1:], 0
			continue
		}
		if err := r.decodePart(s, ref); err != nil {
			r.damage(s.file.path, ref.offset, err)
			r.pool.release(s.list)
			s.list, s.refs, s.skip = nil, s.refs[1:], 0
			continue
		}
		r.narrow(s)
	}
}

// decodePart decodes the next rows of a block, as many as a source may hold.
func (r *reader) decodePart(s *source, ref blockRef) error {
	var own column.Vector // small memory of the source, while a whole block is decoded
	if r.most < rows.MaxRows {
		own, s.values = s.values, r.whole
	}
	err := r.decode(s, ref)
	if r.most < rows.MaxRows {
		r.whole, s.values = s.values, own
	}
	if err != nil {
		return err
	}
	n := len(s.list.times)
	end := min(n, s.skip+r.most)
	if r.most < rows.MaxRows {
		list := r.pool.empty()
		list.times = append(list.times, s.list.times[s.skip:end]...)
		r.pool.release(s.list)
		s.list = list
		s.values.Reset(s.kind)
		s.values.AppendVector(&r.whole, s.skip, end)
	}
	if s.skip = end; end == n {
		s.refs, s.skip = s.refs[1:], 0
	}
	return nil
}

// hidden reports whether no row of a block is wanted.
func (r *reader) hidden(s *source, times model.TimeRange) bool {
	if !r.times.Overlaps(times) {
		return true
	}
	for _, d := range s.deletes {
		if d.Covers(times) {
			return true
		}
	}
	return false
}

// decode decodes a block.
func (r *reader) decode(s *source, ref blockRef) error {
	raw, err := s.file.readBlock(ref)
	if err != nil {
		return err
	}
	b, err := block.Parse(raw)
	if err != nil {
		return err
	}
	if b.Type != s.kind {
		return binio.Corruptf("", -1, "block of type %s, the index says %s", b.Type, s.kind)
	}
	if s.list, err = r.pool.decode(b.Times); err != nil {
		return err
	}
	times := s.list.times
	if len(times) == 0 || times[0] != ref.times.Min || times[len(times)-1] != ref.times.Max {
		return binio.Corruptf("", -1, "block with other times than the index says")
	}
	s.at = 0
	return r.pool.Values(&b, &s.values, len(times))
}

// narrow drops the rows of a block that are deleted, not wanted, or not storable.
func (r *reader) narrow(s *source) {
	times := s.list.times
	cut := !r.times.Contains(times[0]) || !r.times.Contains(times[len(times)-1])
	for _, d := range s.deletes {
		cut = cut || d.Overlaps(model.TimeRange{Min: times[0], Max: times[len(times)-1]})
	}
	if unstorable := r.unstorable(s); !cut && !unstorable {
		return
	}
	own := r.pool.empty()
	own.times = append(own.times, times...)
	r.pool.release(s.list)
	s.list = own
	kept := column.Rows{Times: own.times, Cols: []column.Vector{s.values}}
	kept.Keep(func(i int) bool {
		t := kept.Times[i]
		if !r.times.Contains(t) {
			return false
		}
		for _, d := range s.deletes {
			if d.Contains(t) {
				return false
			}
		}
		return r.storable(s, kept, i)
	}, false)
	own.times, s.values = kept.Times, kept.Cols[0]
	if len(own.times) == 0 {
		r.pool.release(own)
		s.list = nil
	}
}
