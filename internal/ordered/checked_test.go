//go:build invariants

package ordered

import "testing"

// panics reports whether f panics.
func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func TestOrder(t *testing.T) {
	var gate RWMutex
	var applying, free Mutex
	gate.SetRank(StoreGate)
	applying.SetRank(StoreApplying)
	gate.RLock()
	applying.Lock()
	free.Lock() // has no rank
	applying.Unlock()
	applying.Lock()
	if !panics(gate.RLock) || !panics(applying.Lock) {
		t.Error("a lock below one that is held was taken")
	}
	done := make(chan bool)
	go func() { // which holds none
		gate.RLock()
		defer gate.RUnlock()
		done <- panics(applying.Unlock)
	}()
	if !<-done {
		t.Error("a lock was given back by another goroutine")
	}
	gate.RUnlock()
}
