package shard

import (
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/series/keyorder"
	"tsdbd/shard/build"
	"tsdbd/shard/manifest"
)

// merger writes the living rows of several files, series by series in key
// order. Whole chunks that overlap nothing are copied as they are; the rest is
// read, merged and cut into full chunks, a few chunks at a time: a merge takes
// the memory of some chunks per file, however long a series is.
type merger struct {
	s     *Shard
	c     merging // without caches
	out   build.Run
	wrote int64 // bytes of out that have been counted
	debt  int   // bytes read since the last pause

	heads []head
	taken *keyorder.Order   // the series to merge; nil: all that the files have
	page  []keyorder.Series // memory of the next of taken
}

// head is the next series of a source.
type head struct {
	ordinal int
	key     string
	done    bool
}

// paceBytes is how much a merge reads and writes between two pauses.
const paceBytes = 128 << 10

// newMerger returns a merger of the view's files [lo, hi), which makes the moves up to the
// end of rec of their rows.
func newMerger(ctx context.Context, s *Shard, v *View, lo, hi int, rec manifest.File) *merger {
	files := View{shard: s, set: newFileSet(v.set.files[lo:hi], v.set.Events)}
	defer files.set.release() // v has them
	m := &merger{s: s, c: merging{pieces: files.pieces(ctx, model.AllTime)}, out: s.newRun(rec)}
	m.c.door = m.c.door.Until(rec.MaxSequence)
	m.c.asked = func(bytes int) error {
		m.debt += bytes
		return m.pace()
	}
	return m
}

// advance moves the head of a file to its next series.
func (m *merger) advance(i int) (err error) {
	h, f := &m.heads[i], m.c.parts[i].file
	r := f.reader
	for ; f.Gone != nil && h.ordinal < r.Len(); h.ordinal++ {
		if id, err := r.ID(h.ordinal); err != nil {
			return err
		} else if !f.Lacks(id) {
			break
		}
	}
	if h.ordinal >= r.Len() {
		h.done = true
		return nil
	}
	h.key, err = r.Key(h.ordinal)
	return err
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

// files writes the files of the merge and opens them, all or none.
func (m *merger) files() (out []*file, err error) {
	records, err := m.run()
	if err == nil {
		out, err = m.s.openWritten(records)
	}
	if err != nil {
		m.out.Abort()
	}
	return out, err
}

// run writes the files.
func (m *merger) run() (_ []manifest.File, err error) {
	defer vfs.CatchFault(&err)()
	for _, p := range m.c.parts { // bytes may have changed since a query looked
		if err := p.file.reader.VerifyIndex(); err != nil {
			return nil, err
		}
	}
	if m.taken == nil {
		m.heads = make([]head, len(m.c.parts))
		for i := range m.heads {
			if err := m.advance(i); err != nil {
				return nil, err
			}
		}
	}
	for n := 0; ; n++ {
		if n&255 == 0 {
			if err := m.pace(); err != nil {
				return nil, err
			}
		}
		key, err := m.step()
		if err != nil {
			return nil, err
		}
		if key == "" {
			break
		}
		if err := m.series(key); err != nil {
			return nil, err
		}
	}
	records, err := m.out.Finish()
	m.count()
	return records, err
}

// step makes the next series the present one, and returns its key, "" if there is none.
func (m *merger) step() (key string, err error) {
	if m.taken != nil {
		if m.page, err = m.taken.Next(m.page[:0], 1); err != nil || len(m.page) == 0 {
			return "", err
		}
		key = m.page[0].Key
		if name := model.SeriesMeasurement(key); name != m.c.measurement {
			m.c.of(name)
		}
		return key, m.c.find(m.page[0].ID)
	}
	first := -1
	for i := range m.heads {
		if !m.heads[i].done && (first < 0 || m.heads[i].key < m.heads[first].key) {
			first = i
		}
	}
	if first < 0 {
		return "", nil
	}
	key = m.heads[first].key
	return key, m.find(key)
}

// find makes the series of a key the present one, in the files whose next it is.
func (m *merger) find(key string) error {
	m.c.unload()
	for i := range m.heads {
		if m.heads[i].done || m.heads[i].key != key {
			continue
		}
		if err := m.c.load(i, m.heads[i].ordinal); err != nil {
			return err
		}
		m.heads[i].ordinal++
		if err := m.advance(i); err != nil {
			return err
		}
	}
	return nil
}

// count counts what was written, and returns how much that is since the last time.
func (m *merger) count() int64 {
	n := m.out.Bytes() - m.wrote
	m.wrote += n
	m.s.counters.AddWritten(m.out.File.Level, n)
	return n
}

// pace counts what was read and written and lets others have the disk.
func (m *merger) pace() error {
	m.s.counters.AddRead(m.out.File.Level, int64(m.debt))
	n := m.debt + int(m.count())
	m.debt = 0
	return m.s.waitPace(m.c.ctx, n)
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
func (m *merger) series(key string) error {
	c := &m.c
	if err := m.union(); err != nil {
		return err
	}
	if !c.collect() {
		return nil
	}
	m.out.Series(c.id, key, c.fields, c.types)
	for c.crowded && !c.rest.Empty() {
		rows, err := c.pass()
		if err != nil {
			return err
		}
		if err := m.out.Append(rows); err != nil {
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
		if err := m.cluster(cl); err != nil {
			return err
		}
	}
	return m.out.End()
}

// cluster merges a cluster of the present series.
func (m *merger) cluster(cl cluster) error {
	c := &m.c
	p := c.list[cl.lo]
	if !c.alone(cl) || p.masked {
		rows, err := c.merge(cl)
		if err != nil {
			return err
		}
		return m.out.Append(rows)
	}
	if s := &c.sources[p.source]; s.everyField {
		if copied, err := m.out.Copy(m.c.ctx, s.file.reader, &s.series, p.chunk); copied || err != nil {
			return err
		}
	}
	from := m.out.Rows.Len()
	if err := c.read(p.source, p.chunk, model.AllTime, &m.out.Rows); err != nil {
		return err
	}
	return m.out.Appended(from)
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
