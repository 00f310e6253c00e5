package manifest

import (
	"slices"

	"tsdbd/shard/moves"
)

// Events are what changes rows after they were written: in which files they have yet to
// do so, their sequences tell. Events do not change.
type Events struct {
	Tombstones []*Tombstone // ascending sequences
	Moves      *moves.List  // nil: there are none, the usual case
}

// Events returns the events that m names.
func (m *Manifest) Events() Events { return Events{m.Tombstones, moves.NewList(m.Moves)} }

// With returns the events with one more tombstone, or the moves of an entry. Those that
// they have are not added again: a manifest may have them before the log comes to them.
func (e Events) With(t *Tombstone, entry ...*moves.Move) Events {
	if t != nil {
		at := len(e.Tombstones)
		for at > 0 && e.Tombstones[at-1].Sequence > t.Sequence {
			at--
		}
		e.Tombstones = slices.Insert(slices.Clone(e.Tombstones), at, t)
	}
	e.Moves = e.Moves.With(entry...)
	return e
}

// Live drops the tombstones and moves that nothing needs: every file is newer or has
// them applied. pending is the sequence at which the oldest cache that is not in a file
// yet was cut, 0 if none was: what is above it concerns its file.
func (e Events) Live(files []File, pending uint64) (out Events) {
	needed := func(sequence uint64, f func(File) bool) bool {
		return pending != 0 && pending < sequence || slices.ContainsFunc(files, f)
	}
	for _, t := range e.Tombstones {
		if needed(t.Sequence, func(f File) bool { return t.Hides(&f) }) {
			out.Tombstones = append(out.Tombstones, t)
		}
	}
	for i, m := range e.Moves.All() {
		// What follows a move that is needed is needed by the same file.
		if needed(m.Sequence, func(f File) bool { return f.MaxSequence < m.Sequence }) {
			out.Moves = e.Moves.From(i)
			break
		}
	}
	return out
}

// Name makes m name the events up to the first move that the index in files does not have:
// only the log brings that, and the tombstones behind it, which name series as they are
// called since. A log that has lost its end must not leave a move half made.
func (e Events) Name(m *Manifest) {
	n := e.Moves.After(m.Flushed)
	m.Tombstones, m.Moves = e.Tombstones, e.Moves.All()[:n]
	if n < e.Moves.Len() {
		first := e.Moves.All()[n].Sequence
		i := slices.IndexFunc(e.Tombstones, func(t *Tombstone) bool { return t.Sequence > first })
		if i >= 0 {
			m.Tombstones = e.Tombstones[:i:i]
		}
	}
}
