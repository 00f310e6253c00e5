package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/shard/manifest"
	"tsdbd/shard/moves"
	"tsdbd/shard/plan"
	"tsdbd/tsm"
)

// Compact runs the next merge that the plan calls for and reports whether
// there was one. A cold shard is merged fully.
func (s *Shard) Compact(ctx context.Context, cold bool) (did bool, err error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	s.compacting.Lock()
	defer s.compacting.Unlock()
	if err := s.markTombstonesApplied(ctx, cold); err != nil {
		return false, fmt.Errorf("compact shard %d: %w", s.id, err)
	}
	v := s.View()
	if v == nil {
		return false, nil
	}
	defer v.Release()
	if lo, hi, level := plan.Next(v.set.planFiles(v.flushed), cold); lo < hi {
		if err := s.merge(ctx, v, lo, hi, level); err != nil {
			s.markDamaged(err, v.set.files[lo:hi])
			return false, fmt.Errorf("compact shard %d: %w", s.id, err)
		}
		did = true
	}
	healed, err := s.healIndex()
	if err != nil {
		return did, fmt.Errorf("rebuild index of shard %d: %w", s.id, err)
	}
	merged, err := s.compactIndex(ctx, cold)
	if err != nil {
		return did, fmt.Errorf("compact index of shard %d: %w", s.id, err)
	}
	return did || healed || merged, nil
}

// CompactionQueue returns the number of TSM files that the next merge would
// read. What tombstones hide it knows as of the last Compact.
func (s *Shard) CompactionQueue(cold bool) int {
	s.mu.RLock()
	set, flushed := s.mu.set, s.mu.manifest.Flushed // its files stay known without a reference
	s.mu.RUnlock()
	lo, hi, _ := plan.Next(set.planFiles(flushed), cold)
	return hi - lo
}

// planFiles describes the files for the planner. No cache has rows up to flushed.
func (s *fileSet) planFiles(flushed uint64) []plan.File {
	files := make([]plan.File, len(s.files))
	due := s.Moves.After(flushed)
	for i, f := range s.files {
		files[i] = plan.File{
			Size: f.Size, Level: f.Level, Rows: f.reader.Info().Rows,
			Part:       i > 0 && f.splits(s.files[i-1]),
			Tombstones: len(s.masks(f)), Damaged: f.damage.Load() != nil,
			Moves: max(due-s.Moves.After(f.MaxSequence), 0),
		}
		if files[i].Tombstones > 0 {
			files[i].Hidden = f.hidden.Load()
		}
	}
	return files
}

// countHidden counts how many rows tombstones hide of each file, once for a
// file and its tombstones. It is exact, so that what the planner rewrites does
// get smaller. A file that cannot be read is left alone from now on.
func (s *Shard) countHidden(ctx context.Context, v *View) error {
	for i, f := range v.set.files {
		masks := v.masks[i]
		if len(masks) == 0 || f.damage.Load() != nil || f.counted == masks[len(masks)-1].Sequence {
			continue
		}
		n, err := hiddenRows(ctx, f, masks, v.set.Moves)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			s.markDamaged(err, v.set.files[i:i+1])
			continue
		}
		f.hidden.Store(n)
		f.counted = masks[len(masks)-1].Sequence
	}
	return nil
}

// hiddenRows counts the rows of a file that tombstones hide.
func hiddenRows(ctx context.Context, f *file, masks []*manifest.Tombstone, l *moves.List) (n int64, err error) {
	defer vfs.CatchFault(&err)()
	src := source{file: f, all: masks, next: l.After(f.MaxSequence)}
	named := roaring.New() // all that some tombstone may hide
	for _, t := range masks {
		named.Or(t.Series)
		named.Or(l.Before(t.Sequence).Original(t.Series, src.next))
	}
	if few := uint64(f.reader.Len()) / 16; named.GetCardinality() < few {
		for it := named.Iterator(); it.HasNext(); {
			id := model.SeriesID(it.Next())
			ok, err := src.find(id)
			if err != nil {
				return 0, err
			}
			if ok {
				src.mask(l)
				k, err := src.countHidden()
				if n += k; err != nil {
					return 0, err
				}
			}
		}
		return n, nil
	}
	for i := range f.reader.Len() {
		if i&1023 == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
		id, err := f.reader.ID(i)
		if err != nil {
			return 0, err
		}
		if !named.Contains(uint32(id)) {
			continue
		}
		if err := src.load(i); err != nil {
			return 0, err
		}
		src.mask(l)
		k, err := src.countHidden()
		if n += k; err != nil {
			return 0, err
		}
	}
	return n, nil
}

