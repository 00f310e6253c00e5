package shard

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/model/scan"
	"tsdbd/shard/manifest"
	"tsdbd/shard/repair"
)

// Damage that a running shard meets is an error of the read that meets it. A
// damaged TSM file stays in service for its sound parts and is left out of
// merges. A damaged index is rebuilt by the next Compact.

// Quarantine returns the quarantine of the shard.
func (s *Shard) Quarantine() *repair.Quarantine { return s.quarantine }

// LeaveDamagedOut has a view that nobody has read from do without the files in which reads
// have found damage. They are losses of the view then.
func (v *View) LeaveDamagedOut() {
	var sound []*file
	for _, f := range v.set.files {
		if f.damage.Load() == nil {
			sound = append(sound, f)
			continue
		}
		v.left = append(v.left, scan.Loss{Shard: v.shard.id, Range: f.reader.Info().Range, Path: f.reader.Path(), LeftOut: true})
	}
	if len(v.left) == 0 {
		return
	}
	whole := v.set
	v.set = newFileSet(sound, whole.Events)
	whole.release()
}

// Losses returns what damage has taken from the shard's rows.
func (v *View) Losses() (out []scan.Loss) {
	out = slices.Clone(v.left)
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

// Blame takes note of damage of one of the shard's files, as if a read had met it.
func (s *Shard) Blame(c *binio.CorruptError) {
	s.mu.RLock()
	files := s.mu.set.files
	s.mu.RUnlock()
	_ = s.markDamaged(c, files)
	for _, f := range s.index.Files() {
		f.Blame(c)
	}
}

// IndexDamage returns damage that reading has found in the index, or nil. Compact rebuilds it.
func (s *Shard) IndexDamage() *binio.CorruptError {
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
	damage := s.IndexDamage()
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
	if err := x.AddKnown(ids, s.series, v.Fields); err != nil {
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
