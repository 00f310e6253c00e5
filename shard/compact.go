package shard

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tsdbd/column"
	"tsdbd/model"
	"tsdbd/tsm"
)

// Compact runs the next merge that the plan calls for and reports whether
// there was one. A cold shard is merged fully.
func (s *Shard) Compact(ctx context.Context, cold bool) (bool, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	s.compacting.Lock()
	defer s.compacting.Unlock()
	v := s.View()
	if v == nil {
		return false, nil
	}
	defer v.Release()
	facts := make([]fact, len(v.set.files))
	for i, f := range v.set.files {
		facts[i] = fact{size: f.size, level: f.level, masked: len(v.masks[i]) > 0, damaged: f.damaged.Load()}
	}
	lo, hi, level := plan(facts, cold)
	did := false
	if lo < hi {
		if err := s.merge(ctx, v, lo, hi, level); err != nil {
			s.blame(err, v.set.files[lo:hi])
			return false, fmt.Errorf("compact shard %d: %w", s.id, err)
		}
		did = true
	}
	healed, err := s.healIndex()
	if err != nil {
		return did, fmt.Errorf("rebuild index of shard %d: %w", s.id, err)
	}
	merged, err := s.compactIndex(cold)
	if err != nil {
		return did, fmt.Errorf("compact index of shard %d: %w", s.id, err)
	}
	return did || healed || merged, nil
}

// takeNumber returns the number of a new file.
func (s *Shard) takeNumber() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.mu.manifest.next
	s.mu.manifest.next++
	return n
}

// merge writes the files [lo, hi) of the view into one and swaps it in.
func (s *Shard) merge(ctx context.Context, v *View, lo, hi, level int) error {
	in := v.set.files[lo:hi]
	out := fileRecord{number: s.takeNumber(), level: level, minSequence: in[0].minSequence, maxSequence: in[len(in)-1].maxSequence}
	for _, t := range v.set.tombstones {
		out.tombstoneSeq = max(out.tombstoneSeq, t.sequence)
	}
	path := s.path(tsmName(out.number))
	info, err := s.writeMerged(ctx, v, lo, hi, path, out)
	if err != nil {
		return err
	}
	var f *file
	if info.Rows > 0 {
		err := s.fs.SyncDir(s.dir)
		var r *tsm.Reader
		if err == nil {
			r, err = tsm.Open(s.fs, path)
		}
		if err != nil {
			_ = s.fs.Remove(path)
			return err
		}
		out.size, out.checksum = info.Size, info.Checksum
		f = &file{fileRecord: out, reader: r}
	}
	return s.swap(in, f)
}

// swap commits a merge: the manifest, then the set in memory.
func (s *Shard) swap(in []*file, out *file) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	m := s.mu.manifest.clone()
	files := s.mu.set.replace(in, out)
	tombstones, cut := s.mu.set.tombstones, s.mu.cut
	s.mu.RUnlock()
	m.tsm = m.tsm[:0:0]
	for _, f := range files {
		m.tsm = append(m.tsm, f.fileRecord)
	}
	m.tombstones = liveTombstones(tombstones, files, cut)
	var fresh []string
	if out != nil {
		fresh = append(fresh, tsmName(out.number))
	}
	if err := s.commit(m, fresh...); err != nil {
		if out != nil {
			_ = out.reader.Release()
		}
		return err
	}
	s.mu.Lock()
	old := s.mu.set
	s.mu.set = newFileSet(files, liveTombstones(old.tombstones, files, s.mu.cut))
	m.next = max(m.next, s.mu.manifest.next)
	s.mu.manifest = m
	s.mu.Unlock()
	old.release()
	for _, f := range in {
		f.reader.Obsolete(true) // removed from disk after the last reader (W6)
		f.reader.Release()
	}
	return nil
}

// writeMerged writes the living rows of files [lo, hi) to path, series by
// series in key order. Whole chunks that overlap nothing are copied as they
// are; the rest is read, merged and cut into full chunks.
func (s *Shard) writeMerged(ctx context.Context, v *View, lo, hi int, path string, rec fileRecord) (_ tsm.Info, err error) {
	w, err := tsm.Create(s.fs, path, tsm.WriterOptions{MinSequence: rec.minSequence, MaxSequence: rec.maxSequence, Level: rec.level})
	if err != nil {
		return tsm.Info{}, err
	}
	defer func() {
		if err != nil {
			w.Abort()
		}
	}()
	m := merger{c: v.open(nil), w: w}
	m.c.ctx = ctx
	m.c.caches = nil
	m.c.sources = m.c.sources[lo:hi]
	if err := m.run(); err != nil {
		return tsm.Info{}, err
	}
	if !m.wrote {
		w.Abort()
		return tsm.Info{}, nil
	}
	return w.Finish()
}

