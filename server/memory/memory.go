package memory

import (
	"context"
	"log/slog"
	"math"
	"math/bits"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// heapShare is the part of the memory there is that the Go heap may take. The
// rest is for what the runtime does not count: mapped files in use, the
// kernel's buffers and page tables.
const heapShare = 0.8

// addressable is what of a 32-bit program's addresses the heap may take: there
// are 2 to 4 GiB, and mapped files want theirs.
const addressable = 768 << 20

// Limit returns how large the heap may get in bytes, and what says so:
// GOMEMLIMIT if it is set, else a share of the cgroup's or the machine's memory.
func Limit() (bytes int64, source string) {
	if n := debug.SetMemoryLimit(-1); n != math.MaxInt64 {
		return n, "GOMEMLIMIT"
	}
	return shareOf(systemMemory(), cgroupMemory(os.ReadFile), bits.UintSize)
}

// shareOf returns Limit for a machine's and a cgroup's memory, 0 where it is
// not known, and addresses of so many bits.
func shareOf(machine, group int64, addressBits int) (bytes int64, source string) {
	bytes, source = 2<<30, "guess"
	switch {
	case group > 0 && (machine == 0 || group < machine):
		bytes, source = int64(float64(group)*heapShare), "cgroup"
	case machine > 0:
		bytes, source = int64(float64(machine)*heapShare), "machine"
	}
	if addressBits == 32 && bytes > addressable {
		return addressable, "32-bit addresses"
	}
	return bytes, source
}

// machineMemory returns Linux's memory in bytes, 0 if it is not known.
func machineMemory(read func(string) ([]byte, error)) int64 {
	text, err := read("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err == nil && n > 0 && n < math.MaxInt64>>10 {
				return n << 10
			}
		}
	}
	return 0
}

// cgroupMemory returns the smallest memory limit of the process's control
// groups (version 1 or 2) and those above it in bytes, 0 if there is none.
func cgroupMemory(read func(string) ([]byte, error)) int64 {
	text, err := read("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	limit := int64(0)
	for line := range strings.Lines(string(text)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 {
			continue
		}
		root, file := "", ""
		switch {
		case part[0] == "0" && part[1] == "":
			root, file = "/sys/fs/cgroup", "memory.max"
		case strings.Contains(","+part[1]+",", ",memory,"):
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container the path may be the host's: then the root is ours.
		for dir := path.Clean("/" + part[2]); ; dir = path.Dir(dir) {
			if text, err := read(path.Join(root, dir, file)); err == nil {
				n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
				// Version 1 spells no limit as a number next to the largest.
				if err == nil && n > 0 && n < 1<<60 && (limit == 0 || n < limit) {
					limit = n
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	return limit
}

// fullShare is the part of the heap that live data may fill before writes are
// refused, freeShare the part below which they are accepted again. What is above
// is for garbage and for requests under way.
const (
	fullShare = 0.7
	freeShare = 0.65
)

// shortShare is the part from which on running queries get no more either.
const shortShare = 0.8

// ErrFull refuses a write before its body is read.
var ErrFull error = memoryShort{}

type memoryShort struct{}

func (memoryShort) Error() string   { return "memory limit reached, try again" }
func (memoryShort) Temporary() bool { return true }

// Guard refuses writes while live data fills the heap: the last defence,
// where the bounds of caches, bodies and queries do not reach, as with new
// series without end.
type Guard struct {
	Limit   int64
	Log     *slog.Logger
	Short   func(bool) // told whether queries may have more
	Flush   func()     // asks for the caches to be flushed, does not wait
	full    atomic.Bool
	live    atomic.Int64
	refused atomic.Int64
}

// Watch follows the heap until ctx ends.
func (g *Guard) Watch(ctx context.Context) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	cycles, since := uint64(0), time.Now()
	var flushed time.Time
	var said time.Time // under load memory is full several times a second
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(sample)
		live := int64(sample[0].Value.Uint64())
		if n := sample[1].Value.Uint64(); n != cycles {
			cycles, since = n, time.Now()
		}
		g.live.Store(live)
		g.Short(float64(live) > float64(g.Limit)*shortShare)
		share := fullShare
		if g.full.Load() {
			share = freeShare
		}
		full := float64(live) > float64(g.Limit)*share
		if full && !g.full.Load() && time.Since(said) > 10*time.Second {
			said = time.Now()
			g.Log.Warn("memory full, writes are refused until some is free", "bytes", live, "limit", g.Limit)
		}
		g.full.Store(full)
		if full && time.Since(flushed) > 5*time.Second {
			// What the caches hold can go to files.
			flushed = time.Now()
			g.Flush()
		}
		if full && time.Since(since) > time.Second {
			runtime.GC() // nobody allocates, so nobody would find out that memory is free again
		}
	}
}

// Admit returns an error while memory is full.
func (g *Guard) Admit() error {
	if g.full.Load() {
		g.refused.Add(1)
		return ErrFull
	}
	return nil
}

// Register makes the guard's figures part of /metrics.
func (g *Guard) Register(r prometheus.Registerer, queries func() int64) {
	gauge := func(name, help string, read func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
	gauge("tsdbd_memory_limit_bytes", "Bound of the heap.", func() float64 { return float64(g.Limit) })
	gauge("tsdbd_memory_live_bytes", "Heap in use after the latest garbage collection.", func() float64 { return float64(g.live.Load()) })
	gauge("tsdbd_memory_full", "1 while writes are refused because live data fills the heap.", func() float64 {
		if g.full.Load() {
			return 1
		}
		return 0
	})
	gauge("tsdbd_query_memory_bytes", "Intermediate data of running queries.", func() float64 { return float64(queries()) })
	r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tsdbd_memory_refused_total", Help: "Write requests refused because live data fills the heap.",
	}, func() float64 { return float64(g.refused.Load()) }))
}
