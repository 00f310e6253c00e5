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

// makeMoves makes the moves that no cache needs, of as many series as one merge reads: it
// writes their rows under their new names to files of their own, and notes that the files
// which the moves concern have the series no more. The rows stand where the moves are in
// the order of the log. makeMoves returns false if there is nothing that can be read.
func (s *Shard) makeMoves(ctx context.Context, v *View, cold bool) (bool, error) {
	l := v.set.Moves
	until := l.After(v.flushed)
	last := l.All()[until-1].Sequence
	n := v.set.upTo(last)
	r := portion.Request{Moves: l, Until: until, Keys: s.series.Keys, Bytes: s.maxMerge}
	for i, f := range v.set.files[:n] {
		x := portion.File{Reader: f.reader, Gone: f.Gone}
		if f.damage.Load() != nil {
			x.Sound = v.sound(i)
		}
		r.Files = append(r.Files, x)
	}
	p, err := portion.Choose(ctx, &r)
	if err != nil {
		return false, err
	}
	if p.Series.IsEmpty() && !p.Whole {
		s.mu.Lock()
		told := s.mu.stuck.list == l && s.mu.stuck.until == until
		s.mu.stuck = v.set.stuck(v.flushed)
		s.mu.Unlock()
		if !told {
			s.logger.Error("moves wait, rows that they concern cannot be read", "shard", s.id, "moves", until, "series", p.Unsound, "err", p.Damage)
		}
		return false, nil
	}

	rec := manifest.File{MinSequence: last, MaxSequence: last, TombstonesSequence: v.set.newestTombstone()}
	var emptied []*file
	rest := map[*file]*file{} // what is left of the files that had some of it
	for i, f := range v.set.files[:n] {
		held := p.Held[i]
		if held.IsEmpty() {
			continue
		}
		rec.Level = max(rec.Level, f.Level)
		if f.Gone != nil {
			held.Or(f.Gone)
		}
		damage := f.damage.Load()
		if damage == nil && held.GetCardinality() == uint64(f.reader.Len()) {
			emptied = append(emptied, f)
			continue
		}
		g := &file{File: f.File, reader: f.reader}
		g.Gone = held
		g.damage.Store(damage)
		rest[f] = g
	}
	if cold {
		rec.Level = plan.FullLevel
	}
	m := newMerger(ctx, s, v, 0, n, until, rec)
	if err := m.take(p.Series); err != nil {
		return false, err
	}
	out, err := m.files()
	if err != nil {
		return false, err
	}
	return true, s.swap(rec.Level, emptied, out, func(files []*file) []*file {
		var now []*file
		for i, f := range files {
			if g := rest[f]; g != nil {
				f = g
			}
			if i == n {
				now = append(now, out...)
			}
			if !slices.Contains(emptied, f) {
				now = append(now, f)
			}
		}
		if n == len(files) {
			now = append(now, out...)
		}
		return now
	}, func(l *moves.List) *moves.List { return l.Without(p.Series, last, p.Whole) })
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
func (v *View) sound(i int) func(id model.SeriesID) error {
	l := v.set.Moves
	src := source{file: v.set.files[i], all: v.masks[i], next: l.After(v.set.files[i].MaxSequence)}
	return func(id model.SeriesID) error {
		if found, err := src.find(id); !found {
			return err
		}
		src.mask(l)
		src.mapped = nil
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

// stuck returns what of the set says whether moves can be made.
func (s *fileSet) stuck(flushed uint64) stuck {
	return stuck{s.Moves, s.Moves.After(flushed), s.newestTombstone()}
}

// isStuck reports whether no move that a view calls for can be made.
func (s *Shard) isStuck(v *View) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.stuck == v.set.stuck(v.flushed)
}
