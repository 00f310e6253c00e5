package partial

import (
	"slices"

	"tsdbd/query/admission"
)

// SortRows sorts rows, those that are equal staying in their order, and returns
// them, perhaps in another place: blocks are sorted, then merged two by two.
func SortRows[T any](stop *admission.Stopper, rows []T, compare func(a, b T) int) []T {
	block := stop.Block()
	for lo := 0; lo < len(rows) && !stop.After(block); lo += block {
		slices.SortStableFunc(rows[lo:min(lo+block, len(rows))], compare)
	}
	if len(rows) <= block {
		return rows
	}
	merged := make([]T, len(rows))
	for size := block; size < len(rows) && !stop.After(0); size *= 2 {
		for lo := 0; lo < len(rows); lo += 2 * size {
			mid, hi := min(lo+size, len(rows)), min(lo+2*size, len(rows))
			a, b := lo, mid
			for k := lo; k < hi && !stop.After(1); k++ {
				if a < mid && (b >= hi || compare(rows[a], rows[b]) <= 0) {
					merged[k] = rows[a]
					a++
				} else {
					merged[k] = rows[b]
					b++
				}
			}
		}
		rows, merged = merged, rows
	}
	return rows
}