// merger walks the series of several files in key order.
type merger struct {
	c     *cursor
	w     *tsm.Writer
	heads []head
	buf   column.Rows // rows not yet written of the present series
	wrote bool
	open  bool // the writer has been told of the present series
	key   string
}

// head is the next series of a source.
type head struct {
	next int
	key  string
	done bool
}

func (m *merger) advance(i int) error {
	h, r := &m.heads[i], m.c.sources[i].file.reader
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

func (m *merger) run() error {
	m.heads = make([]head, len(m.c.sources))
	for i := range m.heads {
		if err := m.advance(i); err != nil {
			return err
		}
	}
	for n := 0; ; n++ {
		if n&255 == 0 && m.c.ctx.Err() != nil {
			return m.c.ctx.Err()
		}
		first := -1
		for i := range m.heads {
			if !m.heads[i].done && (first < 0 || m.heads[i].key < m.heads[first].key) {
				first = i
			}
		}
		if first < 0 {
			return nil
		}
		m.key = m.heads[first].key
		for i := range m.heads {
			s := &m.c.sources[i]
			s.loaded = false
			if m.heads[i].done || m.heads[i].key != m.key {
				continue
			}
			if err := s.load(m.heads[i].next); err != nil {
				return err
			}
			m.c.id = s.series.ID
			m.heads[i].next++
			if err := m.advance(i); err != nil {
				return err
			}
		}
		if err := m.series(); err != nil {
			return err
		}
	}
}

// series merges the present series.
func (m *merger) series() error {
	c := m.c
	m.union()
	m.open = false
	m.buf.Reset(c.types)
	if !c.collect() {
		return c.err
	}
	for _, cl := range c.clusters {
		if p := c.pieces[cl.lo]; cl.hi-cl.lo == 1 && !p.masked {
			s := &c.sources[p.source]
			if e := s.series.Chunks[p.chunk]; s.whole && e.Rows > ChunkRows/2 && (m.buf.Len() == 0 || m.buf.Len() > ChunkRows/2) {
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
			if err := s.read(c.id, p.chunk, model.AllTime, &m.buf); err != nil {
				return err
			}
		} else {
			rows := c.merge(c.pieces[cl.lo:cl.hi])
			if c.err != nil {
				return c.err
			}
			m.buf.AppendRange(rows, 0, rows.Len())
		}
		if m.buf.Len() >= 2*ChunkRows {
			if err := m.emit(ChunkRows); err != nil {
				return err
			}
		}
	}
	return m.emit(0)
}

// union makes the present series' fields, sorted by key, the cursor's columns.
// Where files disagree on a type the newest counts: the older was deleted
// whole before another type could be written, or its tombstone was lost.
func (m *merger) union() {
	c := m.c
	var fields []column.Field
	for i := len(c.sources) - 1; i >= 0; i-- {
		if !c.sources[i].loaded {
			continue
		}
		for _, f := range c.sources[i].series.Fields {
			if !slices.ContainsFunc(fields, func(h column.Field) bool { return h.Key == f.Key }) {
				fields = append(fields, f)
			}
		}
	}
	slices.SortFunc(fields, func(a, b column.Field) int { return strings.Compare(a.Key, b.Key) })
	if slices.Equal(fields, c.fields) {
		return
	}
	c.fields = fields
	c.types = c.types[:0]
	for _, f := range fields {
		c.types = append(c.types, f.Type)
	}
	for i := range c.sources {
		c.sources[i].mapped = nil
	}
}

// begin tells the writer of the present series, once.
func (m *merger) begin() error {
	if m.open {
		return nil
	}
	m.open, m.wrote = true, true
	return m.w.Series(m.c.id, m.key, m.c.fields)
}

// emit writes the buffered rows in chunks while more than keep are left.
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
	for n-at > keep {
		end := min(at+ChunkRows, n)
		part := m.buf.Slice(at, end, cols)
		cols = part.Cols
		if err := m.w.Append(part.Times, part.Cols); err != nil {
			return err
		}
		at = end
	}
	rest := column.Rows{}
	rest.Reset(m.c.types)
	rest.AppendRange(&m.buf, at, n)
	m.buf = rest
	return nil
}
