package faulty

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// Faults are what happens to the bytes of one direction.
type Faults struct {
	// Cut keeps bytes back until it is healed, and new connections too.
	Cut bool
	// Delay makes bytes arrive later, by up to Jitter more. Their order stays.
	Delay, Jitter time.Duration
	// BytesPerSecond limits all connections together; 0: no limit.
	BytesPerSecond int64
	// ResetAfter resets a connection after about so many bytes of this direction,
	// drawn for each connection; 0: never.
	ResetAfter int64
}

// Link is one direction between two nodes.
type Link struct {
	mu struct {
		sync.Mutex
		faults  Faults
		changed chan struct{} // closed when faults change
		random  *rand.Rand
		free    time.Time // when the limit lets the next bytes pass
		bytes   int64
	}
}

// NewLink returns a link without faults.
func NewLink(seed uint64) *Link {
	l := &Link{}
	l.mu.changed = make(chan struct{})
	l.mu.random = rand.New(rand.NewPCG(seed, 0))
	return l
}

// Set replaces the faults.
func (l *Link) Set(f Faults) { l.change(func(now *Faults) { *now = f }) }

// Cut keeps back all bytes from now on.
func (l *Link) Cut() { l.change(func(f *Faults) { f.Cut = true }) }

// Heal ends a cut. Other faults stay.
func (l *Link) Heal() { l.change(func(f *Faults) { f.Cut = false }) }

// Bytes returns how many bytes the link has delivered.
func (l *Link) Bytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.bytes
}

func (l *Link) change(f func(*Faults)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.mu.faults)
	close(l.mu.changed)
	l.mu.changed = make(chan struct{})
}

func (l *Link) now() (Faults, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.faults, l.mu.changed
}

// open waits while the link is cut.
func (l *Link) open(ctx context.Context) error {
	for {
		f, changed := l.now()
		if !f.Cut {
			return ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// arrival returns when bytes arrive that were sent now.
func (l *Link) arrival() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := time.Now().Add(l.mu.faults.Delay)
	if j := l.mu.faults.Jitter; j > 0 {
		at = at.Add(time.Duration(l.mu.random.Int64N(int64(j))))
	}
	return at
}

// budget draws after how many bytes a new connection is reset, 0: never.
func (l *Link) budget() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.faults.ResetAfter == 0 {
		return 0
	}
	return 1 + int64(l.mu.random.ExpFloat64()*float64(l.mu.faults.ResetAfter))
}

// pass waits until n bytes may be delivered that arrive at a time.
func (l *Link) pass(ctx context.Context, at time.Time, n int) error {
	if err := sleep(ctx, at); err != nil {
		return err
	}
	if err := l.open(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	l.mu.bytes += int64(n)
	free := time.Now()
	if rate := l.mu.faults.BytesPerSecond; rate > 0 {
		if l.mu.free.After(free) {
			free = l.mu.free
		}
		free = free.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
		l.mu.free = free
	}
	l.mu.Unlock()
	if err := sleep(ctx, free); err != nil {
		return err
	}
	return l.open(ctx) // it may have been cut meanwhile
}

func sleep(ctx context.Context, until time.Time) error {
	d := time.Until(until)
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
