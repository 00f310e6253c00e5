package store

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
)

// TestUnflushedMatchesShards compares what the store has at hand of its shards
// with what a walk over all of them gives, after writes, deletes, flushes that
// fail or not, drops and a replay.
func TestUnflushedMatchesShards(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 31))
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.CloseFlush = -1
	open := func() *testStore {
		s := openTest(t, fs, opt)
		s.cancel() // nobody else flushes
		s.loops.Wait()
		return s
	}
	s := open()
	failing := false
	fs.SetHook(func(vfstest.Op) error {
		if failing {
			return errors.New("no")
		}
		return nil
	})
	s.create("db")
	s.create("other")
	reordered := 0
	for step := range 300 {
		switch k := rnd.IntN(20); {
		case k < 10:
			s.must(s.write("db", fmt.Sprintf("m,h=%d v=1 %d", rnd.IntN(5), int64(rnd.IntN(12))*week)))
		case k == 10:
			s.must(s.write("other", fmt.Sprintf("m v=1 %d", int64(rnd.IntN(3))*week)))
		case k == 11:
			s.must(s.Delete(t.Context(), scan.DeleteRequest{Database: "db", Range: model.TimeRange{Min: 0, Max: int64(rnd.IntN(3)) * week}}))
		case k == 12 && step%7 == 0:
			s.must(s.Apply(t.Context(), meta.DropDatabase{Name: "other"}))
			s.create("other")
		case k == 13 && step%7 == 0:
			s.must(s.Close())
			s = open()
		default:
			dirty := s.dirtyShards()
			if len(dirty) == 0 {
				continue
			}
			slices.SortFunc(dirty, func(a, b *shardEntry) int { return cmp.Compare(a.ID(), b.ID()) })
			e := dirty[rnd.IntN(len(dirty))]
			failing = rnd.IntN(4) == 0
			if rnd.IntN(3) == 0 { // something comes while the flush is under way
				s.flushing.Lock()
				s.applying.Lock()
				if e.tries.pending == nil {
					e.tries.pending = e.Freeze(s.applying.sequence)
				}
				s.applying.Unlock()
				failing = false
				s.must(s.write("db", fmt.Sprintf("m,h=1 v=1 %d", int64(rnd.IntN(12))*week)))
				s.must(s.write("db", fmt.Sprintf("m,h=1 v=1 %d", e.TimeRange().Min)))
				s.flushing.Unlock()
				reordered++
			}
			s.flush(t.Context(), e)
			failing = false
		}
		s.checkUnflushed(seed, step)
	}
	if reordered == 0 {
		t.Error("no write came while a flush was under way")
	}
	s.must(s.Close())
}

func (s *testStore) checkUnflushed(seed uint64, step int) {
	s.t.Helper()
	s.applying.Lock()
	defer s.applying.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	bytes, dirty := int64(0), 0
	for _, e := range s.mu.shards {
		bytes += e.Bytes()
		first, ok := e.FirstUnflushed()
		since, noted := s.mu.unflushed[e]
		if ok != noted || ok && (since < first || since > s.applying.sequence) {
			s.t.Fatalf("seed %d, step %d: shard %d is unflushed since %d, %t; %t, %d", seed, step, e.ID(), since, noted, ok, first)
		}
		if ok {
			dirty++
		}
	}
	if cached := s.memory.cached.Load(); cached != bytes {
		s.t.Fatalf("seed %d, step %d: %d bytes are counted, the shards have %d", seed, step, cached, bytes)
	}
	if n := len(s.mu.unflushed); n != dirty {
		s.t.Fatalf("seed %d, step %d: %d shards are noted as unflushed, %d are", seed, step, n, dirty)
	}
}
