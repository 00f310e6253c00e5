package shard

import (
	"errors"
	"fmt"
	"path"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/shard/manifest"
	"tsdbd/shard/repair"
)

// Damage that a running shard meets is an error of the read that meets it. A
// damaged TSM file stays in service for its sound parts and is left out of
// merges. A damaged index is rebuilt by the next Compact.

// Quarantine returns the quarantine of the shard.
func (s *Shard) Quarantine() *repair.Quarantine { return s.quarantine }

// Losses returns what damage has taken from the shard's rows.
func (v *View) Losses() (out []scan.Loss) {
	for _, q := range v.shard.quarantine.List() {
		if q.Loss == repair.LossNone {
			continue
		}
		out = append(out, scan.Loss{
			Shard: v.shard.id, Range: v.shard.times, Path: q.Path, ID: q.ID, Gone: q.Gone,
			Deletes: q.Loss == repair.LossDeletes, Older: q.Loss == repair.LossNewest,
		})
	}
	return out
}

// markDamaged marks the file that an error of a read says is damaged, so that merges
// leave it alone. Any other error, as of a full disk, blames none. It returns the error for
// who reads.
func (s *Shard) markDamaged(err error, in []*file) error {
	var c *binio.CorruptError
	if !errors.As(err, &c) {
		return err
	}
	for _, f := range in {
		if f.reader.Path() == c.Path && f.damage.CompareAndSwap(nil, c) {
			s.logger.Error("file damaged, it serves what is sound and is not merged any more", "shard", s.id, "path", c.Path, "offset", c.Offset, "err", c.Reason)
		}
	}
	return scan.Unreadable(s.id, s.times, err)
}

// Damaged returns the damage that reads have found in the shard's files since it
// was opened, the first of each file.
func (s *Shard) Damaged() (out []*binio.CorruptError) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, f := range s.mu.set.files {
		if d := f.damage.Load(); d != nil {
			out = append(out, d)
		}
	}
	return out
}

// IndexDamaged reports whether reading has found damage of the index. Compact
// rebuilds it.
func (s *Shard) IndexDamaged() bool { return s.indexDamage() != nil }

func (s *Shard) indexDamage() *binio.CorruptError {
	for _, f := range s.index.Files() {
		if d := f.Damage(); d != nil {
			return d
		}
	}
	return nil
}

// healIndex replaces all TSI files if a page of one was found damaged. The series
// are those that the index has in memory, their keys come from the series file.
// The damaged file goes to quarantine first: after a crash before the manifest
// is saved, Open finds it missing and rebuilds the index from the TSM files.
func (s *Shard) healIndex() (bool, error) {
	damage := s.indexDamage()
	if damage == nil {
		return false, nil
	}
	v := s.index.View()
	defer v.Release()
	old, ids := s.index.Files(), s.index.Flushed()
	x, err := repair.NewIndex()
	if err != nil {
		return false, err
	}
	defer x.Close()
	list := make([]model.SeriesID, 0, ids.GetCardinality())
	for it := ids.Iterator(); it.HasNext(); {
		list = append(list, model.SeriesID(it.Next()))
	}
	if err := s.series.Keys(list, func(i int, key string) error {
		x.Add(list[i], key, v.Fields(model.SeriesMeasurement(key)))
		return nil
	}); err != nil {
		return false, err
	}
	name := manifest.TSIName(s.takeNumber())
	info, err := x.Write(s.fs, s.path(name), s.logger)
	if err != nil {
		return false, err
	}
	effect := fmt.Sprintf("The index of shard %d was rebuilt: no series is missing.", s.id)
	if err := s.quarantine.SetAside(path.Base(damage.Path), damage, repair.LossNone, effect); err != nil {
		return false, err
	}
	return true, s.replaceIndex(old, name, info)
}

// NamedSeries adds the ids of the series that the shard's index names, the
// deleted ones too.
func (s *Shard) NamedSeries(ids *roaring.Bitmap) { ids.Or(s.index.Named()) }

// RestoreSeries restores the keys and ids of the series in the shard's TSM files
// in the series file. See repair.Series.
func (s *Shard) RestoreSeries() (n int, first error) {
	v := s.View()
	if v == nil {
		return 0, nil
	}
	defer v.Release()
	return repair.Series(v.repairable(), s.series)
}
