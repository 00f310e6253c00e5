package shard

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/shard/build"
	"tsdbd/shard/manifest"
	"tsdbd/shard/moves"
	"tsdbd/shard/plan"
	"tsdbd/shard/portion"
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
	files := v.set.planFiles(v.flushed, s.purging.Load())
	if plan.MovesDue(files, cold) && !s.isStuck(v) {
		did, err = s.applyMoves(ctx, v, cold)
	}
	if lo, hi, level := plan.Next(files, cold, s.maxMerge); lo < hi && !did && err == nil {
		err = s.merge(ctx, v, lo, hi, level)
		did = true
	}
	if err != nil {
		s.markDamaged(err, v.set.files)
		return false, fmt.Errorf("compact shard %d: %w", s.id, err)
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
	in, _ := s.nextMerge(cold)
	return len(in)
}

// NextMerge returns the bytes of the files that the next merge would read, and whether it
// would apply moves.
func (s *Shard) NextMerge(cold bool) (bytes int64, moves bool) {
	in, moves := s.nextMerge(cold)
	for _, f := range in {
		bytes += f.Size
	}
	return bytes, moves
}

func (s *Shard) nextMerge(cold bool) (in []plan.File, moves bool) {
	s.mu.RLock()
	set, flushed := s.mu.set, s.mu.manifest.Flushed // its files stay known without a reference
	stuck := s.mu.stuck == set.stuck(flushed)
	s.mu.RUnlock()
	files := set.planFiles(flushed, s.purging.Load())
	if plan.MovesDue(files, cold) && !stuck {
		n := slices.IndexFunc(files, func(f plan.File) bool { return f.Moves == 0 })
		return files[:cmp.Or(max(n, 0), len(files))], true
	}
	lo, hi, _ := plan.Next(files, cold, s.maxMerge)
	return files[lo:hi], false
}

// planFiles describes the files for the planner. No cache has rows up to flushed. purge
// says that cold files are to lose rows that do not count.
func (s *fileSet) planFiles(flushed uint64, purge bool) []plan.File {
	files := make([]plan.File, len(s.files))
	due := s.Moves.After(flushed)
	for i, f := range s.files {
		files[i] = plan.File{
			Size: f.Size, Level: f.Level, Rows: f.reader.Info().Rows,
			Part:       i > 0 && f.splits(s.files[i-1]),
			Tombstones: len(s.tombstones()[i]), Damaged: f.damage.Load() != nil,
			Moves:  max(due-s.Moves.After(f.MaxSequence), 0),
			AtMove: s.Moves.After(f.MinSequence-1) < s.Moves.After(f.MaxSequence),
		}
		if files[i].Tombstones > 0 || f.Gone != nil {
			files[i].Hidden = f.hidden.Load()
		}
		files[i].Purge = purge && f.Cold() && (files[i].Hidden > 0 || files[i].Moves > 0)
		files[i].Cold = f.Cold() && !files[i].Purge
	}
	return files
}

// countHidden counts how many rows of each file do not count: those that tombstones
// hide, and those of series that the file has no more. It does so once for a file and its
// tombstones. It is exact, so that what the planner rewrites does get smaller. A file
// that cannot be read is left alone from now on. Cold files are counted for Purge only, which must
// know that it could not: it takes their bodies.
func (s *Shard) countHidden(ctx context.Context, v *View) error {
	for i, f := range v.set.files {
		newest := uint64(0)
		for _, t := range v.set.tombstones()[i] {
			newest = t.Sequence
		}
		if f.Cold() && !s.purging.Load() || newest == 0 && f.Gone == nil || f.damage.Load() != nil || f.counted == newest+1 {
			continue
		}
		n, err := v.set.hiddenRows(ctx, i)
		if err != nil {
			if ctx.Err() != nil || f.Cold() {
				return err
			}
			s.markDamaged(err, v.set.files[i:i+1])
			continue
		}
		f.hidden.Store(n)
		f.counted = newest + 1
	}
	return nil
}

