package memory

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestMemoryThereIs(t *testing.T) {
	f := func(name string, files map[string]string, machine, group int64) {
		t.Helper()
		read := func(path string) ([]byte, error) {
			if text, ok := files[path]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		}
		if got := machineMemory(read); got != machine {
			t.Errorf("%s: machine %d, want %d", name, got, machine)
		}
		if got := cgroupMemory(read); got != group {
			t.Errorf("%s: cgroup %d, want %d", name, got, group)
		}
	}
	f("nothing", nil, 0, 0)
	f("version 1, container sees its own root", map[string]string{
		"/proc/meminfo":     "MemTotal:       16000000 kB\nMemFree: 1 kB\n",
		"/proc/self/cgroup": "4:memory:/docker/abc\n3:cpu:/\n0::/\n",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n",
	}, 16000000<<10, 512<<20)
	f("version 1, unlimited", map[string]string{
		"/proc/self/cgroup":                           "4:cpu,memory:/\n",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
	}, 0, 0)
	f("version 1, the parent is tighter", map[string]string{
		"/proc/self/cgroup": "4:memory:/a/b\n",
		"/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "3000000000\n",
		"/sys/fs/cgroup/memory/a/memory.limit_in_bytes":   "2000000000\n",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
	}, 0, 2000000000)
	f("version 2", map[string]string{
		"/proc/self/cgroup":                                    "0::/system.slice/tsdbd.service\n",
		"/sys/fs/cgroup/system.slice/memory.max":               "max\n",
		"/sys/fs/cgroup/system.slice/tsdbd.service/memory.max": "1073741824\n",
	}, 0, 1<<30)
	f("nonsense", map[string]string{
		"/proc/meminfo":     "MemTotal: many kB\n",
		"/proc/self/cgroup": "x\n\n4:memory\n1:memory:relative\n",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes": "-1\n",
	}, 0, 0)
}

// TestMemoryGuard fills a small heap and empties it again: writes are refused
// and accepted accordingly, without anybody else calling the collector.
func TestMemoryGuard(t *testing.T) {
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var tight atomic.Bool
	var flushes atomic.Int64
	g := &Guard{Limit: int64(before.HeapAlloc) + 40<<20, Log: slog.New(slog.DiscardHandler), Short: func(short bool) { tight.Store(short) }, Flush: func() { flushes.Add(1) }}
	g.Register(prometheus.NewRegistry(), func() int64 { return 0 })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); g.Watch(ctx) }()
	defer func() { cancel(); <-done }()
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

// TestShareOf: the smaller of machine and cgroup counts, and a 32-bit program
// leaves addresses for mapped files.
func TestShareOf(t *testing.T) {
	f := func(machine, group int64, bits int, want int64, source string) {
		t.Helper()
		if n, s := shareOf(machine, group, bits); n != want || s != source {
			t.Errorf("%d of %s, want %d of %s", n, s, want, source)
		}
	}
	f(10<<30, 0, 64, 8<<30, "machine")
	f(10<<30, 5<<30, 64, 4<<30, "cgroup")
	f(5<<30, 10<<30, 64, 4<<30, "machine")
	f(0, 0, 64, 2<<30, "guess")
	f(10<<30, 0, 32, addressable, "32-bit addresses")
	f(0, 0, 32, addressable, "32-bit addresses")
	f(0, 640<<20, 32, 512<<20, "cgroup")
	if n := systemMemory(); n < 1<<26 {
		t.Errorf("this machine has %d bytes", n)
	}
}
