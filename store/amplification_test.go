package store

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/shard/counters"
)

var amplificationFlushes = flag.Int("amplification-flushes", 60, "flushes of TestAmplification")

// TestAmplification measures how often merges write what was flushed: of steady
// ingest into one shard, and of history written behind it. The bounds are those
// that docs/bench/compaction.md publishes, with some room.
func TestAmplification(t *testing.T) {
	if testseed.Race {
		t.Skip("one goroutine counts bytes, which takes minutes")
	}
	r := rand.New(rand.NewPCG(1, 1))
	f := func(name string, bound float64, at func(flush, row int) int64) {
		fs := vfstest.New()
		s := openTest(t, fs, testOptions(fs))
		defer s.Close()
		s.create("db")
		n, merges, start := 0, 0, time.Now()
		for flush := range *amplificationFlushes {
			for from := 0; from < 200; from += 50 {
				var b strings.Builder
				for row := from; row < from+50; row++ {
					for host := range 10 {
						n++
						fmt.Fprintf(&b, "cpu,host=h%d usage=%g,idle=%di %d\n", host, r.Float64(), n, at(flush, row))
					}
				}
				s.must(s.write("db", b.String()))
			}
			for _, e := range s.entries() {
				s.flush(context.Background(), e)
				s.mergeAll(e, false)
			}
		}
		warm, c := amplification(&s.counters.Files), &s.counters.Files
		_, files := totalFiles(s.Store)
		for _, e := range s.entries() {
			s.mergeAll(e, true)
		}
		_, left := totalFiles(s.Store)
		for i := range counters.Levels {
			merges += int(c.Merges[i].Load())
		}
		t.Logf("%s: %d rows, %d KiB flushed, %d merges; amplification %.2f with %d files while warm, %.2f with %d files cold; %v",
			name, n, c.FlushBytes.Load()>>10, merges, warm, files, amplification(c), left, time.Since(start).Round(time.Millisecond))
		if a := amplification(c); a > bound {
			t.Errorf("%s: %.2f bytes written per byte flushed, want at most %.2f", name, a, bound)
		}
	}
	second := int64(time.Second)
	f("steady", 4.5, func(flush, row int) int64 { return int64(flush*200+row) * second })
	f("newest first", 4.5, func(flush, row int) int64 { return int64((*amplificationFlushes-flush)*200+row) * second })
	f("backfill of all times", 4.5, func(flush, row int) int64 { return int64(row**amplificationFlushes+flush) * second })
	f("same rows again", 4.5, func(_, row int) int64 { return int64(row) * second })
	f("shuffled over 20 weeks", 4.5, func(flush, row int) int64 { return int64((flush*7+row)%20)*week + int64(flush*200+row)*second })
}

// mergeAll merges a shard until nothing is left to do.
func (s *testStore) mergeAll(e *shardEntry, cold bool) {
	s.t.Helper()
	for range 1000 {
		did, err := e.Compact(context.Background(), cold)
		s.must(err)
		if !did {
			return
		}
	}
	s.t.Fatal("merges do not end")
}

// amplification returns how often a byte that a flush wrote has been written, by
// the flush and by merges.
func amplification(c *counters.Counters) float64 {
	flushed := c.FlushBytes.Load()
	return float64(flushed+c.Written()) / float64(max(flushed, 1))
}
