package memory

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// leastGarbage is how much garbage there may be before a collection in a server
// that holds nothing, so that it does not collect several times within one query.
const leastGarbage = 64 << 20

// collector sets how much garbage the next garbage collection waits for. Left
// to itself the runtime waits for as much as there is live data. But what
// stores hold, caches and known series, has few pointers: a collection costs
// what it has to scan, and the memory for so much garbage is better saved.
type collector struct {
	least   uint64 // garbage in bytes when nothing is live
	percent int    // as set
	set     func(percent int) int
}

// TuneGC sets, until stop is called, how much garbage the collections of the
// process wait for. It changes nothing if the user has set GOGC.
func TuneGC(heap int64) (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	c := &collector{least: min(leastGarbage, uint64(heap)/32), set: debug.SetGCPercent}
	c.follow(0, 0)
	ctx, stop := context.WithCancel(context.Background())
	go c.watch(ctx)
	return stop
}

// watch follows the collections until ctx ends.
func (c *collector) watch(ctx context.Context) {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
	over := collections(ctx)
	for cycles := uint64(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-over:
		}
		metrics.Read(sample[:1])
		if n := sample[0].Value.Uint64(); n != cycles {
			cycles = n
			metrics.Read(sample)
			c.follow(sample[1].Value.Uint64(), sample[2].Value.Uint64())
		}
	}
}

// follow takes in what the latest collection has found live, and how much of
// it had to be scanned. Setting a percentage stops the world for a moment, so
// small changes are left alone.
func (c *collector) follow(live, scanned uint64) {
	percent := c.percentOf(live, scanned)
	if d := percent - c.percent; d*16 > c.percent || -d*16 > c.percent {
		c.percent = percent
		c.set(percent)
	}
}

// percentOf returns the garbage to wait for in percent of the live data. Half of
// what there is to scan pays for the scan, for the runtime counts an object with
// one pointer whole; a part of the live data pays for sweeping it. The least
// shrinks to a quarter as live data grows: it is small compared to what a collection
// saves then. The runtime's smallest heap is 4 MiB at 100 percent.
func (c *collector) percentOf(live, scanned uint64) int {
	const smallest = 4 << 20
	live = max(live, smallest)
	least := max(c.least-min(live/6, c.least), c.least/4)
	return int((least + min(scanned, live)/2 + live/32) * 100 / live)
}
