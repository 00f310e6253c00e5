package memory

import (
	"errors"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestMemoryGuard fills a small heap and empties it again: writes are refused
// and accepted accordingly, without anybody else calling the collector.
func TestMemoryGuard(t *testing.T) {
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var tight atomic.Bool
	var flushes atomic.Int64
	g := NewGuard(GuardOptions{
		Limit: int64(before.HeapAlloc) + 40<<20, Logger: slog.New(slog.DiscardHandler),
		Short: func(short bool) { tight.Store(short) }, Flush: func() { flushes.Add(1) }, Queries: func() int64 { return 7 },
	})
	defer g.Close()
	if n, err := gathered(g); err != nil || n != 5 {
		t.Errorf("%d metrics, %v", n, err)
	}
	until := func(want bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); g.full.Load() != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("full is %v, live %d of %d", !want, g.live.Load(), g.Limit)
			}
		}
	}
	if err := g.Admit(); err != nil {
		t.Fatal(err)
	}
	ballast := make([]byte, 60<<20)
	runtime.GC()
	until(true)
	if !tight.Load() {
		t.Error("queries may have more")
	}
	err := g.Admit()
	var temporary interface{ Temporary() bool }
	if !errors.As(err, &temporary) || !temporary.Temporary() {
		t.Errorf("refusal %v is not temporary", err)
	}
	runtime.KeepAlive(ballast)
	ballast = nil
	until(false)
	if flushes.Load() == 0 {
		t.Error("caches are not flushed")
	}
	if err := g.Admit(); err != nil || g.refused.Load() != 1 {
		t.Errorf("afterwards: %v, %d refused", err, g.refused.Load())
	}
}

// gathered returns how many metrics a collector has.
func gathered(c prometheus.Collector) (int, error) {
	r := prometheus.NewRegistry()
	if err := r.Register(c); err != nil {
		return 0, err
	}
	m, err := r.Gather()
	return len(m), err
}
