package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/cache"
	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/ordered"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/shard/counters"
	"tsdbd/shard/manifest"
	"tsdbd/shard/plan"
	"tsdbd/shard/repair"
	"tsdbd/shard/tails"
	"tsdbd/tsi"
)

// Open opens or makes the shard in dir, maps the files its manifest names, and
// removes left-overs of a crash. Damage does not keep the shard shut: a TSM file
// with a damaged frame goes to quarantine. A damaged index or manifest does too,
// and is rebuilt from the TSM files. A TSM file that no manifest names and that
// may hold the only copy of points goes to quarantine as well. See Quarantine.
// A manifest of another shard or data directory is an identity.ErrForeign.
func Open(dir string, id uint64, opt Options) (_ *Shard, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open shard %d: %w", id, err)
		}
	}()
	s := &Shard{id: id, dir: dir, lineage: opt.Lineage, fs: cmp.Or(opt.FS, vfs.OS), series: opt.Series, times: opt.Range, logger: cmp.Or(opt.Logger, slog.New(slog.DiscardHandler)), counters: cmp.Or(opt.Counters, &counters.Counters{}), pace: opt.Pace, slabs: opt.Slabs, maxFile: plan.MaxFileBytes, maxMerge: cmp.Or(opt.MergeBytes, plan.MaxMergeBytes), edition: opt.Known.Edition, cells: cacheCells, few: maxPlaces, cold: opt.Cold}
	s.compacting.SetRank(ordered.ShardCompacting)
	s.flushing.SetRank(ordered.ShardFlushing)
	s.writing.SetRank(ordered.ShardWriting)
	s.mu.SetRank(ordered.ShardState)
	s.quarantine = repair.NewQuarantine(s.fs, dir, s.logger.With("shard", id))
	if err := s.quarantine.Read(); err != nil {
		return nil, err
	}
	found, err := repair.Load(s.fs, dir, manifest.New(s.id, s.lineage), opt.Known, s.readCopy(manifest.Names[0]), s.readCopy(manifest.Names[1]), s.quarantine)
	if err == nil && opt.Renew != nil {
		found.Stale, found.Lost, err = true, true, opt.Renew(found.Manifest)
	}
	if err != nil {
		return nil, err
	}
	m := found.Manifest
	s.mu.saved = found.Saved
	files, changed, err := s.openFiles(m)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			for _, f := range files {
				_ = f.reader.Release()
			}
		}
	}()
	index, rebuilt, err := s.openIndex(m, files, found.Lost)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			index.Close()
		}
	}()
	if found.Stale || changed || rebuilt {
		if err := s.save(m); err != nil {
			return nil, err
		}
		s.mu.saved = true
	}
	left := repair.Strays{FS: s.fs, Dir: dir, LogAfter: opt.LogAfter, Quarantine: s.quarantine, Logger: s.logger}
	if err := left.Remove(m, changed); err != nil && opt.Renew == nil {
		return nil, err
	} else if err != nil { // the manifest is the new one: the next start removes them
		s.logger.Warn("files that were replaced are left", "shard", s.id, "err", err)
	}
	s.index = index
	s.closing, s.close = context.WithCancel(context.Background())
	s.mu.manifest = m
	s.mu.set = newFileSet(files, m.Events())
	s.mu.active = cache.New(observer{s}, s.slabs)
	s.mu.lastWrite = time.Now()
	return s, nil
}

// readCopy reads a copy of the manifest. One of another shard or data directory
// is an identity.ErrForeign.
func (s *Shard) readCopy(name string) manifest.Copy {
	c := manifest.ReadCopy(s.fs, s.dir, name)
	switch m := c.Manifest; {
	case m == nil:
	case m.Lineage != s.lineage:
		c.Err = identity.Foreignf(c.Path, "the manifest belongs to data directory %s, not to %s", m.Lineage, s.lineage)
	case m.Shard != s.id:
		c.Err = identity.Foreignf(c.Path, "the manifest belongs to shard %d", m.Shard)
	default:
		s.edition = max(s.edition, m.Edition)
	}
	return c
}

