package store

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tsdbd/internal/vfs/vfstest"
)

// TestLargeMergesAlone has no slot of small merges, as while that repairs a shard or always
// has work: a shard that gets cold is merged in the other one.
func TestLargeMergesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		opt := testOptions(fs)
		opt.CompactAfter = time.Minute
		s := openTest(t, fs, opt)
		s.cancel()
		s.loops.Wait()
		s.create("a")
		for i := range 3 {
			s.must(s.write("a", fmt.Sprintf("m v=1 %d", i)))
			s.flushAll(t.Context())
		}
		ctx, cancel := context.WithCancel(t.Context())
		s.loops.Go(func() { s.compactLoop(ctx, true) })
		time.Sleep(opt.CompactAfter + 5*time.Second)
		synctest.Wait()
		if n := s.counters.Compactions.Load(); n == 0 {
			t.Error("nothing was merged")
		}
		cancel()
		s.must(s.Close())
	})
}
