package admission

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// turnTime is how long a goroutine of a statement works before it lets a
	// waiting one go first.
	turnTime = 10 * time.Millisecond
	// writeRest is how long after the end of a write its share of the cores stays
	// free. The next write of a busy client then finds an idle core.
	writeRest = 10 * time.Millisecond
)

// Cores shares the processor between queries and writes. At most one goroutine
// of a query per core works at a time, and fewer while a write is under way: a
// quarter of the cores, at least one of two, is left to writes. Queries wait in
// the order in which they came. A nil Cores lets every query work at once.
//
// Writes never wait here.
type Cores struct {
	total, reserved int
	writes          atomic.Int64 // under way
	lastWrite       atomic.Int64 // the end of the last one, ns since start
	waiters         atomic.Int64 // the length of mu.waiting
	start           time.Time

	mu struct {
		sync.Mutex
		working int             // turns given
		waiting []chan struct{} // first come, first served
		timer   *time.Timer     // admits waiters when the share of writes ends
	}
}

// NewCores shares n cores; 0 is runtime.GOMAXPROCS(0).
func NewCores(n int) *Cores {
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	c := &Cores{total: n, start: time.Now()}
	if n > 1 {
		c.reserved = max(1, n/4)
	}
	c.lastWrite.Store(-int64(writeRest))
	return c
}

// Write reserves the share of writes until the returned function is called, and
// a little longer.
func (c *Cores) Write() (done func()) {
	if c == nil {
		return func() {}
	}
	c.writes.Add(1)
	return func() {
		c.lastWrite.Store(int64(time.Since(c.start)))
		c.writes.Add(-1)
	}
}

// limit returns how many turns there are now.
func (c *Cores) limit() int {
	if c.writes.Load() > 0 || time.Since(c.start)-time.Duration(c.lastWrite.Load()) < writeRest {
		return c.total - c.reserved
	}
	return c.total
}

// enter waits for a turn.
func (c *Cores) enter(ctx context.Context) error {
	c.mu.Lock()
	if c.freeLocked() > 0 {
		c.mu.working++
		c.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	c.mu.waiting = append(c.mu.waiting, ready)
	c.waiters.Add(1)
	c.watchLocked()
	c.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range c.mu.waiting {
		if w == ready {
			c.mu.waiting = append(c.mu.waiting[:i], c.mu.waiting[i+1:]...)
			c.waiters.Add(-1)
			return context.Cause(ctx)
		}
	}
	c.leaveLocked() // the turn came in the meantime
	return context.Cause(ctx)
}

// freeLocked returns how many turns nobody has and nobody waits for.
func (c *Cores) freeLocked() int {
	if len(c.mu.waiting) > 0 {
		return 0
	}
	return max(0, c.limit()-c.mu.working)
}

// leave gives a turn back.
func (c *Cores) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaveLocked()
}

func (c *Cores) leaveLocked() {
	c.mu.working--
	c.admitLocked()
}

// admitLocked gives the free turns to those who wait.
func (c *Cores) admitLocked() {
	for limit := c.limit(); len(c.mu.waiting) > 0 && c.mu.working < limit; c.mu.working++ {
		close(c.mu.waiting[0])
		c.mu.waiting = c.mu.waiting[1:]
		c.waiters.Add(-1)
	}
	c.watchLocked()
}

// watchLocked looks again when the share of writes may have ended: the end of a
// write wakes nobody.
func (c *Cores) watchLocked() {
	if len(c.mu.waiting) == 0 || c.mu.timer != nil || c.reserved == 0 {
		return
	}
	c.mu.timer = time.AfterFunc(writeRest, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.timer = nil
		c.admitLocked()
	})
}

// crowded reports whether a goroutine that has a turn should let another work.
func (c *Cores) crowded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.waiting) > 0 || c.mu.working > c.limit()
}

// Turn is the share of a query in the cores: a turn for each of its goroutines
// that works. One that waits for another goroutine has none: all turns could be
// with goroutines that wait for one. The zero value is ready for
// ExecuteOptions.Turn; a query belongs to one Turn at a time. A nil Turn, and
// one that has not begun, never waits.
type Turn struct {
	cores *Cores
	since atomic.Int64 // the last change of turns, ns since cores.start
}

// Begin waits for a turn and returns into how many parts it is worth to divide
// the query's work, at most want: as many as there are free turns.
func (t *Turn) Begin(ctx context.Context, c *Cores, want int) (workers int, err error) {
	if t == nil || c == nil {
		return want, nil
	}
	if err = c.enter(ctx); err != nil {
		return 0, err
	}
	t.cores = c
	t.since.Store(int64(time.Since(c.start)))
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(1, min(want, 1+c.freeLocked())), nil
}

// End gives the turn back that begin took.
func (t *Turn) End() {
	if t != nil && t.cores != nil {
		t.cores.leave()
		t.cores = nil
	}
}

// More takes up to n free turns, for goroutines that call leave at their end.
func (t *Turn) More(n int) int {
	if t == nil || t.cores == nil {
		return n
	}
	t.cores.mu.Lock()
	defer t.cores.mu.Unlock()
	n = min(n, t.cores.freeLocked())
	t.cores.mu.working += n
	return n
}

// Leave gives back the turn of a goroutine that ends.
func (t *Turn) Leave() {
	if t != nil && t.cores != nil {
		t.cores.leave()
	}
}

// Yield lets another query work if this one has worked long enough. Any worker
// of the query may call it, and waits. It looks at the clock only if a query waits or a write is under
// way: workers call it for every chunk, of which there may be millions.
func (t *Turn) Yield(ctx context.Context) error {
	if t == nil || t.cores == nil || t.cores.waiters.Load() == 0 && t.cores.writes.Load() == 0 {
		return nil
	}
	now, since := int64(time.Since(t.cores.start)), t.since.Load()
	if now-since < int64(turnTime) || !t.since.CompareAndSwap(since, now) || !t.cores.crowded() {
		return nil
	}
	t.cores.leave()
	return t.retake(ctx)
}

// retake waits for the turn of one goroutine. After an error the query ends, but
// the goroutine still gives a turn back.
func (t *Turn) retake(ctx context.Context) error {
	if err := t.cores.enter(ctx); err != nil {
		t.cores.mu.Lock()
		t.cores.mu.working++
		t.cores.mu.Unlock()
		return err
	}
	t.since.Store(int64(time.Since(t.cores.start)))
	return nil
}

// Outside runs f, which may wait for a client, memory or another goroutine,
// without the turn of the calling goroutine: what it waits for holds up no other
// query.
func (t *Turn) Outside(ctx context.Context, f func() error) error {
	if t == nil || t.cores == nil {
		return f()
	}
	t.cores.leave()
	err := f()
	if again := t.retake(ctx); err == nil {
		err = again
	}
	return err
}
