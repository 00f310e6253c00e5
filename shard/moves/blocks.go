package moves

import (
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
)

// blocks finds the moves of a list that involve a series without a look at all others.
// Level 0 has the series of each move, level k those of blocks of 2^k moves: block n has
// the moves [n<<k, (n+1)<<k). Blocks do not change, so lists share them.
type blocks [][]*roaring.Bitmap

// with returns the blocks of a list whose first moves, as many as common says, are those of
// the list of b.
func (b blocks) with(moves []*Move, common int) blocks {
	out := blocks{make([]*roaring.Bitmap, len(moves))}
	for i, m := range moves {
		out[0][i] = m.Pairs.involved
	}
	for level := 1; len(moves)>>level > 0; level++ {
		of := make([]*roaring.Bitmap, len(moves)>>level)
		n := 0
		if level < len(b) {
			n = copy(of, b[level][:common>>level])
		}
		for ; n < len(of); n++ {
			of[n] = roaring.Or(out[level-1][2*n], out[level-1][2*n+1])
			of[n].RunOptimize()
		}
		out = append(out, of)
	}
	return out
}

// all returns the series of all moves. The caller owns the set.
func (b blocks) all() *roaring.Bitmap {
	set := roaring.New()
	for hi := len(b[0]); hi > 0; {
		level := b.largest(hi, hi)
		set.Or(b[level][hi>>level-1])
		hi -= 1 << level
	}
	return set
}

// largest returns the level of the largest block that has an end at a place, and n moves at
// most. n is positive.
func (b blocks) largest(at, n int) int {
	return min(bits.TrailingZeros(uint(at)), bits.Len(uint(n))-1, len(b)-1)
}

// before returns the place behind the last of the moves [lo, hi) that involves a series, lo
// if none does.
func (b blocks) before(id model.SeriesID, lo, hi int) int {
	for hi > lo {
		level := b.largest(hi, hi-lo)
		for ; b[level][hi>>level-1].Contains(uint32(id)); level-- {
			if level == 0 {
				return hi
			}
		}
		hi -= 1 << level
	}
	return lo
}

// after returns the place of the first of the moves [lo, hi) that involves a series, hi if
// none does.
func (b blocks) after(id model.SeriesID, lo, hi int) int {
	for lo < hi {
		level := b.largest(lo, hi-lo)
		for ; b[level][lo>>level].Contains(uint32(id)); level-- {
			if level == 0 {
				return lo
			}
		}
		lo += 1 << level
	}
	return hi
}