// openFiles opens the TSM files that m names. It moves damaged ones to quarantine
// and out of m; changed says that there were any.
func (s *Shard) openFiles(m *manifest.Manifest) (files []*file, changed bool, err error) {
	kept := m.TSM[:0:0]
	for _, rec := range m.TSM {
		r, err := s.openFile(&rec)
		if rec.Cold() && binio.Damaged(err) {
			s.logger.Warn("tail of a cold file is damaged, its object is read", "shard", s.id, "path", s.path(rec.Name), "err", err)
			if err = tails.Restore(context.Background(), s.fs, s.dir, &rec, s.body(&rec)); err == nil {
				r, err = s.openFile(&rec)
			}
		}
		if err == nil {
			if i := r.Info(); i.Checksum != rec.Checksum || i.Size != rec.Size {
				err = errors.Join(s.otherFile(rec.Name), r.Release())
			}
		}
		if err == nil {
			files = append(files, &file{File: rec, reader: r})
			kept = append(kept, rec)
			continue
		}
		if !binio.Damaged(err) {
			return files, false, err
		}
		effect := fmt.Sprintf("The rows of the log's entries %d to %d that this file held are missing from answers of shard %d.", rec.MinSequence, rec.MaxSequence, s.id)
		if err := s.quarantine.SetAside(rec.Name, err, repair.LossPoints, effect); err != nil {
			return files, false, err
		}
		changed = true
	}
	m.TSM = kept
	return files, changed, nil
}

func (s *Shard) otherFile(name string) error {
	return binio.Corruptf(s.path(name), 0, "this is another file than the manifest names")
}

// openIndex opens the TSI files that m names. If one is damaged, or the manifest
// was lost, it rebuilds the index from the TSM files.
func (s *Shard) openIndex(m *manifest.Manifest, files []*file, lost bool) (_ *tsi.Index, changed bool, err error) {
	var opened []*tsi.File
	defer func() {
		if err != nil {
			for _, f := range opened {
				_ = f.Release()
			}
		}
	}()
	setAside := func(name string, why error) error {
		lost = true
		return s.quarantine.SetAside(name, why, repair.LossNone, fmt.Sprintf("The index of shard %d was rebuilt from its TSM files: no series is missing.", s.id))
	}
	for _, rec := range m.TSI {
		f, err := tsi.OpenFile(s.fs, s.path(rec.Name))
		if err == nil {
			opened = append(opened, f)
			if f.Info().Bytes == rec.Size {
				continue
			}
			err = s.otherFile(rec.Name)
		}
		if !binio.Damaged(err) {
			return nil, false, err
		}
		if err := setAside(rec.Name, err); err != nil {
			return nil, false, err
		}
	}
	if !lost {
		index, err := s.newIndex(opened, m.Removed)
		var c *binio.CorruptError
		if !errors.As(err, &c) {
			return index, false, err
		}
		if err := setAside(path.Base(c.Path), err); err != nil {
			return nil, false, err
		}
	}
	for _, f := range opened {
		_ = f.Release()
	}
	opened = nil
	name := manifest.TSIName(m.Next)
	m.Next++
	m.TSI, m.Removed = nil, roaring.New()
	set := newFileSet(files, m.Events())
	defer set.release()
	rec, err := s.rebuildIndex(&View{shard: s, set: set}, name)
	if err != nil {
		return nil, false, err
	}
	if rec != nil {
		m.TSI = []manifest.File{*rec}
		f, err := tsi.OpenFile(s.fs, s.path(name))
		if err != nil {
			return nil, false, err
		}
		opened = []*tsi.File{f}
	}
	index, err := s.newIndex(opened, m.Removed)
	return index, true, err
}

func (s *Shard) newIndex(files []*tsi.File, removed *roaring.Bitmap) (*tsi.Index, error) {
	return tsi.NewIndex(tsi.IndexOptions{Files: files, Removed: removed, Keys: s.series.Keys, Logger: s.logger})
}

// rebuildIndex writes a TSI file of the series that have living rows in the TSM
// files of a view. It returns nil if there are none.
func (s *Shard) rebuildIndex(v *View, name string) (*manifest.File, error) {
	x, err := repair.NewIndex()
	if err != nil {
		return nil, err
	}
	defer x.Close()
	p := v.pieces(context.Background(), model.AllTime)
	if err := x.AddFiles(v.repairable(), s.series, p.hasRows, s.logger); err != nil || x.Empty() {
		return nil, err
	}
	info, err := x.Write(s.fs, s.path(name), s.logger)
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	return &manifest.File{Name: name, Size: info.Bytes, Checksum: info.Hash}, err
}
