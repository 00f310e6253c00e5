package window

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

// TestExactSums compares exact sums of windows with compensated ones and with big floats.
// The values reach from one bit to more bits than sums may have.
func TestExactSums(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 11))
	fitted := 0
	for range 4000 {
		values := make([]float64, 1+r.IntN(200))
		spread, keep, low := r.IntN(60), uint(r.IntN(53)), r.IntN(1700)-850
		for i := range values {
			v := math.Ldexp(r.Float64()-0.5, low+r.IntN(spread+1))
			if r.IntN(9) == 0 && i > 0 {
				v = -values[i-1] // cancels
			}
			values[i] = math.Float64frombits(math.Float64bits(v) &^ (1<<keep - 1))
		}
		var x exact
		x.sum(values)
		if len(x.sums) == 0 {
			continue
		}
		fitted++
		for range 8 {
			lo := r.IntN(len(values))
			hi := lo + 1 + r.IntN(len(values)-lo)
			sum, lost, all := 0.0, 0.0, new(big.Float).SetPrec(2200)
			for _, v := range values[lo:hi] {
				sum, lost = add(v, sum, lost)
				all.Add(all, new(big.Float).SetFloat64(v))
			}
			n := x.window(lo, hi)
			got, rest := x.float(n), x.float(n.minus(x.count(sum)))
			nearest, _ := all.Float64()
			if got != sum+lost || got != nearest || rest != lost {
				t.Fatalf("seed %d: %v: got %v and %v, want %v (%v) and %v", seed, values[lo:hi], got, rest, sum+lost, nearest, lost)
			}
		}
	}
	if fitted < 1000 {
		t.Errorf("only %d series had exact sums", fitted)
	}
	for _, values := range [][]float64{{1, math.NaN()}, {1, math.Inf(1)}, {1, 5e-324}, {1, math.MaxFloat64}, {1, 1e40}} {
		var x exact
		if x.sum(values); len(x.sums) > 0 {
			t.Errorf("%v has exact sums", values)
		}
	}
}

// TestSumFour compares the sums of four windows with those of one at a time.
func TestSumFour(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 12))
	for range 2000 {
		v := make([]float64, r.IntN(40))
		for i := range v {
			v[i] = r.NormFloat64()
		}
		var lo, hi [4]int
		for i := range lo {
			if i > 0 {
				lo[i], hi[i] = lo[i-1], hi[i-1]
			}
			hi[i] += r.IntN(len(v) - hi[i] + 1)
			lo[i] += r.IntN(hi[i] - lo[i] + 1)
		}
		got := sumFour(v, lo, hi)
		for i := range got {
			want := 0.0
			for _, x := range v[lo[i]:hi[i]] {
				want += x
			}
			if got[i] != want {
				t.Fatalf("%v to %v: sum %d is %v, want %v", lo, hi, i, got[i], want)
			}
		}
	}
}

// TestWide compares integers of 128 bits with big ones.
func TestWide(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 13))
	large := func(w wide) *big.Int {
		n := new(big.Int).Lsh(big.NewInt(int64(w.high)), 64)
		return n.Add(n, new(big.Int).SetUint64(w.low))
	}
	for range 5000 {
		a, n := wide{low: r.Uint64() >> r.IntN(64), high: r.Uint64() >> (12 + r.IntN(52))}, int64(r.IntN(1000))-500
		if r.IntN(2) == 0 {
			a = wide{}.minus(a)
		}
		if got, want := large(a.times(n)), new(big.Int).Mul(large(a), big.NewInt(n)); got.Cmp(want) != 0 {
			t.Fatalf("%v times %d is %v, want %v", large(a), n, got, want)
		}
		if got, _ := new(big.Float).SetInt(large(a)).Float64(); got != a.float() {
			t.Fatalf("%v is %v as a float, want %v", large(a), a.float(), got)
		}
	}
}
