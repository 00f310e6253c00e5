package shard

import (
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/series/keyorder"
	"tsdbd/shard/manifest"
	"tsdbd/shard/plan"
	"tsdbd/tsm"
)

// merger writes the living rows of several files, series by series in key
// order. Whole chunks that overlap nothing are copied as they are; the rest is
// read, merged and cut into full chunks, a few chunks at a time: a merge takes
// the memory of some chunks per file, however long a series is.
type merger struct {
	ctx context.Context
	s   *Shard
	c   merging       // without caches
	rec manifest.File // of every file, except name, size, and checksum

	w     *tsm.Writer     // nil before the first series of a file
	done  []manifest.File // finished files
	sized int64           // size of w that has been counted

	heads []head
	taken *keyorder.Order   // the series to merge; nil: all that the files have
	next  []keyorder.Series // the next of taken
	buf   column.Rows       // rows not yet written of the present series
	text  int               // bytes of strings in buf
	rows  int               // of a full chunk of the present series
	open  bool              // the writer has begun the present series
	key   string
	debt  int // bytes read and written since the last pause
}

// head is the next series of a source.
type head struct {
	next int
	key  string
	done bool
}

// paceBytes is how much a merge reads and writes between two pauses.
const paceBytes = 128 << 10

// newMerger returns a merger of the view's files [lo, hi), which makes the moves up to the
// end of rec of their rows.
func newMerger(ctx context.Context, s *Shard, v *View, lo, hi int, rec manifest.File) *merger {
	files := View{shard: s, set: &fileSet{files: v.set.files[lo:hi], tombstones: v.set.tombstones[lo:hi], Events: v.set.Events}}
	m := &merger{ctx: ctx, s: s, c: merging{pieces: files.pieces(model.AllTime)}, rec: rec}
	m.c.door = m.c.door.Until(rec.MaxSequence)
	m.c.asked = func(bytes int) error {
		m.debt += bytes
		return m.pace()
	}
	return m
}

// advance moves the head of a file to its next series.
func (m *merger) advance(i int) error {
	h, f := &m.heads[i], m.c.parts[i].file
	r := f.reader
	for ; f.Gone != nil && h.next < r.Len(); h.next++ {
		if id, err := r.ID(h.next); err != nil {
			return err
		} else if !f.Lacks(id) {
			break
		}
	}
	if h.next >= r.Len() {
		h.done = true
		return nil
	}
	key, err := r.Key(h.next)
	if err != nil {
		return err
	}
	h.key = key
	return nil
}

// take makes the series of a set those that are merged.
func (m *merger) take(set *roaring.Bitmap) (err error) {
	ids := make([]model.SeriesID, 0, set.GetCardinality())
	for it := set.Iterator(); it.HasNext(); {
		ids = append(ids, model.SeriesID(it.Next()))
	}
	m.taken, err = keyorder.New(m.s.series.Keys, ids)
	return err
}

// start finds the first series of each file.
func (m *merger) start() error {
	if m.taken != nil {
		return nil
	}
	m.heads = make([]head, len(m.c.parts))
	for i := range m.heads {
		if err := m.advance(i); err != nil {
			return err
		}
	}
	return nil
}

// run writes the files. After an error abort removes them.
func (m *merger) run() (err error) {
	defer vfs.CatchFault(&err)()
	if err := m.start(); err != nil {
		return err
	}
	for n := 0; ; n++ {
		if n&255 == 0 {
			if err := m.pace(); err != nil {
				return err
			}
		}
		if more, err := m.step(); err != nil {
			return err
		} else if !more {
			return m.finish()
		}
		if err := m.series(); err != nil {
			return err
		}
		if m.w != nil && m.w.Size() >= m.s.maxFile {
			if err := m.finish(); err != nil {
				return err
			}
		}
	}
}

// step makes the next series the present one, and returns false if there is none.
func (m *merger) step() (more bool, err error) {
	if m.taken != nil {
		if m.next, err = m.taken.Next(m.next[:0], 1); err != nil || len(m.next) == 0 {
			return false, err
		}
		m.key = m.next[0].Key
		if name := model.SeriesMeasurement(m.key); name != m.c.measurement {
			m.c.of(name)
		}
		return true, m.c.find(m.next[0].ID)
	}
	first := -1
	for i := range m.heads {
		if !m.heads[i].done && (first < 0 || m.heads[i].key < m.heads[first].key) {
			first = i
		}
	}
	if first < 0 {
		return false, nil
	}
	return true, m.find(m.heads[first].key)
}

// find makes the series of a key the present one, in the files whose next it is.
func (m *merger) find(key string) error {
	m.key = key
	m.c.unload()
	for i := range m.heads {
		if m.heads[i].done || m.heads[i].key != m.key {
			continue
		}
		if err := m.c.load(i, m.heads[i].next); err != nil {
			return err
		}
		m.heads[i].next++
		if err := m.advance(i); err != nil {
			return err
		}
	}
	return nil
}

// finish ends the present file.
func (m *merger) finish() error {
	if m.w == nil {
		return nil
	}
	info, err := m.w.Finish()
	if err != nil {
		return err
	}
	m.s.counters.wrote(m.rec.Level, info.Size-m.sized)
	rec := m.rec
	rec.Size, rec.Checksum = info.Size, info.Checksum
	m.done = append(m.done, rec)
	m.w = nil
	return nil
}

// abort removes what was written.
func (m *merger) abort() {
	if m.w != nil {
		_ = m.w.Abort()
	}
	for _, rec := range m.done {
		_ = m.s.fs.Remove(m.s.path(rec.Name))
	}
}

