package shard

import (
	"slices"
	"sync"
	"sync/atomic"

	"tsdbd/internal/binio"
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
	refs       atomic.Int64
	files      []*file                        // in the order of their sequences; see splits
	tombstones func() [][]*manifest.Tombstone // by file: those that hide rows of it
	manifest.Events
}

// newFileSet returns a set with one reference, sharing the readers.
func newFileSet(files []*file, ev manifest.Events) *fileSet {
	s := &fileSet{files: files, Events: ev}
	s.tombstones = sync.OnceValue(func() [][]*manifest.Tombstone { // many deletes come one after another
		out := make([][]*manifest.Tombstone, len(files))
		for i, f := range files {
			for _, t := range ev.Tombstones {
				if t.Hides(&f.File) && t.Range.Overlaps(f.reader.Info().Range) {
					out[i] = append(out[i], t)
				}
			}
		}
		return out
	})
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

// newestTombstone returns the sequence of the newest tombstone, 0 if there is none.
func (s *fileSet) newestTombstone() uint64 {
	if n := len(s.Tombstones); n > 0 {
		return s.Tombstones[n-1].Sequence
	}
	return 0
}

// with returns a set with one more tombstone, or the moves of an entry.
func (s *fileSet) with(t *manifest.Tombstone, entry ...*moves.Move) *fileSet {
	return newFileSet(s.files, s.With(t, entry...))
}

// replace returns the files with in, which are neighbors, replaced by out.
func replace(all, in, out []*file) []*file {
	at := slices.Index(all, in[0])
	return slices.Concat(all[:at], out, all[at+len(in):])
}
