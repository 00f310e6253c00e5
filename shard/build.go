package shard

import (
	"errors"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/shard/build"
	"tsdbd/shard/manifest"
)

// ErrNotEmpty refuses files from a builder to a shard that has points.
var ErrNotEmpty = errors.New("the shard has points already")

// Build returns a builder of files for a shard that has nothing up to sequence: all
// entries of the log that are applied. Adopt takes what the builder has finished; until
// then a crash leaves the shard empty.
func (s *Shard) Build(sequence uint64) (*build.Builder, error) {
	err := s.change(func(m *manifest.Manifest) error {
		// Files that a crash leaves are no newer than this manifest: Open removes them.
		m.Flushed = max(m.Flushed, sequence)
		sequence = m.Flushed
		return s.checkEmpty()
	}, func() {})
	if err != nil {
		return nil, err
	}
	return build.New(build.Options{FS: s.fs, Dir: s.dir, Number: s.takeNumber, Sequence: sequence, MaxFile: s.maxFile, Series: s.series})
}

// checkEmpty returns ErrNotEmpty if the shard has rows or is closed.
func (s *Shard) checkEmpty() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.mu.closed || s.mu.dirty != 0 || s.mu.frozen > 0 || len(s.mu.manifest.TSM) > 0 || s.index.SeriesCount() > 0 {
		return ErrNotEmpty
	}
	return nil
}

// Adopt makes the files of a builder those of the shard, durably. It closes the shard,
// which its owner opens again. If anything has come to the shard meanwhile, the error is
// ErrNotEmpty, and the files are the builder's. After any other error they are the
// shard's, which keeps or removes them.
func (s *Shard) Adopt(f *build.Files) error {
	err := s.change(func(m *manifest.Manifest) error {
		if err := s.checkEmpty(); err != nil || m.Flushed != f.Sequence {
			return ErrNotEmpty
		}
		f.Take()
		m.TSM, m.TSI, m.Tombstones, m.Moves, m.Removed = f.TSM, f.TSI, nil, nil, roaring.New()
		return nil
	}, func() {}, f.Names()...)
	if err != nil {
		return err
	}
	return s.Close()
}
