package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/cache"
	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/ordered"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/shard/manifest"
	"tsdbd/shard/plan"
	"tsdbd/shard/repair"
	"tsdbd/tsi"
	"tsdbd/tsm"
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
	s := &Shard{id: id, dir: dir, lineage: opt.Lineage, flushed: opt.Flushed, logAfter: opt.LogAfter, fs: opt.FS, series: opt.Series, times: opt.Range, logger: opt.Logger, counters: opt.Counters, pace: opt.Pace, maxFile: plan.MaxFileBytes, cells: cacheCells}
	s.compacting.SetRank(ordered.ShardCompacting)
	s.flushing.SetRank(ordered.ShardFlushing)
	s.writing.SetRank(ordered.ShardWriting)
	s.mu.SetRank(ordered.ShardState)
	if s.counters == nil {
		s.counters = &Counters{}
	}
	if s.fs == nil {
		s.fs = vfs.OS
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	s.quarantine = repair.NewQuarantine(s.fs, dir, s.logger.With("shard", id))
	if err := s.quarantine.Read(); err != nil {
		return nil, err
	}
	m, stale, lost, err := s.loadManifest()
	if err != nil {
		return nil, err
	}
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
	index, rebuilt, err := s.openIndex(m, files, lost)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			index.Close()
		}
	}()
	if stale || changed || rebuilt {
		if err := s.save(m); err != nil {
			return nil, err
		}
		s.mu.saved = true
	}
	if err := s.removeStrays(m, changed); err != nil {
		return nil, err
	}
	s.index = index
	s.closing, s.close = context.WithCancel(context.Background())
	s.mu.manifest = m
	s.mu.set = newFileSet(files, m.Events())
	s.mu.active = cache.New(observer{s})
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

// loadManifest reads the manifest. stale says that it must be saved again. lost
// says that both copies were damaged, or gone while there are TSM files, and
// that the manifest was rebuilt from these. A manifest of another shard or data
// directory is an identity.ErrForeign, unless the other copy is sound.
func (s *Shard) loadManifest() (m *manifest.Manifest, stale, lost bool, err error) {
	best, other := s.readCopy(manifest.Names[0]), s.readCopy(manifest.Names[1])
	s.mu.saved = best.Err == nil || other.Err == nil
	for _, err := range []error{best.Err, other.Err} {
		if err != nil && !binio.Damaged(err) && !(errors.Is(err, identity.ErrForeign) && s.mu.saved) {
			return nil, false, false, err
		}
	}
	gone := func(c manifest.Copy) bool { return errors.Is(c.Err, fs.ErrNotExist) }
	if s.mu.saved {
		if best.Err != nil || other.Err == nil && other.Manifest.Edition > best.Manifest.Edition {
			best, other = other, best
		}
		// A crash may cut the first manifest off between the two names.
		if other.Err != nil && !gone(other) {
			err = s.quarantine.SetAside(path.Base(other.Path), other.Err, repair.LossNone, fmt.Sprintf("The other copy of the manifest of shard %d was used: nothing is lost.", s.id))
		}
		return best.Manifest, !bytes.Equal(best.Bytes, other.Bytes), false, err
	}
	m = manifest.New(s.id, s.lineage)
	if gone(best) && gone(other) {
		// The first manifest is written before the first file: without any the
		// shard is new.
		names, err := s.fs.List(s.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, false, false, err
		}
		if !slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".tsm") }) {
			if err := errors.Join(s.fs.MkdirAll(s.dir), s.fs.SyncDir(path.Dir(s.dir))); err != nil {
				return nil, false, false, err
			}
			if !s.flushed {
				return m, false, false, nil
			}
			effect := fmt.Sprintf("The files of shard %d are gone. Its points are missing from answers, but for those that the log still has.", s.id)
			return m, true, false, s.quarantine.SetAside(manifest.Name, fmt.Errorf("the files of shard %d are gone: %w", s.id, best.Err), repair.LossPoints, effect)
		}
	}
	effect := fmt.Sprintf("The manifest of shard %d was rebuilt from its TSM files. Tombstones and moves are lost: rows that were deleted and not yet merged away are back, and rows of renamed series that were not yet merged have their old names, unless the log still has the delete or move.", s.id)
	for _, c := range []manifest.Copy{best, other} {
		if c.Path == best.Path || !gone(c) {
			if err := s.quarantine.SetAside(path.Base(c.Path), c.Err, repair.LossDeletes, effect); err != nil {
				return nil, false, false, err
			}
		}
	}
	return m, true, true, repair.Manifest(s.fs, s.dir, m, s.quarantine)
}

