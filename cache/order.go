package cache

import (
	"slices"
	"sort"
)

// inOrder sorts refs by time; those of one time keep their order. It merges the ascending
// and the descending runs that it finds, two neighbors at a time: rows that come late,
// again, or from the newest to the oldest make few of them. It returns its scratch memory,
// which is grown to the longest run that moves.
func inOrder(refs, scratch []rowRef) []rowRef {
	for {
		runs := 0
		for from := 0; from < len(refs); runs++ {
			mid := from + ascending(refs[from:])
			if mid == len(refs) {
				break
			}
			to := mid + ascending(refs[mid:])
			scratch = mergeTwo(refs[from:to], mid-from, scratch)
			from = to
		}
		if runs == 0 {
			return scratch
		}
	}
}

// ascending returns the length of the run at the start of refs. A strictly descending run
// is turned round.
func ascending(refs []rowRef) int {
	n := 1
	for n < len(refs) && refs[n].time < refs[n-1].time {
		n++
	}
	if n > 1 {
		slices.Reverse(refs[:n])
		return n
	}
	for n < len(refs) && refs[n].time >= refs[n-1].time {
		n++
	}
	return n
}

// mergeTwo merges the sorted refs[:mid] and refs[mid:].
func mergeTwo(refs []rowRef, mid int, scratch []rowRef) []rowRef {
	first, last := refs[mid].time, refs[mid-1].time
	lo := sort.Search(mid, func(i int) bool { return refs[i].time > first })
	hi := mid + sort.Search(len(refs)-mid, func(i int) bool { return refs[mid+i].time >= last })
	left := append(scratch[:0], refs[lo:mid]...)
	at, l, r := lo, 0, mid
	for l < len(left) && r < hi {
		if refs[r].time < left[l].time {
			refs[at] = refs[r]
			r++
		} else {
			refs[at] = left[l]
			l++
		}
		at++
	}
	copy(refs[at:], left[l:])
	return left
}
