package engine

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
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

// TestSumsDoNotDependOnCuts adds up ill-conditioned values in random cuts and
// orders: the sum is that of exact arithmetic, rounded once.
func TestSumsDoNotDependOnCuts(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 5))
	for range 200 {
		x := make([]float64, 2+rnd.IntN(300))
		exact := new(big.Float).SetPrec(2000)
		for i := range x {
			x[i] = math.Ldexp(rnd.Float64()-0.5, rnd.IntN(40))
			exact.Add(exact, new(big.Float).SetFloat64(x[i]))
		}
		want, _ := exact.Float64()
		slot := slot{kind: slotSum, typ: model.Float}
		for range 4 {
			w := &aggWorker{}
			parts := make([]aggState, 1+rnd.IntN(4))
			v := column.Vector{Type: model.Float, Floats: x}
			for lo := 0; lo < len(x); {
				hi := min(len(x), lo+1+rnd.IntN(50))
				w.foldSum(&parts[rnd.IntN(len(parts))], &slot, &v, lo, hi)
				lo = hi
			}
			table := newAggTable(1, true, 0, 0)
			total := &aggState{}
			for i := range parts {
				table.mergeState(total, &parts[i], table, slot)
			}
			if total.n != int64(len(x)) {
				t.Fatalf("seed %d: %d values counted of %d", seed, total.n, len(x))
			}
			if got := total.float(); math.Abs(got-want) > math.Abs(want)*1e-15 {
				t.Fatalf("seed %d: sum %v, want %v", seed, got, want)
			}
		}
	}
	// Infinities stay what they are.
	st := &aggState{}
	st.addFloat(math.Inf(1), 0)
	st.addFloat(1, 0)
	if !math.IsInf(st.float(), 1) {
		t.Errorf("inf + 1 = %v", st.float())
	}
}

func TestAggTablePages(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 6))
	for range 50 {
		first := rnd.Int64N(1000) - 500
		last := first + rnd.Int64N(1<<(1+rnd.IntN(40)))
		table := newAggTable(2, false, first, last)
		want := map[pageKey]int64{}
		for range 300 {
			g, win := int32(rnd.IntN(5)), first+rnd.Int64N(last-first+1)
			table.at(g, win)[1].n++
			want[pageKey{g, win}]++
		}
		got := map[pageKey]int64{}
		for g := range int32(5) {
			before := int64(math.MinInt64)
			table.group(g, func(win int64, st []aggState) {
				if win <= before {
					t.Fatalf("seed %d: window %d after %d", seed, win, before)
				}
				before = win
				if st[1].n > 0 {
					got[pageKey{g, win}] = st[1].n
				}
			})
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d windows, want %d", seed, len(got), len(want))
		}
		for k, n := range want {
			if got[k] != n {
				t.Fatalf("seed %d: %v holds %d, want %d", seed, k, got[k], n)
			}
		}
	}
}
