package cluster

import (
	"slices"

	"tsdbd/shard/repair"
	"tsdbd/store"
)

// damage is what is wrong with the files of a store. Its state must not be copied.
type damage struct {
	files int    // and databases that do not open
	first string // what is wrong with one of them, "" if all are sound
}

// damageOf returns what is wrong with the files of an open store.
func damageOf(st *store.Store) damage {
	s := st.State()
	lost := slices.DeleteFunc(s.Quarantined, func(q repair.Quarantined) bool { return q.Loss == repair.LossNone })
	d := damage{files: len(s.Unopened) + len(lost) + len(s.Damaged)}
	switch {
	case len(s.Unopened) > 0:
		d.first = s.Unopened[0].Error()
	case len(lost) > 0:
		d.first = lost[0].Path + " is in quarantine: " + lost[0].Reason
	case len(s.Damaged) > 0:
		d.first = s.Damaged[0].Error()
	}
	return d
}