// openFiles opens the TSM files that m names. It moves damaged ones to quarantine
// and out of m; changed says that there were any.
func (s *Shard) openFiles(m *manifest.Manifest) (files []*file, changed bool, err error) {
	kept := m.TSM[:0:0]
	for _, rec := range m.TSM {
		r, err := tsm.Open(s.fs, s.path(rec.Name))
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
	rec, err := s.rebuildIndex(&View{shard: s, set: set, masks: set.allMasks()}, name)
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
	p := v.pieces(model.AllTime)
	if err := x.AddFiles(v.repairable(), s.series, p.hasRows, s.logger); err != nil || x.Empty() {
		return nil, err
	}
	info, err := x.Write(s.fs, s.path(name), s.logger)
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	return &manifest.File{Name: name, Size: info.Bytes, Checksum: info.Hash}, err
}

// Leftover reports whether a file that the manifest does not name has a name
// that flushes, merges and changes of the manifest give: Open removes it, or sets
// it aside. It leaves all other files alone.
func Leftover(name string) bool {
	if name == manifest.Names[0]+".tmp" || name == manifest.Names[1]+".tmp" {
		return true
	}
	if _, ok := manifest.Number(name); !ok {
		return false
	}
	base, ext, _ := strings.Cut(name, ".")
	return ext == "tsm" || ext == "tsi" || strings.HasSuffix(ext, ".tmp") || slices.Contains(tsm.ScratchNames(base+".tsm"), name)
}

// removeStrays removes what a crash left: files with our names that the
// manifest does not list, and temporary files. TSM files that keepStray names go
// to quarantine. incomplete says that files which m names are lost.
func (s *Shard) removeStrays(m *manifest.Manifest, incomplete bool) error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return m.Has(name) || !Leftover(name) })
	if len(names) > 0 {
		// A server that was killed may have renamed the manifest and not synced
		// its name: a power cut would bring the one back that lists the strays.
		if err := s.fs.SyncDir(s.dir); err != nil {
			return err
		}
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".tsm") {
			kept, err := s.keepStray(name, m, incomplete)
			if err != nil {
				return err
			}
			if kept {
				continue
			}
		}
		if err := s.fs.Remove(s.path(name)); err != nil {
			return fmt.Errorf("remove stray %s: %w", s.path(name), err)
		}
		s.logger.Info("stray file removed", "shard", s.id, "path", s.path(name))
	}
	return nil
}

// keepStray sets a TSM file that the manifest m does not name aside, unless it
// is certain that nothing is lost with it. A merge leaves files of sequences
// that m has in other files. A flush that was cut off leaves a file of entries
// that the log still has, or one that was not finished. Any other file was once
// in a manifest, newer than m, that somebody has replaced.
func (s *Shard) keepStray(name string, m *manifest.Manifest, incomplete bool) (kept bool, err error) {
	r, err := tsm.Open(s.fs, s.path(name))
	if err != nil {
		if binio.Damaged(err) {
			return false, nil
		}
		return false, err
	}
	i := r.Info()
	if err := r.Release(); err != nil {
		return false, err
	}
	merged := i.MaxSequence <= m.Flushed && !incomplete
	logged := i.MinSequence > m.Flushed && i.MinSequence > s.logAfter
	if merged || logged {
		return false, nil
	}
	why := fmt.Errorf("no manifest names %s, which has rows of the log's entries %d to %d", s.path(name), i.MinSequence, i.MaxSequence)
	effect := fmt.Sprintf("The manifest of shard %d is older than this file. The rows of the file are missing from answers.", s.id)
	return true, s.quarantine.SetAside(name, why, repair.LossPoints, effect)
}
