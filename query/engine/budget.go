package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"tsdbd/query/admission"
)

// budget is what one SELECT may use, all its levels together: cores, memory, rows
// and series. Its workers share it.
type budget struct {
	ctx       context.Context
	turn      *admission.Turn
	claim     *admission.Claim // of maxMemory
	workers   int
	workRows  int   // rows between two looks at the context; 0: the default
	maxMemory int64 // <= 0: no limit
	maxPoints int64 // rows read; <= 0: no limit
	maxSeries int   // <= 0: no limit

	used    atomic.Int64 // bytes of intermediate data, given back group by group
	kept    atomic.Int64 // bytes of rows kept to the end of a level
	decoded atomic.Int64 // bytes of the texts in chunks that are being read
	points  atomic.Int64 // rows read
	series  int

	counts *storageCounts // of EXPLAIN ANALYZE, else nil
}

// check reports why the query must end, if it must. Loops call it at every chunk.
// It lets other queries work in between.
func (b *budget) check() error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	return b.turn.Yield(b.ctx)
}

// stopper returns a stopper for loops of one goroutine.
func (b *budget) stopper() admission.Stopper {
	return admission.Stopper{Ctx: b.ctx, Turn: b.turn, Every: b.workRows}
}

// grow accounts for n bytes of intermediate data.
func (b *budget) grow(n int64) error {
	return b.claim.Set(b.used.Add(n) + b.kept.Load() + b.decoded.Load())
}

// keep accounts for n bytes that stay until the level or the statement ends.
func (b *budget) keep(n int64) error {
	return b.claim.Set(b.used.Load() + b.kept.Add(n) + b.decoded.Load())
}

// decode accounts for n bytes that a chunk's texts take until the next chunk, or
// gives them back.
func (b *budget) decode(n int64) error {
	total := b.used.Load() + b.kept.Load() + b.decoded.Add(n)
	if n < 0 {
		_ = b.claim.Set(total) // giving back never fails
		return nil
	}
	return b.claim.Set(total)
}

// memoryBytes returns what the statement may hold, for sizes that depend on it.
func (b *budget) memoryBytes() int64 {
	if b.maxMemory > 0 {
		return b.maxMemory
	}
	return DefaultMemoryBytes
}

// countPoints accounts for n rows read.
func (b *budget) countPoints(n int) error {
	if b.maxPoints <= 0 {
		return nil
	}
	if got := b.points.Add(int64(n)); got > b.maxPoints {
		return fmt.Errorf("max-select-point limit exceeded: (%d/%d)", got, b.maxPoints)
	}
	return nil
}

// countSeries accounts for n series opened. Only the statement's goroutine calls it.
func (b *budget) countSeries(n int) error {
	if b.series += n; b.maxSeries > 0 && b.series > b.maxSeries {
		return fmt.Errorf("max-select-series limit exceeded: (%d/%d)", b.series, b.maxSeries)
	}
	return nil
}

// parallel runs n tasks on the workers for which there are free turns, the calling
// goroutine among them, and returns the first error in order of the tasks. After an
// error it begins no more of them.
func (b *budget) parallel(n int, task func(int) error) error {
	if n == 0 {
		return nil
	}
	errs := make([]error, n)
	more := b.turn.More(min(n, b.workers) - 1)
	var next, working atomic.Int64
	working.Store(int64(1 + more))
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			if errs[i] = admission.Guard(func() error { return task(i) }); errs[i] != nil {
				next.Store(int64(n))
			}
		}
		if working.Add(-1) > 0 { // the calling goroutine goes on with the last turn
			b.turn.Leave()
		}
	}
	var wg sync.WaitGroup
	for range more {
		wg.Go(work)
	}
	work()
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
