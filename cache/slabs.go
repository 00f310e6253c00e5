package cache

import (
	"math/bits"
	"sync"
	"time"

	"tsdbd/internal/ordered"
)

// Slabs keeps the slabs of caches that nobody reads any more, for the caches to come. So flushed
// caches leave no garbage for the next collection to wait for. Any number of caches may share it.
// A nil Slabs keeps none.
type Slabs struct {
	limit int64 // bytes
	mu    struct {
		sync.Mutex
		trimmed time.Time
		bytes   int64
		free    [slabSizes]freeSlabs
	}
}

// freeSlabs are slabs of one size.
type freeSlabs struct {
	list  [][]uint64
	least int // so many were in the list all the time since slabs were trimmed
}

// slabSizes is the number of sizes: minSlabWords and its doubles to maxSlabWords. Slabs of
// single rows that are larger are left to the collector.
const slabSizes = slabBits - 9 + 1

// sizeOf returns the size of slabs with so many words, and false if they are not kept.
func sizeOf(words int) (int, bool) {
	return bits.TrailingZeros(uint(words / minSlabWords)), words <= maxSlabWords && words&(words-1) == 0
}

// NewSlabs returns Slabs that keep at most so many bytes.
func NewSlabs(bytes int64) *Slabs { return &Slabs{limit: bytes} }

// take returns a slab of so many words, which may have any value, or nil.
func (s *Slabs) take(words int) []uint64 {
	size, kept := sizeOf(words)
	if s == nil || !kept {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &s.mu.free[size]
	last := len(f.list) - 1
	if last < 0 {
		return nil
	}
	slab := f.list[last]
	f.list[last] = nil
	f.list = f.list[:last]
	f.least = min(f.least, last)
	s.mu.bytes -= 8 * int64(words)
	return slab
}

// give keeps slabs. Nobody may use them any more.
func (s *Slabs) give(slabs [][]uint64) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slab := range slabs {
		bytes := 8 * int64(len(slab))
		size, kept := sizeOf(len(slab))
		if !kept || s.mu.bytes+bytes > s.limit {
			continue
		}
		if ordered.Checked {
			for i := range slab {
				slab[i] = 1<<64 - 1 // who still reads it fails
			}
		}
		s.mu.free[size].list = append(s.mu.free[size].list, slab)
		s.mu.bytes += bytes
	}
}

// Bytes returns the memory of the slabs that are kept.
func (s *Slabs) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.bytes
}

// slabsAge is how long slabs are kept at least if no cache needs them.
const slabsAge = 30 * time.Second

// Trim leaves those slabs to the garbage collector that no cache needed for slabsAge or longer, or
// all.
func (s *Slabs) Trim(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); all || now.Sub(s.mu.trimmed) > slabsAge {
		s.mu.trimmed = now
		s.trimLocked(all)
	}
}

func (s *Slabs) trimLocked(all bool) {
	for size := range s.mu.free {
		f := &s.mu.free[size]
		n := f.least
		if all {
			n = len(f.list)
		}
		f.least = len(f.list) - n
		clear(f.list[f.least:])
		f.list = f.list[:f.least]
		s.mu.bytes -= int64(n) * (8 * minSlabWords << size)
	}
}
