package shard

import (
	"slices"
	"sync/atomic"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/shard/manifest"
	"tsdbd/shard/moves"
	"tsdbd/tsm"
)

// file is one TSM file of a shard.
type file struct {
	manifest.File
	reader *tsm.Reader
	damage atomic.Pointer[binio.CorruptError] // found while reading; merges leave it alone then

	hidden  atomic.Int64 // rows that tombstones hide
	counted uint64       // under compacting: the newest tombstone counted in hidden
}

// splits reports whether two files are parts of one run: they cover the same
// sequences and no series is in both. The sequence ranges of any other two
// files of a shard are disjoint.
func (f *file) splits(g *file) bool {
	return f.MinSequence == g.MinSequence && f.MaxSequence == g.MaxSequence
}

// fileSet is an immutable picture of a shard's TSM files and tombstones. It
// owns a reference to each file. Its users hold references to the set (W6).
type fileSet struct {
	refs  atomic.Int64
	files []*file // in the order of their sequences; see splits
	events
}

// events are what changes rows after they were written: in which files they have yet to
// do so, their sequences tell.
type events struct {
	tombstones []*manifest.Tombstone // ascending sequences
	moves      *moves.List           // nil: there are none, the usual case
}

// newFileSet returns a set with one reference, sharing the readers.
func newFileSet(files []*file, ev events) *fileSet {
	s := &fileSet{files: files, events: ev}
	s.refs.Store(1)
	for _, f := range files {
		f.reader.Acquire()
	}
	return s
}

func (s *fileSet) acquire() { s.refs.Add(1) }

func (s *fileSet) release() {
	if s.refs.Add(-1) == 0 {
		for _, f := range s.files {
			f.reader.Release()
		}
	}
}

// masks returns the tombstones that hide rows of f.
func (s *fileSet) masks(f *file) []*manifest.Tombstone {
	var out []*manifest.Tombstone
	for _, t := range s.tombstones {
		if t.Hides(&f.File) && t.Range.Overlaps(f.reader.Info().Range) {
			out = append(out, t)
		}
	}
	return out
}

// allMasks returns the masks of each file.
func (s *fileSet) allMasks() [][]*manifest.Tombstone {
	out := make([][]*manifest.Tombstone, len(s.files))
	for i, f := range s.files {
		out[i] = s.masks(f)
	}
	return out
}

// with returns a set with one more tombstone or move. One that the set has is not added
// again: a manifest may have it before the log comes to it.
func (s *fileSet) with(t *manifest.Tombstone, m *moves.Move) *fileSet {
	ev := s.events
	if t != nil {
		ev.tombstones = slices.Clone(s.tombstones)
		at := len(ev.tombstones)
		for at > 0 && ev.tombstones[at-1].Sequence > t.Sequence {
			at--
		}
		ev.tombstones = slices.Insert(ev.tombstones, at, t)
	}
	if m != nil {
		ev.moves = s.moves.With(m)
	}
	return newFileSet(s.files, ev)
}

// replace returns the files with in, which are neighbors, replaced by out.
func replace(all, in, out []*file) []*file {
	var files []*file
	placed := false
	for _, f := range all {
		if slices.Contains(in, f) {
			if !placed {
				files = append(files, out...)
				placed = true
			}
			continue
		}
		files = append(files, f)
	}
	return files
}

// live drops the tombstones and moves that nothing needs: every file is newer or has
// them applied. pending is the sequence at which the oldest cache that is not in a file
// yet was cut, 0 if none was: what is above it concerns its file.
func (e events) live(files []*file, pending uint64) (out events) {
	needed := func(sequence uint64, f func(*file) bool) bool {
		return pending != 0 && pending < sequence || slices.ContainsFunc(files, f)
	}
	for _, t := range e.tombstones {
		if needed(t.Sequence, func(f *file) bool { return t.Hides(&f.File) }) {
			out.tombstones = append(out.tombstones, t)
		}
	}
	for i, m := range e.moves.All() {
		// What follows a move that is needed is needed by the same file.
		if needed(m.Sequence, func(f *file) bool { return f.MaxSequence < m.Sequence }) {
			out.moves = e.moves.From(i)
			break
		}
	}
	return out
}

// name makes m name the events up to the first move that the index in files does not have:
// only the log brings that, and the tombstones behind it, which name series as they are
// called since. A log that has lost its end must not leave a move half made.
func (e events) name(m *manifest.Manifest) {
	n := e.moves.After(m.Flushed)
	m.Tombstones, m.Moves = e.tombstones, e.moves.All()[:n]
	if n < e.moves.Len() {
		first := e.moves.All()[n].Sequence
		i := slices.IndexFunc(e.tombstones, func(t *manifest.Tombstone) bool { return t.Sequence > first })
		if i >= 0 {
			m.Tombstones = e.tombstones[:i:i]
		}
	}
}

// eventsOf returns the events that m names.
func eventsOf(m *manifest.Manifest) events { return events{m.Tombstones, moves.NewList(m.Moves)} }

// bounds returns the range of all files' times.
func (s *fileSet) bounds() model.TimeRange {
	r := model.TimeRange{Min: model.MaxTime, Max: model.MinTime}
	for _, f := range s.files {
		r = r.Union(f.reader.Info().Range)
	}
	return r
}
