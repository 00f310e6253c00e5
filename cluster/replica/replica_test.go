package replica

import (
	"fmt"
	"sync"
	"testing"

	"tsdbd/wal/entry"
)

// TestWrites sends many writes from many goroutines. Every node applies them in one
// order.
func TestWrites(t *testing.T) {
	c := newCluster(t, 3, Options{ElectionTimeout: steady})
	m := c.leader()
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 50 {
				if err := m.write(row(uint32(w+1), uint64(i))); err != nil {
					t.Errorf("writer %d: %v", w, err)
				}
			}
		})
	}
	writers.Wait()
	n := count(c.equal())
	for w := range 8 {
		for i := range 50 {
			if s := fmt.Sprintf("m,host=%d=%d@1 ", w+1, i); n[s] != 1 {
				t.Fatalf("%s: applied %d times", s, n[s])
			}
		}
	}
	for _, m := range c.members {
		if m.Replica.Applied() != 400 {
			t.Fatalf("%s has applied %d", m.id, m.Replica.Applied())
		}
	}
	if s := m.Stats(); m.counters.own.Load() != s.Groups || s.Entries != 400 {
		t.Errorf("%+v", s)
	}
}

// TestCommands are entries without rows.
func TestCommands(t *testing.T) {
	c := newCluster(t, 1, Options{})
	c.must(func() *entry.Entry { return &entry.Entry{Command: []byte("create")} })
	if got := c.equal(); len(got) != 1 || got[0] != "create" {
		t.Fatal(got)
	}
}
