package shard

import (
	"fmt"
	"slices"

	"tsdbd/tsi"
)

// compactIndex merges the shard's TSI files into one when there are several
// of them and either the shard is cold or they are many.
func (s *Shard) compactIndex(cold bool) (bool, error) {
	old := s.index.Files()
	if len(old) < 2 || (!cold && len(old) < fanIn) {
		return false, nil
	}
	number := s.takeNumber()
	path := s.path(tsiName(number))
	removed := s.index.Removed()
	info, err := tsi.MergeFiles(s.fs, path, old, tsi.MergeOptions{Deleted: removed, Complete: true})
	if err != nil {
		return false, err
	}
	var merged *tsi.File
	if err = s.fs.SyncDir(s.dir); err == nil {
		merged, err = tsi.OpenFile(s.fs, path)
	}
	if err != nil {
		_ = s.fs.Remove(path)
		return false, err
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	m := s.mu.manifest.clone()
	s.mu.RUnlock()
	// A flush may have added files behind the merged ones.
	if len(m.tsi) < len(old) {
		return false, fmt.Errorf("%d index files in the manifest, %d merged", len(m.tsi), len(old))
	}
	rec := fileRecord{number: number, size: info.Bytes, checksum: info.Hash}
	m.tsi = append([]fileRecord{rec}, slices.Clone(m.tsi[len(old):])...)
	m.removed = s.index.Removed()
	if err := m.save(s.fs, s.dir); err != nil {
		_ = merged.Release()
		return false, err
	}
	s.mu.Lock()
	m.next = max(m.next, s.mu.manifest.next)
	s.mu.manifest = m
	for _, f := range old {
		f.RemoveOnRelease()
	}
	s.index.ReplaceFiles(old, merged)
	s.mu.Unlock()
	return true, nil
}
