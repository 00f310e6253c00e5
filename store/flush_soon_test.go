package store

import (
	"fmt"
	"strings"
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

// TestFlushOfFullChunks flushes the shard whose rows fill chunks long before one with as many bytes
// whose rows do not.
func TestFlushOfFullChunks(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.FlushBytes = 600 << 10
	s := openTest(t, fs, opt)
	s.cancel() // nobody flushes
	s.loops.Wait()
	fill := func(db string, series int) (due bool, bytes int64) {
		s.create(db)
		var e *shardEntry
		for i := 0; ; i++ {
			var lines strings.Builder
			for k := range 500 {
				n := 500*i + k
				fmt.Fprintf(&lines, "m,h=%d v=1 %d\n", n%series, n)
			}
			s.must(s.write(db, lines.String()))
			for _, d := range s.dirtyShards() {
				if d.db.name == db {
					e = d
				}
			}
			if n := e.ActiveBytes(); n > opt.FlushBytes/3 {
				return s.nextFlush() == e, n
			}
		}
	}
	if due, bytes := fill("many", 1000); due || bytes >= opt.FlushBytes {
		t.Errorf("a shard with %d bytes, few rows a series: due %v", bytes, due)
	}
	if due, bytes := fill("few", 3); !due || bytes >= opt.FlushBytes {
		t.Errorf("a shard with %d bytes, many rows a series: due %v", bytes, due)
	}
	s.must(s.Close())
}
