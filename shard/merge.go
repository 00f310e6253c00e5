package shard

import (
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
)

// merging reads pieces and merges those that overlap, newer source over older.
type merging struct {
	pieces
	texts  texts
	merged column.Rows
	inputs []*column.Rows // of files
	ptrs   []*column.Rows
	slices []column.Rows // of gathered rows, that ptrs points to
	ranked []piece       // of a cluster, older sources first

	// Of crowded series.
	fold     column.Fold
	gathered column.Rows
	charge   func(bytes int64) error // for the memory of fold; nil: nobody is charged
	charged  int64                   // and not given back
}

// gather returns the rows of a piece of a cache. The walk is at times: what was
// gathered of others gives its memory.
func (m *merging) gather(p piece, times model.TimeRange) *column.Rows {
	s := &m.sources[p.source]
	part := &s.cached[p.chunk]
	if !part.gathered {
		for i := range s.cached {
			if q := &s.cached[i]; q != part && cap(q.rows.Times) > 0 && !(q.gathered && q.times.Overlaps(times)) {
				q.rows, part.rows, q.gathered = part.rows, q.rows, false
				break
			}
		}
		s.gather.Gather(&part.rows, s.id, s.renames.Originals(m.fields), part.times)
		part.gathered = true
	}
	return &part.rows
}

// read appends the living rows of a chunk of a file to dst.
func (m *merging) read(source, chunk int, times model.TimeRange, dst *column.Rows) error {
	return m.sources[source].read(chunk, times, dst, &m.texts)
}

// merge reads overlapping pieces within a cluster's times and merges them,
// newer source over older.
func (m *merging) merge(cl cluster) (*column.Rows, error) {
	m.ptrs = m.ptrs[:0]
	times := cl.times.Intersect(m.times)
	m.slices = slices.Grow(m.slices[:0], cl.hi-cl.lo) // ptrs points into it
	m.ranked = m.ranked[:0]
	for _, p := range m.list[cl.lo:cl.hi] {
		if p.max >= times.Min && p.min <= times.Max {
			m.ranked = append(m.ranked, p)
		}
	}
	slices.SortStableFunc(m.ranked, func(a, b piece) int { return a.source - b.source })
	used := 0
	for lo, hi := 0, 0; lo < len(m.ranked); lo = hi {
		var rows *column.Rows
		for hi = lo; hi < len(m.ranked) && m.ranked[hi].source == m.ranked[lo].source; hi++ {
			p := m.ranked[hi]
			if m.sources[p.source].gather != nil {
				// The parts of a cache do not overlap: a source each will do.
				if all := m.gather(p, times); all.Len() > 0 {
					if lo, hi := all.Bounds(times); lo < hi {
						m.slices = append(m.slices, all.Slice(lo, hi, nil))
						m.ptrs = append(m.ptrs, &m.slices[len(m.slices)-1])
					}
				}
				continue
			}
			if rows == nil {
				if used == len(m.inputs) {
					m.inputs = append(m.inputs, new(column.Rows))
				}
				rows = m.inputs[used]
				used++
				rows.Reset(m.types)
			}
			if err := m.read(p.source, p.chunk, times, rows); err != nil {
				return nil, err
			}
		}
		if rows != nil && rows.Len() > 0 {
			m.ptrs = append(m.ptrs, rows)
		}
	}
	m.merged.Reset(m.types)
	column.Merge(&m.merged, m.ptrs)
	return &m.merged, nil
}