// warmTombstones is how many tombstones that hide nothing of a file are worth a
// change of the manifest while the shard is warm.
const warmTombstones = 16

// markTombstonesApplied counts what tombstones hide. If they hide nothing of a
// file, it notes in the manifest that they are applied to the file. So the number of
// tombstones does not grow where they delete nothing.
func (s *Shard) markTombstonesApplied(ctx context.Context, cold bool) error {
	s.mu.RLock()
	none := len(s.mu.set.Tombstones) == 0
	s.mu.RUnlock()
	if none {
		return nil
	}
	v := s.View()
	if v == nil {
		return nil
	}
	defer v.Release()
	if err := s.countHidden(ctx, v); err != nil {
		return err
	}
	marked := map[*file]*file{}
	for i, f := range v.set.files {
		masks := v.masks[i]
		if n := len(masks); n == 0 || f.damage.Load() != nil || f.hidden.Load() > 0 || n < warmTombstones && !cold {
			continue
		}
		g := &file{File: f.File, reader: f.reader}
		g.TombstonesSequence = masks[len(masks)-1].Sequence
		marked[f] = g
	}
	if len(marked) == 0 {
		return nil
	}
	return s.exchange(func(files []*file) []*file {
		files = slices.Clone(files)
		for i, f := range files {
			if g := marked[f]; g != nil {
				files[i] = g
			}
		}
		return files
	})
}

// takeNumber returns the number of a new file. The number is taken for good when
// the manifest is saved. Until then a crash leaves files that Open removes.
func (s *Shard) takeNumber() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.mu.manifest.Next
	s.mu.manifest.Next++
	return n
}

// merge writes the living rows of the view's files [lo, hi) into one run and
// swaps it in: one file, or several that split the series where one would be
// too large, or none.
func (s *Shard) merge(ctx context.Context, v *View, lo, hi, level int) (err error) {
	in := v.set.files[lo:hi]
	rec := manifest.File{Level: level, MinSequence: in[0].MinSequence, MaxSequence: in[len(in)-1].MaxSequence}
	for _, t := range v.set.Tombstones {
		rec.TombstonesSequence = max(rec.TombstonesSequence, t.Sequence)
	}
	made := v.made(lo, hi)
	if made > 0 {
		// The moves do not concern the result. Nothing between it and them does either.
		rec.MaxSequence = max(rec.MaxSequence, v.set.Moves.All()[made-1].Sequence)
	}
	m := newMerger(ctx, s, v, lo, hi, made, rec)
	var out []*file
	if err = m.run(); err == nil {
		if err = s.fs.SyncDir(s.dir); err == nil {
			out, err = s.openMerged(m.done)
		}
	}
	if err != nil {
		m.abort()
		return err
	}
	if err := s.swap(in, out); err != nil {
		return err
	}
	s.counters.merged(level)
	return nil
}

// openMerged opens the files of a merge, all or none.
func (s *Shard) openMerged(records []manifest.File) ([]*file, error) {
	var out []*file
	for _, rec := range records {
		r, err := tsm.Open(s.fs, s.path(rec.Name))
		if err != nil {
			for _, f := range out {
				err = errors.Join(err, f.reader.Release())
			}
			return nil, err
		}
		out = append(out, &file{File: rec, reader: r})
	}
	return out, nil
}

// swap replaces the files that a merge has read by its results.
func (s *Shard) swap(in, out []*file) error {
	var fresh []string
	for _, f := range out {
		fresh = append(fresh, f.Name)
	}
	if err := s.exchange(func(files []*file) []*file { return replace(files, in, out) }, fresh...); err != nil {
		for _, f := range out {
			_ = f.reader.Release()
		}
		return err
	}
	for _, f := range in {
		f.reader.Obsolete(true) // removed from disk after the last reader (W6)
		f.reader.Release()
	}
	return nil
}

// exchange commits other files: the manifest, then the set in memory. fresh
// are the names of files that are new.
func (s *Shard) exchange(change func([]*file) []*file, fresh ...string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	m := s.mu.manifest.Clone()
	files := change(s.mu.set.files)
	ev, pending := s.mu.set.Events, s.pendingLocked()
	s.mu.RUnlock()
	m.TSM = m.TSM[:0:0]
	for _, f := range files {
		m.TSM = append(m.TSM, f.File)
	}
	ev.Live(m.TSM, pending).Name(m)
	if err := s.commit(m, fresh...); err != nil {
		return err
	}
	s.mu.Lock()
	old := s.mu.set
	s.mu.set = newFileSet(files, old.Live(m.TSM, s.pendingLocked()))
	m.Next = max(m.Next, s.mu.manifest.Next)
	s.mu.manifest = m
	s.mu.Unlock()
	old.release()
	return nil
}
