package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/tsi"
)

// compactIndex merges the shard's TSI files into one when there are several
// of them and either the shard is cold or they are many.
func (s *Shard) compactIndex(ctx context.Context, cold bool) (bool, error) {
	// Left out is what was deleted as of the last flush, as the manifest has
	// it: what was deleted after it replay would have to find first.
	s.mu.RLock()
	old, removed := s.index.Files(), s.mu.manifest.removed
	s.mu.RUnlock()
	if len(old) < 2 || (!cold && len(old) < fanIn) {
		return false, nil
	}
	number := s.takeNumber()
	info, err := tsi.MergeFiles(s.fs, s.path(tsiName(number)), old, tsi.MergeOptions{Deleted: removed, Complete: true, Pace: func(bytes int) error { return s.waitPace(ctx, bytes) }})
	if err != nil {
		return false, s.indexError(err)
	}
	return true, s.indexError(s.replaceIndex(old, number, info, ""))
}

// indexError remembers damage of a TSI file, so that the next Compact makes
// the index anew, and returns err.
func (s *Shard) indexError(err error) error {
	var c *binio.CorruptError
	if errors.As(err, &c) && strings.HasSuffix(c.Path, ".tsi") && s.indexDamage.CompareAndSwap(nil, c) {
		s.logger.Error("index damaged, it will be rebuilt", "shard", s.id, "path", c.Path, "offset", c.Offset, "err", c.Reason)
	}
	return err
}

// IndexDamaged reports whether reading has met damage of the index, which Compact
// heals.
func (s *Shard) IndexDamaged() bool { return s.indexDamage.Load() != nil }

// healIndex writes the living series of all TSI files anew, from the series
// file's keys and the fields in memory, when a page of one was found damaged.
func (s *Shard) healIndex() (bool, error) {
	damage := s.indexDamage.Load()
	if damage == nil {
		return false, nil
	}
	old := s.index.Files()
	ids := s.index.Flushed()
	v := s.index.View()
	defer v.Release()
	b, err := newIndexBuilder()
	if err != nil {
		return false, err
	}
	defer b.index.Close()
	list := make([]model.SeriesID, 0, ids.GetCardinality())
	for it := ids.Iterator(); it.HasNext(); {
		list = append(list, model.SeriesID(it.Next()))
	}
	if err := s.series.Keys(list, func(i int, key string) error {
		m := model.SeriesMeasurement(key)
		b.add(list[i], key, v.Fields(m))
		return nil
	}); err != nil {
		return false, err
	}
	number := s.takeNumber()
	info, err := b.write(s, number)
	if err != nil {
		return false, err
	}
	if err := s.replaceIndex(old, number, info, damage.Path); err != nil {
		return false, err
	}
	s.indexDamage.Store(nil)
	return true, nil
}

// replaceIndex publishes a TSI file that was written in the place of old, the
// oldest files of the index. The damaged one of them, if any, goes to
// quarantine.
func (s *Shard) replaceIndex(old []*tsi.File, number uint64, info tsi.FileInfo, damaged string) error {
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
	var named *roaring.Bitmap
	if len(m.tsi) < len(old) || len(now) != len(m.tsi) {
		err = fmt.Errorf("%d index files in the manifest, %d in use, %d merged", len(m.tsi), len(now), len(old))
	} else {
		named, err = tsi.SeriesOf(append([]*tsi.File{merged}, now[len(old):]...))
	}
	if err != nil {
		_ = merged.Release()
		_ = s.fs.Remove(path)
		return err
	}
	rec := fileRecord{number: number, size: info.Bytes, checksum: info.Hash}
	m.tsi = append([]fileRecord{rec}, slices.Clone(m.tsi[len(old):])...)
	m.removed = roaring.And(m.removed, named)
	if err := s.commit(m, tsiName(number)); err != nil {
		_ = merged.Release()
		return err
	}
	s.mu.Lock()
	m.next = max(m.next, s.mu.manifest.next)
	s.mu.manifest = m
	for _, f := range old {
		if f.Path() != damaged {
			f.RemoveOnRelease()
		}
	}
	s.index.ReplaceFiles(old, merged)
	s.mu.Unlock()
	if damaged != "" {
		name := damaged[strings.LastIndex(damaged, "/")+1:]
		if err := s.setAside(name, s.indexDamage.Load(), LossNone, fmt.Sprintf("The index of shard %d was made anew: no series is missing.", s.id)); err != nil {
			s.logger.Warn("damaged index file not set aside", "shard", s.id, "path", damaged, "err", err)
		}
	}
	return nil
}
