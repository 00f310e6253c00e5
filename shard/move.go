package shard

import (
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/cache"
	"tsdbd/model/point"
	"tsdbd/shard/moves"
	"tsdbd/shard/repair"
	"tsdbd/tsi"
)

// PrepareMove indexes the series that the moves of an entry bring to the shard, for Move.
// It changes nothing, and its errors are those of reading their keys. before is what an
// earlier call has returned, perhaps for more moves or fewer, or nil. It is used again if
// it can be. The moves of an entry that is not logged yet have no sequence.
func (s *Shard) PrepareMove(entry []*moves.Move, before *tsi.Batch) (*tsi.Batch, error) {
	if entry[0].Sequence != 0 && entry[0].Sequence <= s.Flushed() {
		return nil, nil
	}
	b, err := s.index.Prepare(moves.Targets(entry), before)
	if err != nil {
		return nil, fmt.Errorf("prepare move in shard %d: %w", s.id, err)
	}
	return b, nil
}

// Move gives rows that the shard has to other series, or another name to a field, by the
// moves of an entry, one after the other. targets is what PrepareMove has returned for
// them, and no entry was applied since. The caches end at the entry, for their rows are
// older than what they get by it, and those to come are newer. The index has the new series
// when Move returns (W5 holds of moves as of deletes).
func (s *Shard) Move(entry []*moves.Move, targets *tsi.Batch) {
	sequence := entry[0].Sequence
	s.mu.Lock()
	if s.mu.closed || sequence <= s.mu.manifest.Flushed {
		s.mu.Unlock()
		return
	}
	if s.mu.first != 0 {
		s.mu.cuts = append(s.mu.cuts, cut{s.mu.active, s.mu.first, sequence - 1})
		s.mu.active, s.mu.first = cache.New(observer{s}, s.slabs), 0
	}
	if s.mu.dirty == 0 {
		s.mu.dirty = sequence
	}
	old := s.mu.set
	s.mu.set = old.with(nil, entry...)
	s.mu.Unlock()
	old.release()

	v := s.index.View()
	layouts := make([]*point.Layout, len(entry))
	for i, m := range entry {
		layouts[i] = &point.Layout{Measurement: m.Change.To, Fields: v.Fields(m.Change.Measurement)}
	}
	v.Release()
	sources := roaring.New()
	for _, m := range entry {
		if c := &m.Change; c.Fields() {
			s.index.RenameField(c.Measurement, c.RenameField.From, c.RenameField.To)
		}
		sources.Or(m.Pairs.Sources())
	}
	// An error leaves fields behind that no series has any more, which is harmless.
	if _, err := s.index.RemoveSeries(sources); err != nil {
		s.logger.Error("moved series taken out of the index, but fields that none has may be left", "shard", s.id, "err", err)
	}
	s.index.AddBatch(targets)
	for i, m := range entry {
		if m.Change.Fields() {
			continue
		}
		for _, conflict := range s.index.RegisterFields(layouts[i]) { // the leader checked them before it logged the entry
			s.logger.Error("field of moved series not registered", "shard", s.id, "err", conflict.Reason(m.Change.To))
		}
	}
}

// Moves returns the moves that wait in files or caches, and how many
// of them wait for a flush.
func (s *Shard) Moves() (l *moves.List, unflushed int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l = s.mu.set.Moves
	return l, l.Len() - l.After(s.mu.manifest.Flushed)
}

// repairable returns the TSM files of the view, the newest first, each with the door to its
// rows.
func (v *View) repairable() (out []repair.File) {
	for _, f := range slices.Backward(v.set.files) {
		out = append(out, repair.File{Reader: f.reader, Gone: f.Gone, Door: v.set.Moves.Door(f.MaxSequence)})
	}
	return out
}
