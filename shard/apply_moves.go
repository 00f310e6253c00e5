package shard

import (
	"context"
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/shard/manifest"
	"tsdbd/shard/moves"
	"tsdbd/shard/plan"
	"tsdbd/shard/portion"
)

// applyMoves applies the moves that no cache needs, to as many series as one merge reads. It
// writes their rows under their new names to files of their own, which have the sequence of
// the last of the moves. The manifest notes that the files which the moves concern have the
// series no more. applyMoves returns false if there is nothing that can be read.
func (s *Shard) applyMoves(ctx context.Context, v *View, cold bool) (bool, error) {
	due := v.set.Moves.After(v.flushed)
	last := v.set.Moves.All()[due-1].Sequence
	n := v.set.upTo(last)
	p, err := s.choosePortion(ctx, v, n, last)
	if err != nil {
		return false, err
	}
	if p.Series.IsEmpty() && !p.All {
		s.noteStuck(v, due, p)
		return false, nil
	}
	rec := manifest.File{MinSequence: last, MaxSequence: last, TombstonesSequence: v.set.newestTombstone()}
	var left, emptied []*file // of the first n
	for i, f := range v.set.files[:n] {
		taken := p.InFile[i]
		if taken.IsEmpty() {
			left = append(left, f)
			continue
		}
		rec.Level = max(rec.Level, f.Level)
		if f.Gone != nil {
			taken.Or(f.Gone)
		}
		damage := f.damage.Load()
		if damage == nil && taken.GetCardinality() == uint64(f.reader.Len()) {
			emptied = append(emptied, f)
			continue
		}
		g := &file{File: f.File, reader: f.reader}
		g.Gone = taken
		g.damage.Store(damage)
		left = append(left, g)
	}
	if cold {
		rec.Level = plan.FullLevel
	}
	m := newMerger(ctx, s, v, 0, n, rec)
	if err := m.take(p.Series); err != nil {
		return false, err
	}
	out, err := m.files()
	if err != nil {
		return false, err
	}
	err = s.swap(emptied, out, func(files []*file) []*file {
		return slices.Concat(left, out, files[n:]) // only flushes come between
	}, func(l *moves.List) *moves.List { return l.Without(p.Series, last, p.All) })
	if err == nil {
		s.counters.AddMerge(rec.Level)
	}
	return true, err
}

// choosePortion chooses of what the first n files have the series to move now, by the moves up
// to last.
func (s *Shard) choosePortion(ctx context.Context, v *View, n int, last uint64) (*portion.Portion, error) {
	r := portion.Request{Keys: s.series.Keys, Bytes: s.maxMerge}
	var ends []uint64
	for i, f := range v.set.files[:n] {
		ends = append(ends, f.MaxSequence)
		x := portion.File{Reader: f.reader, Gone: f.Gone}
		if f.damage.Load() != nil {
			x.Sound = v.set.sound(ctx, i)
		}
		r.Files = append(r.Files, x)
	}
	r.Door = v.set.Moves.Door(ends...).Until(last)
	return portion.Choose(ctx, &r)
}

// noteStuck notes that no merge can apply the moves which are due, and logs it once.
func (s *Shard) noteStuck(v *View, due int, p *portion.Portion) {
	s.mu.Lock()
	logged := s.mu.stuck.list == v.set.Moves && s.mu.stuck.moves == due
	s.mu.stuck = v.set.stuck(v.flushed)
	s.mu.Unlock()
	if !logged {
		s.logger.Error("moves blocked by damaged rows", "shard", s.id, "moves", due, "series", p.Unsound, "err", p.Damage)
	}
}

// upTo returns the number of files that end before a sequence.
func (s *fileSet) upTo(sequence uint64) int {
	n := slices.IndexFunc(s.files, func(f *file) bool { return f.MaxSequence >= sequence })
	if n < 0 {
		return len(s.files)
	}
	return n
}

// sound returns a function that reads the rows of a series of the i-th file, as a merge does:
// what tombstones hide wholly it does not read.
func (s *fileSet) sound(ctx context.Context, i int) func(id model.SeriesID) error {
	src := s.source(ctx, i)
	return func(id model.SeriesID) error {
		if found, err := src.find(id); !found {
			return err
		}
		src.unmap()
		src.project(src.series.Fields)
		var kinds []model.FieldType
		for _, field := range src.series.Fields {
			kinds = append(kinds, field.Type)
		}
		for k, e := range src.series.Chunks {
			if _, wholly := src.masked(e.Min, e.Max); wholly {
				continue
			}
			var rows column.Rows
			rows.Reset(kinds)
			if err := src.read(k, model.AllTime, &rows, nil); err != nil {
				return err
			}
		}
		return nil
	}
}

// stuck returns what stuck compares of the set.
func (s *fileSet) stuck(flushed uint64) stuck {
	return stuck{s.Moves, s.Moves.After(flushed), s.newestTombstone()}
}

// isStuck reports whether no merge can apply the moves that a view calls for.
func (s *Shard) isStuck(v *View) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.stuck == v.set.stuck(v.flushed)
}
