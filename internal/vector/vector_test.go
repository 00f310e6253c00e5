package vector

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

// TestPlainLoops holds every function against its definition, on values with
// zeros of both signs, infinities, NaN and the ends of the integers.
func TestPlainLoops(t *testing.T) {
	seed := testseed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	odd := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64}
	for range 4000 {
		n := 1 + rng.IntN(100)
		floats, ints := make([]float64, n), make([]int64, n)
		oddity, shift := rng.IntN(3), rng.IntN(64)
		for i := range n {
			floats[i] = math.Ldexp(rng.Float64()-0.5, rng.IntN(80))
			if oddity == 1 && rng.IntN(8) == 0 || oddity == 2 {
				floats[i] = odd[rng.IntN(len(odd)-3*(oddity-1))]
			}
			ints[i] = int64(rng.Uint64()) >> shift
		}
		sum, lost := sumByDefinition(floats)
		var total int64
		low, high := floats[0], floats[0]
		for i, v := range floats {
			total += ints[i]
			if v < low {
				low = v
			}
			if v > high {
				high = v
			}
		}
		if gotSum, gotLost := SumFloats(floats); !same(gotSum, sum) || !same(gotLost, lost) {
			t.Fatalf("seed %d: sum of %v is %v, %v; want %v, %v", seed, floats, gotSum, gotLost, sum, lost)
		}
		if got := SumInts(ints); got != total {
			t.Fatalf("seed %d: sum of %v is %d, want %d", seed, ints, got, total)
		}
		var or uint64
		for _, v := range ints {
			or |= uint64(v + 5)
		}
		if got := OrInts(ints, 5); got != or {
			t.Fatalf("seed %d: bits of %v and 5 are %x, want %x", seed, ints, got, or)
		}
		if got, want := MinInt(ints), slices.Min(ints); got != want {
			t.Fatalf("seed %d: minimum of %v is %d, want %d", seed, ints, got, want)
		}
		if got, want := MaxInt(ints), slices.Max(ints); got != want {
			t.Fatalf("seed %d: maximum of %v is %d, want %d", seed, ints, got, want)
		}
		if got := MinFloat(floats); !same(got, low) {
			t.Fatalf("seed %d: minimum of %v is %v, want %v", seed, floats, got, low)
		}
		if got, want := HasNaN(floats), slices.ContainsFunc(floats, math.IsNaN); got != want {
			t.Fatalf("seed %d: NaN in %v is %t", seed, floats, got)
		}
		if got := MaxFloat(floats); !same(got, high) {
			t.Fatalf("seed %d: maximum of %v is %v, want %v", seed, floats, got, high)
		}
	}
}

// TestForms repeats the tests with every form of the loops that the machine has.
func TestForms(t *testing.T) {
	defer func(was Form) { loops = was }(loops)
	for loops = InGo; loops < Best(); loops++ {
		TestPlainLoops(t)
		TestRuns(t)
	}
}

// sumByDefinition is SumFloats as its comment has it.
func sumByDefinition(x []float64) (sum, lost float64) {
	n := 1
	if len(x) >= lanes {
		n = lanes
	}
	s, e := slices.Clone(x[:n]), make([]float64, n)
	for i, v := range x[n:] {
		var l float64
		s[i%n], l = TwoSum(s[i%n], v)
		e[i%n] += l
	}
	for n /= 2; n > 0; n /= 2 {
		for i := range n {
			var l float64
			s[i], l = TwoSum(s[i], s[i+n])
			e[i] = e[i] + e[i+n] + l
		}
	}
	return s[0], e[0]
}

// TestRuns holds the functions of runs against those of one.
func TestRuns(t *testing.T) {
	seed := testseed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 2))
	odd := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(-1), 1, 2}
	for range 2000 {
		k, n := 1+rng.IntN(40), 1+rng.IntN(40)
		ints, floats := make([]int64, k*n), make([]float64, k*n)
		for i := range ints {
			ints[i] = int64(rng.Uint64()) >> rng.IntN(64)
			floats[i] = odd[rng.IntN(len(odd))]
		}
		gotInts, gotFloats := make([]int64, n+1), make([]float64, n+1)
		gotInts[n], gotFloats[n] = 77, 77
		for _, c := range []struct {
			name string
			runs func(dst, x []int64, k int)
			one  func([]int64) int64
		}{{"sum", SumIntRuns, SumInts}, {"min", MinIntRuns, MinInt}, {"max", MaxIntRuns, MaxInt}} {
			c.runs(gotInts[:n], ints, k)
			for i := range n {
				if want := c.one(ints[i*k : i*k+k]); gotInts[i] != want {
					t.Fatalf("seed %d: %s of run %d of %d is %d, want %d", seed, c.name, i, k, gotInts[i], want)
				}
			}
		}
		for _, c := range []struct {
			name string
			runs func(dst, x []float64, k int)
			one  func([]float64) float64
		}{{"min", MinFloatRuns, MinFloat}, {"max", MaxFloatRuns, MaxFloat}} {
			c.runs(gotFloats[:n], floats, k)
			for i := range n {
				if want := c.one(floats[i*k : i*k+k]); !same(gotFloats[i], want) {
					t.Fatalf("seed %d: %s of run %d of %v is %v, want %v", seed, c.name, i, floats[i*k:i*k+k], gotFloats[i], want)
				}
			}
		}
		lost := make([]float64, n)
		for i := range floats {
			if rng.IntN(20) > 0 {
				floats[i] = math.Ldexp(rng.Float64()-0.5, rng.IntN(80))
			}
		}
		SumFloatRuns(gotFloats[:n], lost, floats, k)
		for i := range n {
			s, e := SumFloats(floats[i*k : i*k+k])
			if !same(gotFloats[i], s) || !same(lost[i], e) {
				t.Fatalf("seed %d: sum of run %d of %v is %v, %v, want %v, %v", seed, i, floats[i*k:i*k+k], gotFloats[i], lost[i], s, e)
			}
		}
		if gotInts[n] != 77 || gotFloats[n] != 77 {
			t.Fatalf("seed %d: a write behind the last run", seed)
		}
	}
}

// same wants equal bits, but takes one NaN for another.
func same(a, b float64) bool {
	return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
}

func BenchmarkLoops(b *testing.B) {
	floats, ints := make([]float64, 360), make([]int64, 360)
	dst, sums, lost := make([]int64, 60), make([]float64, 60), make([]float64, 60)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range floats {
		floats[i], ints[i] = rng.Float64(), rng.Int64()
	}
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"SumFloats", func() { SumFloats(floats) }},
		{"SumInts", func() { SumInts(ints) }},
		{"MinInt", func() { MinInt(ints) }},
		{"HasNaN", func() { HasNaN(floats) }},
		{"MinFloat", func() { MinFloat(floats) }},
		{"SumFloatRuns/6", func() { SumFloatRuns(sums, lost, floats, 6) }},
		{"SumIntRuns/6", func() { SumIntRuns(dst, ints, 6) }},
		{"MinIntRuns/6", func() { MinIntRuns(dst, ints, 6) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.f()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(floats)), "ns/value")
		})
	}
}
