package shard

import (
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/shard/moves"
)

// A moved series that has rows in more than maxPlaces places is crowded: as many series
// have become one. It has no pieces. Passes go through all places with the memory of one,
// and each gives the next rows, as many as fit in a column.Fold.
const (
	maxPlaces = 64

	// foldCells bounds the rows times columns of a pass, about 64 MiB.
	foldCells = 2 << 20
	foldText  = 16 << 20
)

// crowd is what pieces know of a crowded series.
type crowd struct {
	few     int // maxPlaces, less in tests
	crowded bool
	rest    model.TimeRange // not read yet

	// asked is called some times in a pass, with the bytes of files that were read since;
	// nil: nobody asks.
	asked func(bytes int) error
	bytes int

	visited []source // the memory of the present place, for each part
}

// visit calls fn with each place of the rows of a moved series, older rows first, until fn
// returns false or an error. Those of a part share their memory.
func (p *pieces) visit(fn func(*source) (more bool, err error)) (err error) {
	if p.visited == nil {
		p.visited = make([]source, len(p.parts))
	}
	for i := range p.visited {
		p.visited[i].unmap() // for other columns
	}
	steps, found := 0, false
	p.door.Places(p.id, p.measurement, func(at moves.Place) (more bool) {
		if steps++; steps&255 == 0 && p.asked != nil {
			if err = p.asked(p.bytes); err != nil {
				return false
			}
			p.bytes = 0
		}
		s := &p.visited[at.Part]
		if len(s.renames) > 0 || len(at.Renames) > 0 {
			s.unmap()
		}
		if found, err = p.at(s, at); !found {
			return err == nil
		}
		more, err = fn(s)
		return more && err == nil
	})
	return err
}

// pass returns the next rows of a crowded series: later ones, or earlier ones in a
// descending walk. They may be none. The rest is empty after the last pass.
func (m *merging) pass() (*column.Rows, error) {
	f := &m.fold
	f.MaxCells, f.MaxText = min(foldCells, m.cells), foldText
	f.Reset(m.types, m.rest, m.descending)
	if err := m.visit(m.foldPlace); err != nil {
		return nil, err
	}
	rows := f.Finish()
	switch done := f.Times(); {
	case m.descending && done.Min > m.rest.Min:
		m.rest.Max = done.Min - 1
	case !m.descending && done.Max < m.rest.Max:
		m.rest.Min = done.Max + 1
	default:
		m.rest = model.TimeRange{Min: 1, Max: 0}
	}
	return rows, nil
}

// foldPlace adds the rows of a place.
func (m *merging) foldPlace(s *source) (bool, error) {
	if s.gather != nil {
		return true, m.foldCache(s)
	}
	if !s.project(m.fields) {
		return true, nil
	}
	for k := range s.series.Chunks {
		if m.descending {
			k = len(s.series.Chunks) - 1 - k // the range of times becomes narrow sooner
		}
		e, times := &s.series.Chunks[k], m.fold.Times()
		if e.Max < times.Min || e.Min > times.Max {
			continue
		}
		if _, wholly := s.masked(e.Min, e.Max); wholly {
			continue
		}
		if err := m.hold(e.Rows); err != nil {
			return false, err
		}
		m.bytes += e.Bytes
		if err := s.read(k, times, m.fold.Added(), &m.texts); err != nil {
			return false, err
		}
		m.fold.Settle()
	}
	return true, nil
}

// foldCache adds the rows of a place in a cache.
func (m *merging) foldCache(s *source) error {
	for k := range m.cached(s, m.fold.MaxCells) {
		part := &s.cached[k]
		times := part.times.Intersect(m.fold.Times())
		if times.Empty() {
			continue
		}
		if err := m.hold(part.count); err != nil {
			return err
		}
		if s.gather.Gather(&m.gathered, s.id, s.renames.Originals(m.fields), times); m.gathered.Len() > 0 {
			m.fold.Added().AppendRange(&m.gathered, 0, m.gathered.Len())
			m.fold.Settle()
		}
	}
	return nil
}

// hold charges the reader for the memory that the fold takes with some more rows (W9).
func (m *merging) hold(rows int) error {
	n := m.fold.Bytes(rows)
	if m.charge == nil || n <= m.charged {
		return nil
	}
	more := n - m.charged
	m.charged = n
	return m.charge(more)
}

// letGo gives back what hold has taken.
func (m *merging) letGo() {
	if m.charged > 0 {
		_ = m.charge(-m.charged) // giving back does not fail
		m.charged = 0
	}
}

// crowdFields returns the fields of all places of a crowded series by their present names,
// those of newer places first where types differ.
func (p *pieces) crowdFields() (fields []column.Field, err error) {
	var last []column.Field
	err = p.visit(func(s *source) (bool, error) {
		if have := s.renames.Fields(s.series.Fields); !slices.Equal(have, last) {
			fields, last = column.UnionFields(slices.Concat(have, fields)), have
		}
		return true, nil
	})
	return fields, err
}
