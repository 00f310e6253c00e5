package shard

import (
	"errors"
	"slices"

	"tsdbd/cache"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/shard/moves"
	"tsdbd/shard/repair"
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
		s.fields = renamed(p.fields, p.pending.RenamesOf(p.measurement, min(s.next, p.until), p.until))
	}
}

// renamed returns fields by their original names.
func renamed(fields []column.Field, renames moves.Renames) []column.Field {
	if len(renames) == 0 {
		return fields
	}
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i].Key = renames.Original(fields[i].Key)
	}
	return fields
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
	s.gather, s.next, s.id, s.fields = of.gather, of.next, at.ID, renamed(p.fields, at.Renames)
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

// Move gives rows that the shard has to other series, or another name to a field, as of
// the move's sequence. The caches end there, for their rows are older than what they get
// by the move, and those to come are newer. The index has the new series when it returns
// (W5 holds of moves as of deletes).
func (s *Shard) Move(m *moves.Move) error {
	s.mu.Lock()
	if s.mu.closed || m.Sequence <= s.mu.manifest.Flushed {
		s.mu.Unlock()
		return nil
	}
	if s.mu.first != 0 {
		s.mu.sealed = append(s.mu.sealed, cut{s.mu.active, s.mu.first, m.Sequence - 1})
		s.mu.active, s.mu.first = cache.New(observer{s}), 0
	}
	if s.mu.dirty == 0 {
		s.mu.dirty = m.Sequence
	}
	old := s.mu.set
	s.mu.set = old.with(nil, m)
	s.mu.Unlock()
	old.release()

	c := &m.Change
	if c.Fields() {
		s.index.RenameField(c.Measurement, c.RenameField.From, c.RenameField.To)
		return nil
	}
	v := s.index.View()
	layout := &point.Layout{Measurement: c.To, Fields: v.Fields(c.Measurement)}
	v.Release()
	_, err := s.index.RemoveSeries(m.Pairs.Sources())
	targets := m.Pairs.Targets()
	ids := make([]model.SeriesID, 0, targets.GetCardinality())
	for it := targets.Iterator(); it.HasNext(); {
		ids = append(ids, model.SeriesID(it.Next()))
	}
	err = errors.Join(err, s.series.Keys(ids, func(i int, key string) error {
		s.index.AddSeries(ids[i], key)
		return nil
	}))
	for _, conflict := range s.index.RegisterFields(layout) {
		err = errors.Join(err, errors.New(conflict.Reason(c.To))) // whoever logged it has looked
	}
	return err
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
