package shard

import (
	"testing"

	"tsdbd/internal/ordered"
	"tsdbd/shard/plan"
)

// TestCompactionQueueTakesNoView: figures are asked for at every scrape, and must
// not reference files or copy the index.
func TestCompactionQueueTakesNoView(t *testing.T) {
	b := fixed(t)
	for range plan.FanIn {
		b.put(0, 10, 0, 1)
		b.flush()
	}
	refs := b.s.mu.set.refs.Load()
	allocs := testing.AllocsPerRun(10, func() {
		if n := b.s.CompactionQueue(false); n != plan.FanIn {
			t.Fatalf("%d files to merge, want %d", n, plan.FanIn)
		}
	})
	if b.s.mu.set.refs.Load() != refs || allocs > 4 && !ordered.Checked {
		t.Errorf("%v allocations, %d references of %d", allocs, b.s.mu.set.refs.Load(), refs)
	}
}
