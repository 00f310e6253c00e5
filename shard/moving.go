package shard

import (
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/cache"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/shard/moves"
	"tsdbd/shard/repair"
	"tsdbd/tsi"
)

// moving is what pieces know of moves that files and caches have not made of their rows.
// The present series is read in all sources and caches, or, if moves concern it, in those
// from firstSource and firstCache on: one for each place of its rows.
type moving struct {
	pending     *moves.List // nil: no move concerns a file or cache
	until       int         // of these, those that are to be made
	making      bool        // one of those concerns a file or cache
	measurement string      // of the series that are read
	nfiles      int         // sources that are files
	ncaches     int         // caches that are caches
	next        []int       // per file and cache: the place of the first move that concerns it

	firstSource, firstCache int
	crowd
}

// concern takes until as the number of moves to make.
func (p *pieces) concern(until int) {
	p.until = until
	p.next = p.next[:0]
	for i := range p.sources {
		p.next = append(p.next, p.sources[i].next)
	}
	for i := range p.caches {
		p.next = append(p.next, p.caches[i].next)
	}
	p.making = len(p.next) > 0 && p.next[0] < until
}

// moved reports whether rows of a series may be, or have been, in files or caches as those
// of another one.
func (p *pieces) moved(id model.SeriesID) bool { return p.making && p.pending.Involves(id) }

// name sets the names that the wanted columns have in files and caches.
func (p *pieces) name() {
	for i := range p.caches {
		p.caches[i].fields = p.fields
	}
	if !p.making {
		return
	}
	for i := range p.sources[:p.nfiles] {
		p.sources[i].renames = p.pending.RenamesOf(p.measurement, min(p.sources[i].next, p.until), p.until)
	}
	for i := range p.caches[:p.ncaches] {
		s := &p.caches[i]
		s.fields = p.pending.RenamesOf(p.measurement, min(s.next, p.until), p.until).Originals(p.fields)
	}
}

// settle makes a series the present one that is in each file and cache by its own id.
func (p *pieces) settle(id model.SeriesID) {
	p.id, p.crowded = id, false
	if p.firstSource > 0 || p.firstCache > 0 {
		p.sources, p.caches = p.sources[:p.nfiles], p.caches[:p.ncaches]
		p.firstSource, p.firstCache = 0, 0
	}
	for i := range p.caches {
		p.caches[i].id = id
	}
}

// places makes a moved series the present one: its sources are where its rows are, the
// oldest first. If these are very many, the series is crowded and has no sources.
func (p *pieces) places(id model.SeriesID) (err error) {
	p.id, p.crowded = id, false
	n := 0
	p.sources, p.caches = p.sources[:p.nfiles], p.caches[:p.ncaches]
	p.firstSource, p.firstCache = p.nfiles, p.ncaches
	p.pending.Places(id, p.measurement, p.until, p.next, func(at moves.Place) bool {
		var found bool
		if at.Part >= p.nfiles {
			s := extend(&p.caches)
			if s.rank = n; !p.inCache(s, at) {
				p.caches = p.caches[:len(p.caches)-1]
				return true
			}
		} else {
			s := extend(&p.sources)
			s.rank, s.mapped = n, nil
			if found, err = p.inFile(s, at); !found {
				p.sources = p.sources[:len(p.sources)-1]
				return err == nil
			}
		}
		n++
		p.crowded = n > p.few
		return !p.crowded
	})
	if p.crowded {
		p.sources, p.caches = p.sources[:p.nfiles], p.caches[:p.ncaches]
	}
	return err
}

// inFile makes s the source of a place in a file, and returns false if the file has no
// rows of the series.
func (p *pieces) inFile(s *source, at moves.Place) (bool, error) {
	of := &p.sources[at.Part]
	s.file, s.next, s.all = of.file, of.next, of.all
	if found, err := s.find(at.ID); err != nil || !found {
		return false, err
	}
	s.renames = at.Renames
	s.mask(p.pending)
	return true, nil
}

// inCache makes s the source of a place in a cache, and returns false if the cache has no
// rows of the series.
func (p *pieces) inCache(s *cacheSource, at moves.Place) bool {
	of := &p.caches[at.Part-p.nfiles]
	if _, _, ok := of.gather.Range(at.ID); !ok {
		return false
	}
	s.gather, s.next, s.id, s.fields = of.gather, of.next, at.ID, at.Renames.Originals(p.fields)
	return true
}

// extend makes a list one longer and returns the last, with the memory it had.
func extend[T any](list *[]T) *T {
	if n := len(*list); n < cap(*list) {
		*list = (*list)[:n+1]
	} else {
		var zero T
		*list = append(*list, zero)
	}
	return &(*list)[len(*list)-1]
}

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
		s.mu.sealed = append(s.mu.sealed, cut{s.mu.active, s.mu.first, sequence - 1})
		s.mu.active, s.mu.first = cache.New(observer{s}), 0
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
		for _, conflict := range s.index.RegisterFields(layouts[i]) { // whoever logged it has looked
			s.logger.Error("field of moved series not registered", "shard", s.id, "err", conflict.Reason(m.Change.To))
		}
	}
}

// Moves returns the moves that files or caches have not made of their rows, and how many
// of them wait for a flush.
func (s *Shard) Moves() (l *moves.List, unflushed int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l = s.mu.set.Moves
	return l, l.Len() - l.After(s.mu.manifest.Flushed)
}

// repairable returns the TSM files of the view, the newest first, with what moves have
// made of their series since.
func (v *View) repairable() (out []repair.File) {
	for _, f := range slices.Backward(v.set.files) {
		out = append(out, repair.File{Reader: f.reader, Gone: f.Gone, Moves: v.set.Moves.From(v.set.Moves.After(f.MaxSequence))})
	}
	return out
}
