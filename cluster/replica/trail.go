package replica

import (
	"slices"
	"sync"
)

const (
	// stepBytes is the distance of the points of a trail at its beginning.
	stepBytes = 64 << 10
	maxPoints = 4096
)

// place is a point in the log: up to index, entries up to sequence were applied.
type place struct {
	index, term, sequence uint64
	bytes                 int64 // of groups since the start
}

// trail remembers what was applied behind the base, coarsely.
type trail struct {
	mu struct {
		sync.Mutex
		points []place // ascending
		last   place   // the end
		base   int64   // bytes at the base
		index  uint64  // of the base
		step   int64
	}
}

// add notes that a group is applied.
func (t *trail) add(p place, size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.bytes = t.mu.last.bytes + int64(size)
	t.mu.last = p
	if t.mu.step == 0 {
		t.mu.step = stepBytes
	}
	before := t.mu.base
	if n := len(t.mu.points); n > 0 {
		before = t.mu.points[n-1].bytes
	}
	if p.bytes-before < t.mu.step {
		return
	}
	t.mu.points = append(t.mu.points, p)
	if len(t.mu.points) >= maxPoints {
		half := t.mu.points[:0]
		for i := 1; i < maxPoints; i += 2 {
			half = append(half, t.mu.points[i])
		}
		t.mu.points = half
		t.mu.step *= 2
	}
}

// upTo returns the highest point behind the base whose entries are all up to sequence.
func (t *trail) upTo(sequence uint64) (place, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.mu.last
	if p.sequence > sequence {
		n, _ := slices.BinarySearchFunc(t.mu.points, sequence+1, func(p place, s uint64) int {
			if p.sequence < s {
				return -1
			}
			return 1
		})
		if n == 0 {
			return place{}, false
		}
		p = t.mu.points[n-1]
	}
	return p, p.index > t.mu.index
}

// cut notes that the base is at a point.
func (t *trail) cut(p place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.index, t.mu.base = p.index, p.bytes
	n := 0
	for n < len(t.mu.points) && t.mu.points[n].index <= p.index {
		n++
	}
	t.mu.points = slices.Delete(t.mu.points, 0, n)
	if len(t.mu.points) == 0 {
		t.mu.step = stepBytes
	}
}

// size returns the bytes of the groups behind the base.
func (t *trail) size() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.last.bytes - t.mu.base
}
