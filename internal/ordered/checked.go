//go:build invariants

package ordered

import (
	"fmt"
	"slices"
	"sync"

	"github.com/petermattis/goid"
)

// Checked says whether the order is checked.
const Checked = true

// Mutex is a sync.Mutex with a rank.
type Mutex struct {
	rank Rank
	mu   sync.Mutex
}

// SetRank gives the lock its place in the order, before anyone takes it.
func (m *Mutex) SetRank(r Rank) { m.rank = r }

// Lock locks, or panics if that breaks the order.
func (m *Mutex) Lock() {
	held.take(m.rank)
	m.mu.Lock()
}

// Unlock unlocks.
func (m *Mutex) Unlock() {
	m.mu.Unlock()
	held.give(m.rank)
}

// RWMutex is a sync.RWMutex with a rank.
type RWMutex struct {
	rank Rank
	mu   sync.RWMutex
}

// SetRank gives the lock its place in the order, before anyone takes it.
func (m *RWMutex) SetRank(r Rank) { m.rank = r }

// Lock locks, or panics if that breaks the order.
func (m *RWMutex) Lock() {
	held.take(m.rank)
	m.mu.Lock()
}

// Unlock unlocks.
func (m *RWMutex) Unlock() {
	m.mu.Unlock()
	held.give(m.rank)
}

// RLock locks shared, or panics if that breaks the order.
func (m *RWMutex) RLock() {
	held.take(m.rank)
	m.mu.RLock()
}

// TryRLock is RLock if that need not wait. It breaks no order: it waits for nothing.
func (m *RWMutex) TryRLock() bool {
	if !m.mu.TryRLock() {
		return false
	}
	held.add(m.rank)
	return true
}

// RUnlock unlocks.
func (m *RWMutex) RUnlock() {
	m.mu.RUnlock()
	held.give(m.rank)
}

// held has the ranks that each goroutine holds, in the order of their taking.
var held = holders{ranks: map[int64][]Rank{}}

type holders struct {
	mu    sync.Mutex
	ranks map[int64][]Rank
}

func (h *holders) take(r Rank) {
	if r == 0 {
		return
	}
	h.mu.Lock()
	have := h.ranks[goid.Get()]
	h.mu.Unlock()
	if len(have) > 0 && slices.Max(have) >= r {
		panic(fmt.Sprintf("lock of rank %d taken while locks of ranks %v are held", r, have))
	}
	h.add(r)
}

func (h *holders) add(r Rank) {
	if r == 0 {
		return
	}
	id := goid.Get()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ranks[id] = append(h.ranks[id], r)
}

func (h *holders) give(r Rank) {
	if r == 0 {
		return
	}
	id := goid.Get()
	h.mu.Lock()
	defer h.mu.Unlock()
	have := h.ranks[id]
	i := slices.Index(have, r)
	if i < 0 {
		panic(fmt.Sprintf("lock of rank %d given back by a goroutine that did not take it", r))
	}
	if h.ranks[id] = slices.Delete(have, i, i+1); len(have) == 1 {
		delete(h.ranks, id)
	}
}
