package merges

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Pacer keeps merges from taking the disk: it bounds their bytes per second
// and has them wait while shards are flushed, for a flush gives memory back
// that writers need.
type Pacer struct {
	Rate    atomic.Int64 // bytes per second, 0: no bound
	flushes atomic.Int64 // waiting or running

	mu struct {
		sync.Mutex
		next time.Time // when what was taken so far is paid for
	}
}

const (
	// flushWait bounds how long a merge waits for flushes before it does a
	// little: flushes that never end must not let files pile up.
	flushWait = time.Second
	paceTick  = 2 * time.Millisecond
	// paceBurst is how far a merge may be ahead of its rate.
	paceBurst = 50 * time.Millisecond
)

// Flush tells of a flush that waits or runs, until the returned function is
// called.
func (p *Pacer) Flush() func() {
	p.flushes.Add(1)
	return func() { p.flushes.Add(-1) }
}

// Pace is called by merges before so many bytes; see shard.Options.
func (p *Pacer) Pace(ctx context.Context, bytes int) error {
	for start := time.Now(); p.flushes.Load() > 0 && time.Since(start) < flushWait; {
		if err := wait(ctx, paceTick); err != nil {
			return err
		}
	}
	rate := p.Rate.Load()
	if rate <= 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	if p.mu.next.Before(now) {
		p.mu.next = now
	}
	p.mu.next = p.mu.next.Add(time.Duration(float64(bytes) / float64(rate) * float64(time.Second)))
	ahead := p.mu.next.Sub(now) - paceBurst
	p.mu.Unlock()
	if ahead > 0 {
		return wait(ctx, ahead)
	}
	return ctx.Err()
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
