//go:build !invariants

package ordered

import "sync"

// Checked says whether the order is checked.
const Checked = false

// Mutex is a sync.Mutex with a rank.
type Mutex struct{ sync.Mutex }

// SetRank gives the lock its place in the order, before anyone takes it.
func (m *Mutex) SetRank(Rank) {}

// RWMutex is a sync.RWMutex with a rank.
type RWMutex struct{ sync.RWMutex }

// SetRank gives the lock its place in the order, before anyone takes it.
func (m *RWMutex) SetRank(Rank) {}
