package read

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"tsdbd/query/admission"
)

// DefaultMemoryBytes is the default bound of the data that one SELECT holds at a
// time, Results that are not sent in chunks included.
const DefaultMemoryBytes = 2 << 30

// Budget is what one SELECT may use, all its levels together: cores, memory, rows
// and series. Its workers share it.
type Budget struct {
	Ctx       context.Context
	Turn      *admission.Turn
	Claim     *admission.Claim // of maxMemory
	Workers   int
	WorkRows  int   // rows between two looks at the context; 0: the default
	MaxMemory int64 // <= 0: no limit
	MaxPoints int64 // rows read; <= 0: no limit
	MaxSeries int   // <= 0: no limit

	Used    atomic.Int64 // bytes of intermediate data, given back group by group
	Kept    atomic.Int64 // bytes of rows kept to the end of a level
	units   atomic.Int64 // part of Kept: of units, until CloseUnits
	decoded atomic.Int64 // bytes of the texts in chunks that are being read, and of cursors
	Points  atomic.Int64 // rows read
	series  int

	Counts *StorageCounts // of EXPLAIN ANALYZE, else nil
}

// Check reports why the query must end, if it must. Loops call it at every chunk.
// It lets other queries work in between.
func (b *Budget) Check() error {
	if err := b.Ctx.Err(); err != nil {
		return err
	}
	return b.Turn.Yield(b.Ctx)
}

// Stopper returns a stopper for loops of one goroutine.
func (b *Budget) Stopper() admission.Stopper {
	return admission.Stopper{Ctx: b.Ctx, Turn: b.Turn, Every: b.WorkRows}
}

// Grow accounts for n bytes of intermediate data.
func (b *Budget) Grow(n int64) error {
	return b.Claim.Set(b.Used.Add(n) + b.Kept.Load() + b.decoded.Load())
}

// Keep accounts for n bytes that stay until the level or the statement ends.
func (b *Budget) Keep(n int64) error {
	return b.Claim.Set(b.Used.Load() + b.Kept.Add(n) + b.decoded.Load())
}

// KeepUnits accounts for n bytes of units, of their series and groups, until CloseUnits.
func (b *Budget) KeepUnits(n int64) error {
	b.units.Add(n)
	return b.Keep(n)
}

// OpenUnits returns a mark for CloseUnits.
func (b *Budget) OpenUnits() (mark int64) { return b.units.Load() }

// CloseUnits gives back what units are accounted for that were opened since the mark.
// Levels open and close them in the order of a stack.
func (b *Budget) CloseUnits(mark int64) {
	b.Kept.Add(mark - b.units.Swap(mark))
}

// decode accounts for n bytes that a chunk's texts take until the next chunk, or a cursor
// until it is closed, or gives them back.
func (b *Budget) decode(n int64) error {
	total := b.Used.Load() + b.Kept.Load() + b.decoded.Add(n)
	if n < 0 {
		_ = b.Claim.Set(total) // giving back never fails
		return nil
	}
	return b.Claim.Set(total)
}

// MemoryBytes returns what the statement may hold, for sizes that depend on it.
func (b *Budget) MemoryBytes() int64 {
	if b.MaxMemory > 0 {
		return b.MaxMemory
	}
	return DefaultMemoryBytes
}

// CountPoints accounts for n rows read.
func (b *Budget) CountPoints(n int) error {
	if b.MaxPoints <= 0 {
		return nil
	}
	if got := b.Points.Add(int64(n)); got > b.MaxPoints {
		return fmt.Errorf("max-select-point limit exceeded: (%d/%d)", got, b.MaxPoints)
	}
	return nil
}

// countSeries accounts for n series opened. Only the statement's goroutine calls it.
func (b *Budget) countSeries(n int) error {
	if b.series += n; b.MaxSeries > 0 && b.series > b.MaxSeries {
		return fmt.Errorf("max-select-series limit exceeded: (%d/%d)", b.series, b.MaxSeries)
	}
	return nil
}

// Parallel runs n tasks on the workers for which there are free turns, the calling
// goroutine among them, and returns the first error in order of the tasks. After an
// error it begins no more of them.
func (b *Budget) Parallel(n int, task func(int) error) error {
	if n == 0 {
		return nil
	}
	errs := make([]error, n)
	more := b.Turn.More(min(n, b.Workers) - 1)
	var next, working atomic.Int64
	working.Store(int64(1 + more))
	work := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			if errs[i] = admission.Guard(func() error { return task(i) }); errs[i] != nil {
				next.Store(int64(n))
			}
		}
		if working.Add(-1) > 0 { // the calling goroutine keeps the last turn
			b.Turn.Leave()
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
