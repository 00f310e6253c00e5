package engine

import (
	"tsdbd/model/column"
)

// groupRows is what a worker has read of a group.
type groupRows struct {
	rowset
	runs []run
	one  [1]run // memory of runs, as most groups have one
}

// groupSlab makes the columns of groups, of several at a time.
type groupSlab struct {
	groups []groupRows
	cols   []column.Vector
	size   int // of the last one, in groups
}

// slabColumns bounds the columns of a slab, 30 kB.
const slabColumns = 200

// next returns the rows of a group without any, of n columns.
func (b *groupSlab) next(n int) *groupRows {
	if len(b.groups) == 0 {
		b.size = max(1, min(2*b.size, slabColumns/(n+1)))
		b.groups = make([]groupRows, b.size)
		b.cols = make([]column.Vector, b.size*(n+1))
	}
	g := &b.groups[0]
	g.runs = g.one[:0]
	g.table = b.cols[: n+1 : n+1]
	g.cols = g.table[1:]
	b.groups, b.cols = b.groups[1:], b.cols[n+1:]
	return g
}
