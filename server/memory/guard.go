package memory

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

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

// GuardOptions are what a Guard watches and what it calls.
type GuardOptions struct {
	Limit   int64 // of the heap in bytes
	Logger  *slog.Logger
	Short   func(bool)   // is called with true while queries may take no more memory
	Flush   func()       // asks for the caches to be flushed, does not wait
	Queries func() int64 // bytes that running queries hold
}

// Guard refuses writes while live data fills the heap. It is the last defense
// where the bounds of caches, bodies and queries do not reach, as with new
// series without end. It is a prometheus.Collector.
type Guard struct {
	GuardOptions
	full    atomic.Bool
	live    atomic.Int64
	refused atomic.Int64
	metrics []prometheus.Collector
	stop    context.CancelFunc
	stopped chan struct{}
}

// NewGuard starts to watch the heap. The caller must close the guard.
func NewGuard(o GuardOptions) *Guard {
	ctx, stop := context.WithCancel(context.Background())
	g := &Guard{GuardOptions: o, stop: stop, stopped: make(chan struct{})}
	gauge := func(name, help string, read func() float64) {
		g.metrics = append(g.metrics, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read))
	}
	gauge("tsdbd_memory_limit_bytes", "Bound of the heap.", func() float64 { return float64(g.Limit) })
	gauge("tsdbd_memory_live_bytes", "Heap in use after the latest garbage collection.", func() float64 { return float64(g.live.Load()) })
	gauge("tsdbd_memory_full", "1 while writes are refused because live data fills the heap.", func() float64 {
		if g.full.Load() {
			return 1
		}
		return 0
	})
	gauge("tsdbd_query_memory_bytes", "Intermediate data of running queries.", func() float64 { return float64(g.Queries()) })
	g.metrics = append(g.metrics, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tsdbd_memory_refused_total", Help: "Write requests refused because live data fills the heap.",
	}, func() float64 { return float64(g.refused.Load()) }))
	go func() { defer close(g.stopped); g.watch(ctx) }()
	return g
}

// Close ends the watch.
func (g *Guard) Close() {
	g.stop()
	<-g.stopped
}

// Describe implements prometheus.Collector.
func (g *Guard) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range g.metrics {
		m.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (g *Guard) Collect(ch chan<- prometheus.Metric) {
	for _, m := range g.metrics {
		m.Collect(ch)
	}
}

// watch follows the heap until ctx ends.
func (g *Guard) watch(ctx context.Context) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/cycles/total:gc-cycles"}}
	over := collections(ctx)
	cycles, since := uint64(0), time.Now()
	var flushed time.Time
	var said time.Time // under load memory is full several times a second
	for {
		select {
		case <-ctx.Done():
			return
		case <-over:
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
			g.Logger.Warn("memory full, writes are refused until some is free", "bytes", live, "limit", g.Limit)
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
