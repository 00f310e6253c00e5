package codec

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/internal/vector"
)

// eachForm runs f with every form of the loops that the machine has beside the one in Go.
func eachForm(f func()) {
	for form := vector.AVX2; form <= vector.Best(); form++ {
		with(form, f)
	}
}

// with runs f with a form of the loops.
func with(form vector.Form, f func()) {
	defer func(was vector.Form) { loops = was }(loops)
	loops = form
	f()
}

// needVector skips a test where there is nothing to compare with.
func needVector(t testing.TB) {
	if vector.Best() == vector.InGo {
		t.Skip("no AVX2")
	}
	if vector.Best() < vector.AVX512 {
		t.Log("no AVX-512 with byte permutations: only AVX2 is tested")
	}
}

// agree decodes a block with and without vectors and wants the same.
func agree[T int64 | uint64 | float64](t *testing.T, name string, block []byte, n int, decode func([]T, []byte, int) ([]T, error)) {
	t.Helper()
	const canary = 0x5ca1ab1e
	var want []T
	var wantErr error
	with(vector.InGo, func() { want, wantErr = decode(nil, block, n) })
	room := make([]T, n+1)
	eachForm(func() {
		words(room)[n] = canary
		got, err := decode(room[:0:n], block, n)
		switch {
		case (err == nil) != (wantErr == nil):
			t.Fatalf("%s, form %d: error %v, in Go %v; block % x", name, loops, err, wantErr, block)
		case err == nil && !slices.Equal(words(got), words(want)):
			t.Fatalf("%s, form %d: other values than in Go; block % x", name, loops, block)
		case words(room)[n] != canary:
			t.Fatalf("%s, form %d: a write behind the last value; block % x", name, loops, block)
		}
	})
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
			packed := atPageEnd(t, appendPacked(nil, v, w))
			eachForm(func() {
				got, most := make([]uint64, n), n&^7
				for loops == vector.AVX2 && most > 0 && packedLen(most-8, w)+int(6*w/8)+16 > len(packed) {
					most -= 8 // the last pair of a group is read as 16 bytes
				}
				done := unpackVector(got, packed, w)
				if done != most || !slices.Equal(got[:done], v[:done]) {
					t.Fatalf("form %d, width %d: %d of %d values, or others", loops, w, done, n)
				}
				if slices.ContainsFunc(got[done:], func(x uint64) bool { return x != 0 }) {
					t.Fatalf("form %d, width %d: a write behind value %d", loops, w, done)
				}
			})
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
			eachForm(func() {
				got := slices.Clone(v)
				if done := divideVector(got, &decimalScales[e]); done != len(v) {
					t.Fatalf("form %d: %d values", loops, done)
				}
				for i, x := range v {
					if want := math.Float64bits(float64(int64(x)) / power); got[i] != want {
						t.Fatalf("seed %d, form %d: %d / 10^%d is %x, want %x", seed, loops, int64(x), e, got[i], want)
					}
				}
			})
		}
	}
}

// TestRestoreForms restores frames of any header, and joins Rice codes, with every form.
func TestRestoreForms(t *testing.T) {
	needVector(t)
	seed := testseed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 9))
	word := func() uint64 { return rng.Uint64() >> rng.IntN(64) }
	for range 5000 {
		f := frame{mode: byte(rng.IntN(modeRates + 1)), base: word(), factor: 1}
		if f.mode != modePlain {
			f.first = word()
		}
		if f.mode == modeRates {
			f.rate = word()
		}
		if rng.IntN(2) == 0 {
			f.factor = word()
		}
		var scale *decimalScale
		if rng.IntN(2) == 0 {
			scale = &decimalScales[rng.IntN(len(decimalScales))]
		}
		n := 3 + rng.IntN(100)
		offsets, low, rests := make([]uint64, n), make([]uint64, n), make([]byte, n)
		for i := range offsets {
			offsets[i], low[i], rests[i] = word(), word(), byte(word())
		}
		w, zigzag := uint(rng.IntN(maxLoadWidth+1)), uint(rng.IntN(2))
		restored, joined := slices.Clone(offsets), make([]uint64, n)
		with(vector.InGo, func() { f.restore(restored, scale) })
		join(joined, rests, low, w, zigzag)
		eachForm(func() {
			got := slices.Clone(offsets)
			if f.restore(got, scale); !slices.Equal(got, restored) {
				t.Fatalf("seed %d, form %d: frame %+v, scale %v: offsets %d give %d, want %d", seed, loops, f, scale, offsets, got, restored)
			}
			done := joinVector(got, rests, low, w, zigzag)
			if n >= minVector && done < n&^7 || !slices.Equal(got[:done], joined[:done]) {
				t.Fatalf("seed %d, form %d: %d of rests %d and %d bits of %d give %d, want %d", seed, loops, done, rests, w, low, got, joined)
			}
		})
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
