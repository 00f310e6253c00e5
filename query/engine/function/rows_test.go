package function

import (
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

func TestRanks(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 4))
	for range 500 {
		x := make([]float64, 1+rnd.IntN(60))
		for i := range x {
			x[i] = float64(rnd.IntN(1 + rnd.IntN(40)))
		}
		sorted := slices.Clone(x)
		slices.Sort(sorted)
		order := make([]int, len(x))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case x[a] < x[b]:
				return -1
			case x[a] > x[b]:
				return 1
			}
			return 0
		})
		for k := range x {
			if got := kth(nil, slices.Clone(x), k); got != sorted[k] {
				t.Fatalf("seed %d: rank %d of %v is %v, want %v", seed, k, x, got, sorted[k])
			}
			if got := ranked(nil, x, k); got != order[k] {
				t.Fatalf("seed %d: row of rank %d of %v is %d, want %d", seed, k, x, got, order[k])
			}
		}
	}
}
