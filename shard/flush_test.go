package shard

import (
	"runtime"
	"testing"
	"weak"

	"tsdbd/cache"
)

// TestFlushedCachesAreFree: nothing holds a cache whose rows are in a file.
func TestFlushedCachesAreFree(t *testing.T) {
	b := fixed(t)
	defer b.close()
	active := func() weak.Pointer[cache.Cache] {
		b.s.mu.RLock()
		defer b.s.mu.RUnlock()
		return weak.Make(b.s.mu.active)
	}
	for round := range 3 {
		b.put(round, 10, 0, 1)
		old := active()
		b.flush()
		runtime.GC()
		if old.Value() != nil {
			t.Errorf("flush %d: the cache is still held", round)
		}
	}
}
