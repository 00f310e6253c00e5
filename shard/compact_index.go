package shard

import (
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/tsi"
)

// compactIndex merges the shard's TSI files into one when there are several
// of them and either the shard is cold or they are many.
func (s *Shard) compactIndex(cold bool) (bool, error) {
	// Left out is what was deleted as of the last flush, as the manifest has
	// it: what was deleted after it replay would have to find first.
	s.mu.RLock()
	old, removed := s.index.Files(), s.mu.manifest.removed
	s.mu.RUnlock()
	if len(old) < 2 || (!cold && len(old) < fanIn) {
		return false, nil
	}
	number := s.takeNumber()
	info, err := tsi.MergeFiles(s.fs, s.path(tsiName(number)), old, tsi.MergeOptions{Deleted: removed, Complete: true})
	if err != nil {
		return false, err
	}
	return true, s.replaceIndex(old, number, info)
}

// replaceIndex publishes a TSI file that was written in the place of old, the
// oldest files of the index.
func (s *Shard) replaceIndex(old []*tsi.File, number uint64, info tsi.FileInfo) error {
	path := s.path(tsiName(number))
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
	m := s.mu.manifest.clone()
	now := s.index.Files()
	s.mu.RUnlock()
	// A flush may have added files behind the old ones.
	if len(m.tsi) < len(old) || len(now) != len(m.tsi) {
		_ = merged.Release()
		_ = s.fs.Remove(path)
		return fmt.Errorf("%d index files in the manifest, %d in use, %d merged", len(m.tsi), len(now), len(old))
	}
	rec := fileRecord{number: number, size: info.Bytes, checksum: info.Hash}
	m.tsi = append([]fileRecord{rec}, slices.Clone(m.tsi[len(old):])...)
	named := merged.Series().Clone()
	for _, f := range now[len(old):] {
		named.Or(f.Series())
	}
	m.removed = roaring.And(m.removed, named)
	if err := s.commit(m, tsiName(number)); err != nil {
		_ = merged.Release()
		return err
	}
	s.mu.Lock()
	m.next = max(m.next, s.mu.manifest.next)
	s.mu.manifest = m
	for _, f := range old {
		f.RemoveOnRelease()
	}
	s.index.ReplaceFiles(old, merged)
	s.mu.Unlock()
	return nil
}
