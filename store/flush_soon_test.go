package store

import (
	"testing"
	"time"

	"tsdbd/internal/vfs/vfstest"
)

// TestFlushSoon asks for the memory of caches that no mark calls for.
func TestFlushSoon(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	if err := s.write("db", "m v=1 1\nm v=2 2000000000000000000"); err != nil { // two shards
		t.Fatal(err)
	}
	if s.memory.cached.Load() == 0 {
		t.Fatal("nothing is cached")
	}
	s.FlushSoon()
	for deadline := time.Now().Add(time.Minute); s.memory.cached.Load() != 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are still cached", s.memory.cached.Load())
		}
	}
}