// pace counts what was read and written and lets others have the disk.
func (m *merger) pace() error {
	n := m.debt
	m.s.counters.read(m.rec.Level, int64(n))
	if m.w != nil {
		size := m.w.Size()
		m.s.counters.wrote(m.rec.Level, size-m.sized)
		n += int(size - m.sized)
		m.sized = size
	}
	m.debt = 0
	return m.s.waitPace(m.ctx, n)
}

// waitPace lets others have the disk after bytes were read and written. It ends
// with ctx.
func (s *Shard) waitPace(ctx context.Context, bytes int) error {
	if err := ctx.Err(); err != nil || s.pace == nil {
		return err
	}
	return s.pace(ctx, bytes)
}

// series merges the present series.
func (m *merger) series() error {
	c := &m.c
	if err := m.union(); err != nil {
		return err
	}
	m.rows = tsm.FullChunk(len(c.fields))
	m.open = false
	m.buf.Reset(c.types)
	m.text = 0
	if !c.collect() {
		return nil
	}
	for c.crowded && !c.rest.Empty() {
		rows, err := c.pass()
		if err != nil {
			return err
		}
		if err := m.add(rows); err != nil {
			return err
		}
	}
	for _, cl := range c.clusters {
		for _, p := range c.list[cl.lo:cl.hi] {
			m.debt += p.bytes
		}
		if m.debt >= paceBytes {
			if err := m.pace(); err != nil {
				return err
			}
		}
		if p := c.list[cl.lo]; c.alone(cl) && !p.masked {
			s := &c.sources[p.source]
			e := s.series.Chunks[p.chunk]
			full := e.Rows > m.rows/2 && (m.buf.Len() == 0 || m.buf.Len() > m.rows/2)
			if s.whole && (full || e.Bytes > tsm.ChunkText/4) {
				if err := m.emit(0); err != nil {
					return err
				}
				if err := m.begin(); err != nil {
					return err
				}
				if err := m.w.AppendEncoded(s.file.reader, &s.series, p.chunk); err != nil {
					return err
				}
				continue
			}
			from := m.buf.Len()
			if err := c.read(p.source, p.chunk, model.AllTime, &m.buf); err != nil {
				return err
			}
			if err := m.added(from); err != nil {
				return err
			}
			continue
		}
		rows, err := c.merge(cl)
		if err != nil {
			return err
		}
		if err := m.add(rows); err != nil {
			return err
		}
	}
	return m.emit(0)
}

// add takes rows over from merged ones.
func (m *merger) add(rows *column.Rows) error {
	from := m.buf.Len()
	m.buf.AppendRange(rows, 0, rows.Len())
	return m.added(from)
}

// added writes chunks if the buffer has become long by its rows from one on.
func (m *merger) added(from int) error {
	if m.text += tsm.TextBytes(&m.buf, from); m.buf.Len() >= 2*m.rows || m.text >= 2*tsm.ChunkText {
		return m.emit(m.rows)
	}
	return nil
}

// union makes the present series' fields, sorted by key, the cursor's columns.
// Where files disagree on a type the newest counts: the older was deleted
// whole before another type could be written, or its tombstone was lost.
func (m *merger) union() error {
	if m.c.crowded {
		fields, err := m.c.crowdFields()
		m.want(fields)
		return err
	}
	sources := m.c.sources
	var newest, fields []column.Field
	for i := len(sources) - 1; i >= 0; i-- {
		if !sources[i].loaded {
			continue
		}
		if f := sources[i].renames.Fields(sources[i].series.Fields); newest == nil {
			newest, fields = f, append(fields, f...)
		} else if !slices.Equal(f, newest) {
			fields = append(fields, f...)
		}
	}
	m.want(column.UnionFields(fields))
	return nil
}

// want makes fields the columns.
func (m *merger) want(fields []column.Field) {
	if !slices.Equal(fields, m.c.fields) {
		m.c.want(fields)
	}
}

// begin makes the writer begin the present series, once. It creates a file if
// there is none.
func (m *merger) begin() error {
	if m.open {
		return nil
	}
	if m.w == nil {
		m.rec.Name = manifest.TSMName(m.s.takeNumber())
		w, err := tsm.Create(m.s.fs, m.s.path(m.rec.Name), tsm.WriterOptions{
			MinSequence: m.rec.MinSequence, MaxSequence: m.rec.MaxSequence, Level: m.rec.Level, Dense: m.rec.Level == plan.FullLevel,
		})
		if err != nil {
			return err
		}
		m.w, m.sized = w, 0
	}
	m.open = true
	return m.w.Series(m.c.id, m.key, m.c.fields)
}

// emit writes the buffered rows in chunks while more than keep are left, or
// more text than a chunk takes.
func (m *merger) emit(keep int) error {
	n := m.buf.Len()
	if n == 0 {
		return nil
	}
	if err := m.begin(); err != nil {
		return err
	}
	at := 0
	var cols []column.Vector
	for at < n {
		end, text := tsm.CutChunk(&m.buf, at)
		if n-at <= keep && m.text < tsm.ChunkText {
			break
		}
		part := m.buf.Slice(at, end, cols)
		cols = part.Cols
		if err := m.w.Append(part.Times, part.Cols); err != nil {
			return err
		}
		m.text -= text
		at = end
	}
	rest := column.Rows{}
	rest.Reset(m.c.types)
	rest.AppendRange(&m.buf, at, n)
	m.buf = rest
	return nil
}
