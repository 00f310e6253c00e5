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
	for _, f := range v.set.files[:n] {
		x := portion.File{Reader: f.reader, Gone: f.Gone}
		if f.damage.Load() != nil {
			x.Sound = f.sound()
		}
		r.Files = append(r.Files, x)
	}
	p, err := portion.Choose(ctx, &r)
	if err != nil {
		return false, err
	}
	if p.Series.IsEmpty() && !p.Whole {
		s.logger.Error("moves wait, rows that they concern cannot be read", "shard", s.id, "moves", until, "series", p.Unsound, "err", p.Damage)
		s.mu.Lock()
		s.mu.stuck = stuck{l, until}
		s.mu.Unlock()
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

// sound returns a function that reads all rows of a series of the file.
func (f *file) sound() func(id model.SeriesID) error {
	src := source{file: f}
	return func(id model.SeriesID) error {
		if found, err := src.find(id); !found {
			return err
		}
		src.mapped = nil
		src.project(src.series.Fields)
		var kinds []model.FieldType
		for _, field := range src.series.Fields {
			kinds = append(kinds, field.Type)
		}
		for k := range src.series.Chunks {
			var rows column.Rows
			rows.Reset(kinds)
			if err := src.read(k, model.AllTime, &rows, &textCharge{}); err != nil {
				return err
			}
		}
		return nil
	}
}

// isStuck reports whether no move that a view calls for can be made.
func (s *Shard) isStuck(v *View) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.stuck == stuck{v.set.Moves, v.set.Moves.After(v.flushed)}
}
