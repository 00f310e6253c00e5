package shard

import (
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/shard/manifest"
	"tsdbd/shard/plan"
	"tsdbd/tsi"
)

// compactIndex merges the shard's TSI files into one when there are several
// of them and either the shard is cold or they are many.
func (s *Shard) compactIndex(ctx context.Context, cold bool) (bool, error) {
	// Left out is what was deleted as of the last flush, as the manifest has
	// it: what was deleted after it replay would have to find first.
	s.mu.RLock()
	old, removed := s.index.Files(), s.mu.manifest.Removed
	s.mu.RUnlock()
	if len(old) < 2 || (!cold && len(old) < plan.FanIn) {
		return false, nil
	}
	name := manifest.TSIName(s.takeNumber())
	info, err := tsi.MergeFiles(s.fs, s.path(name), old, tsi.MergeOptions{Deleted: removed, Complete: true, Pace: func(bytes int) error { return s.waitPace(ctx, bytes) }})
	if err != nil {
		return false, err
	}
	return true, s.replaceIndex(old, name, info)
}

// replaceIndex publishes a TSI file that replaces old, the oldest files of the
// index.
func (s *Shard) replaceIndex(old []*tsi.File, name string, info tsi.FileInfo) error {
	path := s.path(name)
	var merged *tsi.File
	err := s.fs.SyncDir(s.dir)
	if err == nil {
		merged, err = tsi.OpenFile(s.fs, path)
	}
	if err != nil {
		_ = s.fs.Remove(path)
		return err
	}
	err = s.change(func(m *manifest.Manifest) (err error) {
		defer func() {
			if err != nil {
				_ = s.fs.Remove(path)
			}
		}()
		// A flush may have added files behind the old ones.
		now := s.index.Files()
		if len(m.TSI) < len(old) || len(now) != len(m.TSI) {
			return fmt.Errorf("%d index files in the manifest, %d in use, %d merged", len(m.TSI), len(now), len(old))
		}
		named, err := tsi.SeriesOf(append([]*tsi.File{merged}, now[len(old):]...))
		if err != nil {
			return err
		}
		m.TSI = slices.Concat([]manifest.File{{Name: name, Size: info.Bytes, Checksum: info.Hash}}, m.TSI[len(old):])
		m.Removed = roaring.And(m.Removed, named)
		return nil
	}, func() {
		for _, f := range old {
			if f.Damage() == nil {
				f.Obsolete(true)
			}
		}
		s.index.ReplaceFiles(old, merged)
	}, name)
	if err != nil {
		_ = merged.Release()
	}
	return err
}
