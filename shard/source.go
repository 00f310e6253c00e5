package shard

import (
	"context"

	"tsdbd/cache"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/shard/manifest"
	"tsdbd/shard/moves"
	"tsdbd/tsm"
)

// source is a file or a cache as a cursor sees it. Rows of a moved series are in files and
// caches as those of other series: then there is a source for each of these (moves.Place).
type source struct {
	part
	renames moves.Renames  // of fields since the rows were written
	id      model.SeriesID // as which the present series has rows here
	loaded  bool           // it may have some

	// Of a cache: rows of the present series. The walk may leave some empty.
	cached []cachePart
	cuts   []int64

	*reading // of a file
}

// part is a file or a cache of a view.
type part struct {
	file       *file                 // nil: a cache
	gather     *cache.Gatherer       // of a cache
	tombstones []*manifest.Tombstone // that hide rows of the file
	door       *moves.Door           // to all parts of the view, see moves.List.Door
	number     int                   // behind the door
}

// reading is what a source has read of its file.
type reading struct {
	series tsm.Series            // the present one
	masks  []*manifest.Tombstone // that hide rows of it
	chunk  tsm.Chunk

	mapped     *column.Field // identity of the field list that fields was made for
	fields     []int         // wanted column -> field of the file's series, -1: none
	any        bool          // at least one wanted column is there
	kept       column.Rows   // scratch of read
	everyField bool          // all fields of the file's series are wanted
}

func newReading(ctx context.Context) *reading { return &reading{chunk: tsm.Chunk{Ctx: ctx}} }

// source returns the i-th file of a set alone.
func (s *fileSet) source(ctx context.Context, i int) source {
	f := s.files[i]
	return source{part: part{file: f, tombstones: s.tombstones()[i], door: s.Moves.Door(f.MaxSequence)}, reading: newReading(ctx)}
}

// find makes a series the present one, and reports whether the source may have rows of it:
// a cache may, as long as nobody has looked.
func (s *source) find(id model.SeriesID) (bool, error) {
	s.loaded, s.id = s.gather != nil, id
	if s.gather != nil {
		return true, nil
	}
	if s.file.Lacks(id) {
		return false, nil
	}
	i, ok, err := s.file.reader.Find(id)
	if err != nil || !ok {
		return false, err
	}
	return true, s.load(i)
}

// load makes the i-th series of the file the present one, with the tombstones that name the
// series which had its rows at their time.
func (s *source) load(i int) error {
	if err := s.file.reader.Load(i, &s.series); err != nil {
		return err
	}
	s.loaded, s.id, s.masks = true, s.series.ID, s.masks[:0]
	if len(s.tombstones) == 0 {
		return nil
	}
	name := s.door.Name(s.number, s.id)
	for _, t := range s.tombstones {
		if t.Series.Contains(uint32(name.At(t.Sequence))) {
			s.masks = append(s.masks, t)
		}
	}
	return nil
}

// unmap forgets which fields of the file the wanted columns are.
func (s *source) unmap() {
	if s.reading != nil {
		s.mapped = nil
	}
}

// project maps the wanted columns to the series' fields. Field lists are
// shared between the series of a file, so most calls find the map.
func (s *source) project(wanted []column.Field) bool {
	have := s.series.Fields
	if len(have) == 0 {
		return false
	}
	if s.mapped == &have[0] && len(s.fields) == len(wanted) {
		return s.any
	}
	s.mapped, s.any, s.fields = &have[0], false, s.fields[:0]
	found := 0
	for _, w := range wanted {
		p := -1
		if i, ok := column.FindField(have, s.renames.Original(w.Key)); ok && have[i].Type == w.Type {
			p, s.any = i, true
			found++
		}
		s.fields = append(s.fields, p)
	}
	s.everyField = found == len(have) && len(s.renames) == 0
	return s.any
}

// masked reports how far tombstones hide rows of the series in [lo, hi].
func (s *source) masked(lo, hi int64) (partly, wholly bool) {
	for _, t := range s.masks {
		if t.Range.Min <= hi && t.Range.Max >= lo {
			partly = true
			if t.Range.Min <= lo && t.Range.Max >= hi {
				return true, true
			}
		}
	}
	return partly, false
}

// hidden reports whether a row of the series is hidden.
func (s *source) hidden(time int64) bool {
	for _, t := range s.masks {
		if t.Range.Contains(time) {
			return true
		}
	}
	return false
}

// hasRows reports whether the loaded series has a living row. It says so of a cold file
// without the rows if deletes leave that open.
func (s *source) hasRows() (bool, error) {
	if s.gather != nil {
		return s.gather.HasRows(s.id), nil
	}
	for k, e := range s.series.Chunks {
		_, wholly := s.masked(e.Min, e.Max)
		// Times that are elsewhere are not read for it: a delete does not wait for a store
		// of objects, and at worst the index keeps a series without rows.
		if !wholly && (!s.hidden(e.Min) || !s.hidden(e.Max) || e.Step == 0 && s.file.reader.Remote()) {
			return true, nil
		}
		if n, err := s.hiddenOf(k); n < e.Rows || err != nil {
			return err == nil, err
		}
	}
	return false, nil
}

// hiddenOf returns how many rows of chunk k of the loaded series are hidden.
func (s *source) hiddenOf(k int) (n int, err error) {
	e := &s.series.Chunks[k]
	partly, wholly := s.masked(e.Min, e.Max)
	switch {
	case wholly:
		return e.Rows, nil
	case !partly:
		return 0, nil
	}
	times, err := s.times(k)
	for _, t := range times {
		if s.hidden(t) {
			n++
		}
	}
	return n, err
}

// times makes chunk k of the present series the present one, and returns its times.
func (s *source) times(k int) ([]int64, error) {
	if err := s.file.reader.Chunk(&s.series, k, &s.chunk); err != nil {
		return nil, err
	}
	return s.chunk.Times()
}

// read appends the living rows of chunk k of the present series within times to
// dst.
func (s *source) read(k int, times model.TimeRange, dst *column.Rows, texts *texts) error {
	ts, err := s.times(k)
	if err != nil {
		return err
	}
	lo, hi := column.BoundsOf(ts, times)
	if lo >= hi {
		return nil
	}
	partly, _ := s.masked(ts[lo], ts[hi-1])
	into := dst
	if partly || !s.full() {
		// Rows may fall out: not in dst, whose rows would be gone through at
		// every chunk.
		into = &s.kept
		into.Reset(types(dst))
	}
	into.Times = append(into.Times, ts[lo:hi]...)
	for c, p := range s.fields {
		if p < 0 {
			into.Cols[c].AppendNulls(hi - lo)
			continue
		}
		if into.Cols[c].Type == model.String {
			if err := texts.take(&s.chunk, p); err != nil {
				return err
			}
		}
		v, err := s.chunk.Column(p)
		if err != nil {
			return err
		}
		into.Cols[c].AppendVector(v, lo, hi)
	}
	if into == dst {
		return nil
	}
	into.Keep(func(i int) bool { return !partly || !s.hidden(into.Times[i]) }, true)
	dst.AppendRange(into, 0, into.Len())
	return nil
}

// full reports whether every row of the present chunk has a wanted value.
func (s *source) full() bool {
	for _, p := range s.fields {
		if p >= 0 && s.chunk.AllValid(p) {
			return true
		}
	}
	return false
}

func types(r *column.Rows) []model.FieldType {
	t := make([]model.FieldType, len(r.Cols))
	for i := range r.Cols {
		t[i] = r.Cols[i].Type
	}
	return t
}
