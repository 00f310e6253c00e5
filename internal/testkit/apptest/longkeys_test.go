package apptest

import (
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	longKeys       = flag.Int("long-keys", 2000, "how many series TestLongKeysInLittleMemory writes")
	longKeysMemory = flag.Int64("long-keys-memory", 256, "MiB of memory that its server has")
)

// longKeyLines returns a line for each of n new series. Their tag values are of
// 60 kB and do not pack well.
func longKeyLines(from, n int) string {
	var b strings.Builder
	raw := make([]byte, 30_000)
	for i := from; i < from+n; i++ {
		_, _ = rand.NewChaCha8([32]byte{byte(i), byte(i >> 8), byte(i >> 16)}).Read(raw)
		fmt.Fprintf(&b, "wide,v=%s n=1 %d\n", hex.EncodeToString(raw), i)
	}
	return b.String()
}

// New series with long keys, more than there is memory for, are stored or
// refused, and never end the server. What is acknowledged can be read, before and
// after a restart.
func TestLongKeysInLittleMemory(t *testing.T) {
	t.Parallel()
	const databases, clients, batch = 3, 4, 125
	total, limit := *longKeys, *longKeysMemory<<20
	_, wrap := memoryCgroup(t, limit)
	s := New(t)
	s.Wrap = wrap
	s.Restart()
	for d := range databases {
		s.Query("", fmt.Sprintf("CREATE DATABASE db%d", d))
	}
	memory := watch(s)
	var next, refused atomic.Int64
	var latest atomic.Pointer[time.Time] // acknowledgement of any write: on a busy machine one may wait long, but all do not
	now := time.Now()
	latest.Store(&now)
	var stored [databases]atomic.Int64
	write := func(from int) error {
		d, n, lines := from/batch%databases, min(batch, total-from), longKeyLines(from, min(batch, total-from))
		var err error
		for ; time.Since(*latest.Load()) < 2*time.Minute; time.Sleep(50 * time.Millisecond) {
			var ok bool
			if ok, err = s.Post(t.Context(), fmt.Sprintf("db%d", d), lines); err != nil && !cutOff(err) {
				return err
			}
			if ok {
				stored[d].Add(int64(n))
				now := time.Now()
				latest.Store(&now)
				return nil
			}
			refused.Add(1)
		}
		return fmt.Errorf("all writes are refused for two minutes, this one with %v", err)
	}
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for {
				from := int(next.Add(batch)) - batch
				if from >= total {
					return
				}
				if err := write(from); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	rss, anon := memory.end()
	t.Logf("%d writes refused, RSS %d MiB, anonymous %d MiB", refused.Load(), rss, anon)
	if anon >= limit>>20 {
		t.Errorf("anonymous memory of %d MiB is above the limit", anon)
	}
	for _, when := range []string{"while running", "after a restart"} {
		if when == "after a restart" {
			s.Stop()
			s.Restart()
		}
		for d := range databases {
			n, err := s.Count(fmt.Sprintf("db%d", d), "SELECT count(n) FROM wide")
			if n != stored[d].Load() || err != nil {
				t.Errorf("%s: database %d has %d points (%v), %d were acknowledged\n%s", when, d, n, err, stored[d].Load(), tail(s.Log()))
			}
		}
	}
}
