package store

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/lineproto"
	"tsdbd/model"
	"tsdbd/model/scan"
)

var (
	backfillShards = flag.Int("backfill-shards", 60, "weeks of history that TestBackfill writes")
	backfillRows   = flag.Int("backfill-rows", 400, "rows per week")
	backfillCache  = flag.Int64("backfill-cache", 2<<20, "memory of the caches in TestBackfill")
)

// history is weeks of rows of some series, whose values follow from their
// times.
type history struct {
	*testStore
	weeks, rows int
}

const historySeries = 4

func (h *history) at(n int) int64 { return int64(n) * (week / int64(h.rows)) }

// value is of row n; another with the same time is written over it.
func (h *history) value(n, round int) float64 { return float64(n%1000*2 + round) }

// write writes rows of the history in the order given, as a client that sends
// again what was refused.
func (h *history) write(order []int, round int) (refused int) {
	h.t.Helper()
	for len(order) > 0 {
		n := min(len(order), 2000)
		var b []byte
		for _, i := range order[:n] {
			b = fmt.Appendf(b, "m,host=h%d v=%g,w=%d %d\n", i%historySeries, h.value(i, round), i, h.at(i))
		}
		for {
			err := h.testStore.write("db", string(b))
			if err == nil {
				break
			}
			if !errors.Is(err, ErrOverloaded) {
				h.t.Fatal(err)
			}
			refused++
			time.Sleep(time.Millisecond)
		}
		order = order[n:]
	}
	return refused
}

// check reads everything: every row of the rounds before must be there with
// its value, or that of the round under way.
func (h *history) check(round int, under bool) error {
	v, err := h.View("db", "", model.AllTime)
	if err != nil {
		return err
	}
	defer v.Release()
	rows := 0
	for _, sh := range v.Shards() {
		set, err := sh.Select(context.Background(), "m", nil)
		if err != nil {
			return err
		}
		c, err := sh.Scan(context.Background(), scan.Request{Measurement: "m", Series: set, Fields: []string{"v"}, Range: model.AllTime, Descending: round%2 == 0})
		if err != nil {
			return err
		}
		for _, ok := c.NextSeries(); ok; _, ok = c.NextSeries() {
			for ch := c.NextChunk(); ch != nil; ch = c.NextChunk() {
				times, err := ch.Times()
				if err != nil {
					return err
				}
				col, err := ch.Column(0)
				if err != nil {
					return err
				}
				for i, at := range times {
					n := int(at / (week / int64(h.rows)))
					if got := col.Floats[i]; h.at(n) != at || got != h.value(n, round) && !(under && got == h.value(n, round+1)) {
						return fmt.Errorf("shard %d: %v at %d, want %v", sh.ID(), got, at, h.value(n, round))
					}
					rows++
				}
			}
		}
		if err := c.Err(); err != nil {
			return err
		}
		c.Close()
	}
	if want := h.weeks * h.rows; rows != want {
		return fmt.Errorf("%d rows, want %d", rows, want)
	}
	return nil
}

// TestBackfill writes years of history, newest first, oldest first and
// shuffled, over what is there, with little memory and merges running. Memory
// and open files must stay bounded, and the answers right all the time.
func TestBackfill(t *testing.T) {
	opt := Options{
		CacheBytes: *backfillCache, SegmentBytes: 1 << 20, LogBytes: 16 << 20,
		RetentionInterval: -1, FlushIdle: time.Hour, CompactAfter: 300 * time.Millisecond,
	}
	s, err := Open(t.TempDir(), opt)
	if err != nil {
		t.Fatal(err)
	}
	h := &history{testStore: &testStore{Store: s, t: t, p: lineproto.Parser{}}, weeks: *backfillShards, rows: *backfillRows}
	h.create("db")
	order := make([]int, h.weeks*h.rows)
	for i := range order {
		order[i] = i
	}
	files := func() int {
		names, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return 0
		}
		return len(names)
	}
	base := files()
	stop, watched := make(chan struct{}), make(chan struct{})
	var mostFiles int
	var mostCached int64
	var mostHeap uint64
	go func() {
		defer close(watched)
		var m runtime.MemStats
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			runtime.ReadMemStats(&m)
			mostFiles, mostCached, mostHeap = max(mostFiles, files()), max(mostCached, s.memory.cached.Load()), max(mostHeap, m.HeapAlloc)
		}
	}()
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	for round, name := range []string{"oldest first", "newest first", "shuffled"} {
		switch name {
		case "newest first":
			slices.Reverse(order)
		case "shuffled":
			r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		start := time.Now()
		half := len(order) / 2
		refused := h.write(order[:half], round)
		if round > 0 {
			if err := h.check(round-1, true); err != nil {
				t.Fatalf("%s, half way: %v", name, err)
			}
		}
		refused += h.write(order[half:], round)
		if err := h.check(round, false); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		took := time.Since(start)
		_, n := totalFiles(s)
		t.Logf("%s: %.0f rows/s, %d requests refused, %d files, amplification %.2f", name, float64(len(order))/took.Seconds(), refused, n, amplification(&s.counters.Files))
	}
	s.flushAll(context.Background())
	start := time.Now()
	for settled := 0; settled < 2; {
		if err := h.check(2, false); err != nil {
			t.Fatalf("while merging: %v", err)
		}
		settled++
		for _, e := range h.entries() {
			if !s.cold(e) || e.CompactionQueue(true) > 0 {
				settled = 0
			}
		}
		if time.Since(start) > 5*time.Minute {
			t.Fatal("compaction does not come to an end")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := h.check(2, false); err != nil {
		t.Fatalf("merged: %v", err)
	}
	close(stop)
	<-watched
	shards, n := totalFiles(s)
	t.Logf("merged in %v: %d shards, %d files, amplification %.2f; at most %d open files more than %d, caches %d KiB, heap %d MiB",
		time.Since(start), shards, n, amplification(&s.counters.Files), mostFiles-base, base, mostCached>>10, mostHeap>>20)
	if mostFiles > base+50 {
		t.Errorf("%d open files, %d before", mostFiles, base)
	}
	if limit := opt.CacheBytes + int64(shards)*64<<10; mostCached > limit {
		t.Errorf("caches of %d bytes, limit %d", mostCached, limit)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func totalFiles(s *Store) (shards, files int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.mu.shards {
		_, n := e.DiskBytes()
		files += n
	}
	return len(s.mu.shards), files
}
