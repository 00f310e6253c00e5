package codec

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

// scalar runs f with the loops in Go.
func scalar(f func()) {
	defer func(was bool) { hasVector = was }(hasVector)
	hasVector = false
	f()
}

// needVector skips a test where there is nothing to compare with.
func needVector(t testing.TB) {
	if !hasVector {
		t.Skip("no AVX-512 with byte permutations")
	}
}

// agree decodes a block with and without vectors and wants the same.
func agree[T int64 | uint64 | float64](t *testing.T, name string, block []byte, n int, decode func([]T, []byte, int) ([]T, error)) {
	t.Helper()
	const canary = 0x5ca1ab1e
	room := make([]T, n+1)
	words(room)[n] = canary
	got, err := decode(room[:0:n], block, n)
	var want []T
	var wantErr error
	scalar(func() { want, wantErr = decode(nil, block, n) })
	switch {
	case (err == nil) != (wantErr == nil):
		t.Fatalf("%s: error %v, in Go %v; block % x", name, err, wantErr, block)
	case err == nil && !slices.Equal(words(got), words(want)):
		t.Fatalf("%s: other values than in Go; block % x", name, block)
	case words(room)[n] != canary:
		t.Fatalf("%s: a write behind the last value; block % x", name, block)
	}
}

func agreeAll(t *testing.T, name string, block []byte, n int) {
	t.Helper()
	agree(t, name+" as integers", block, n, DecodeIntegers)
	agree(t, name+" as floats", block, n, DecodeFloats)
	agree(t, name+" as times", block, n, DecodeTimes)
}

func TestVectorsAgree(t *testing.T) {
	needVector(t)
	seed := testseed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 7))
	counts := []int{1000, 1024, 2500, MaxValues}
	for n := 1; n < 150; n++ {
		counts = append(counts, n)
	}
	for _, n := range counts {
		check := func(name string, block []byte, kind Kind) {
			blocks := [][]byte{block}
			if dense, ok, err := AppendDense(nil, block, n, kind); err != nil {
				t.Fatal(err)
			} else if ok {
				blocks = append(blocks, dense)
			}
			for _, b := range blocks {
				agreeAll(t, name, atPageEnd(t, b), n)
				for range 4 { // damaged
					b = slices.Clone(b)
					b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
					agreeAll(t, name+", damaged", b, n)
				}
			}
		}
		for _, set := range append(timeSets[:len(timeSets):len(timeSets)], intSets...) {
			check(set.name, AppendIntegers(nil, set.make(rng, n)), Integers)
		}
		for _, set := range floatSets {
			check(set.name, AppendFloats(nil, set.make(rng, n)), Floats)
		}
	}
}

// TestUnpackVector unpacks all widths from the end of a page.
func TestUnpackVector(t *testing.T) {
	needVector(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for w := uint(1); w <= maxLoadWidth; w++ {
		for _, n := range []int{16, 23, 24, 64, 65, 511} {
			v := make([]uint64, n)
			for i := range v {
				v[i] = rng.Uint64() >> (64 - w)
			}
			got := make([]uint64, n)
			done := unpackVector(got, atPageEnd(t, appendPacked(nil, v, w)), w)
			if done != n&^7 || !slices.Equal(got[:done], v[:done]) {
				t.Fatalf("width %d: %d of %d values, or others", w, done, n)
			}
			if slices.ContainsFunc(got[done:], func(x uint64) bool { return x != 0 }) {
				t.Fatalf("width %d: a write behind value %d", w, done)
			}
		}
	}
}

// TestDivideVector holds the division by multiplication to the bits of a
// division.
func TestDivideVector(t *testing.T) {
	needVector(t)
	seed := testseed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 8))
	v := make([]uint64, 1024)
	for range 300 {
		for i := range v {
			v[i] = rng.Uint64() >> rng.IntN(64)
			if i%8 < 2 {
				v[i] = nextToMiddle(rng, 1+rng.IntN(maxExponent))
			}
			if i&1 == 0 {
				v[i] = -v[i]
			}
		}
		for e, power := range float10 {
			got := slices.Clone(v)
			divideVector(got, &decimalScales[e])
			for i, x := range v {
				if want := math.Float64bits(float64(int64(x)) / power); got[i] != want {
					t.Fatalf("seed %d: %d / 10^%d is %x, want %x", seed, int64(x), e, got[i], want)
				}
			}
		}
	}
}

// nextToMiddle returns an integer whose quotient by 10^e is as near as any to the
// middle m of two doubles: an odd m of 54 bits with m*5^e = 2^s*x +- 1.
func nextToMiddle(rng *rand.Rand, e int) uint64 {
	five := uint64(1)
	for range e {
		five *= 5
	}
	s := bits.Len64(five) + 1
	inverse := divisorOf(five).inverse
	if rng.IntN(2) == 0 {
		inverse = -inverse
	}
	m := 1<<53 | rng.Uint64()>>11&^(1<<s-1) | inverse&(1<<s-1)
	hi, lo := bits.Mul64(m, five)
	x := hi<<(64-s) | lo>>s
	if inverse*five == 1 {
		return x // 2^s*x + 1
	}
	return x + 1
}

// FuzzVectors wants the same answer to any block with and without vectors.
func FuzzVectors(f *testing.F) {
	needVector(f)
	for _, s := range sampleBlocks() {
		if s.n <= 300 {
			f.Add(s.block, s.n)
		}
	}
	rng := seeded(3)
	for _, n := range []int{40, 200} {
		for _, set := range intSets {
			block := AppendIntegers(nil, set.make(rng, n))
			f.Add(block, n)
			if dense, ok, _ := AppendDense(nil, block, n, Integers); ok {
				f.Add(dense, n)
			}
		}
	}
	f.Fuzz(func(t *testing.T, block []byte, n int) {
		if n >= 0 && n <= MaxValues {
			agreeAll(t, "fuzz", slices.Clip(slices.Clone(block)), n)
		}
	})
}
