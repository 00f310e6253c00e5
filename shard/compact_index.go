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
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	m := s.mu.manifest.Clone()
	now := s.index.Files()
	s.mu.RUnlock()
	// A flush may have added files behind the old ones.
	var named *roaring.Bitmap
	if len(m.TSI) < len(old) || len(now) != len(m.TSI) {
		err = fmt.Errorf("%d index files in the manifest, %d in use, %d merged", len(m.TSI), len(now), len(old))
	} else {
		named, err = tsi.SeriesOf(append([]*tsi.File{merged}, now[len(old):]...))
	}
	if err != nil {
		_ = merged.Release()
		_ = s.fs.Remove(path)
		return err
	}
	m.TSI = slices.Concat([]manifest.File{{Name: name, Size: info.Bytes, Checksum: info.Hash}}, m.TSI[len(old):])
	m.Removed = roaring.And(m.Removed, named)
	if err := s.commit(m, name); err != nil {
		_ = merged.Release()
		return err
	}
	s.mu.Lock()
	m.Next = max(m.Next, s.mu.manifest.Next)
	s.mu.manifest = m
	for _, f := range old {
		if f.Damage() == nil {
			f.Obsolete(true)
		}
	}
	s.index.ReplaceFiles(old, merged)
	s.mu.Unlock()
	return nil
}