// hiddenRows counts the rows of the i-th file that do not count.
func (s *fileSet) hiddenRows(ctx context.Context, i int) (n int64, err error) {
	defer vfs.CatchFault(&err)()
	f, src := s.files[i], s.source(ctx, i)
	named := roaring.New() // all that some tombstone may hide
	for _, t := range src.tombstones {
		named.Or(src.door.Original(0, t.Series, t.Sequence))
	}
	if f.Gone != nil {
		named.Or(f.Gone)
	}
	err = portion.Each(ctx, f.reader, named, func(i int, id model.SeriesID) error {
		if err := src.load(i); err != nil {
			return err
		}
		for k, e := range src.series.Chunks {
			hidden, err := e.Rows, error(nil)
			if !f.Lacks(id) {
				hidden, err = src.hiddenOf(k)
			}
			if n += int64(hidden); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// warmTombstones is how many tombstones that hide nothing of a file are worth a
// change of the manifest while the shard is warm.
const warmTombstones = 16

// markTombstonesApplied counts what tombstones hide. If they hide nothing of a
// file, it notes in the manifest that they are applied to the file. So the number of
// tombstones does not grow where they delete nothing.
func (s *Shard) markTombstonesApplied(ctx context.Context, cold bool) error {
	s.mu.RLock()
	none := len(s.mu.set.Tombstones) == 0 && !slices.ContainsFunc(s.mu.set.files, func(f *file) bool { return f.Gone != nil })
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
		masks := v.set.tombstones()[i]
		if n := len(masks); n == 0 || f.counted != masks[n-1].Sequence+1 || f.damage.Load() != nil || f.hidden.Load() > 0 || n < warmTombstones && !cold {
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
	}, nil)
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
	rec := manifest.File{
		Level: level, MinSequence: in[0].MinSequence, MaxSequence: in[len(in)-1].MaxSequence, TombstonesSequence: v.set.newestTombstone(),
	}
	m := newMerger(ctx, s, v, lo, hi, rec)
	out, err := m.files()
	if err != nil {
		return err
	}
	if err = s.swap(in, out, func(files []*file) []*file { return replace(files, in, out) }, nil); err == nil {
		s.counters.AddMerge(level)
	}
	return err
}

// newRun returns a writer of files.
func (s *Shard) newRun(rec manifest.File) build.Run {
	return build.Run{FS: s.fs, Dir: s.dir, Number: s.takeNumber, File: rec, MaxFile: s.maxFile}
}

// openWritten makes the names of new files durable and opens the files, all or none.
func (s *Shard) openWritten(records []manifest.File) (out []*file, err error) {
	if err := s.fs.SyncDir(s.dir); err != nil {
		return nil, err
	}
	for _, rec := range records {
		r, err := s.openFile(&rec)
		if err != nil {
			release(out)
			return nil, err
		}
		out = append(out, &file{File: rec, reader: r})
	}
	return out, nil
}

// release gives the references to files back that Open made.
func release(files []*file) {
	for _, f := range files {
		_ = f.reader.Release()
	}
}

// swap puts the results of a merge in their place. in are files that it makes superfluous.
func (s *Shard) swap(in, out []*file, change func([]*file) []*file, waiting func(*moves.List) *moves.List) error {
	var fresh []string
	for _, f := range out {
		fresh = append(fresh, f.Name)
	}
	if err := s.exchange(change, waiting, fresh...); err != nil {
		release(out)
		return err
	}
	for _, f := range in {
		f.reader.Obsolete(true) // removed from disk after the last reader (W6)
	}
	release(in)
	return nil
}

// exchange commits other files, and the moves that still wait then (waiting nil: all): the
// manifest, then the set in memory. fresh are the names of files that are new.
func (s *Shard) exchange(change func([]*file) []*file, waiting func(*moves.List) *moves.List, fresh ...string) error {
	var files []*file
	events := func() manifest.Events { // deletes and moves may come meanwhile
		ev := s.mu.set.Events
		if waiting != nil {
			ev.Moves = waiting(ev.Moves)
		}
		return ev.Live(records(files), s.pendingLocked())
	}
	return s.change(func(m *manifest.Manifest) error {
		s.mu.RLock()
		defer s.mu.RUnlock()
		files = change(s.mu.set.files)
		m.TSM = records(files)
		events().Name(m)
		return nil
	}, func() { s.mu.set = newFileSet(files, events()) }, fresh...)
}

// records returns what a manifest says of files.
func records(files []*file) (out []manifest.File) {
	for _, f := range files {
		out = append(out, f.File)
	}
	return out
}
