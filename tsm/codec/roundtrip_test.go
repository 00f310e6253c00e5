package codec

import (
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"tsdbd/internal/testkit/testseed"
)

// lengths are the block lengths the property tests go through.
func lengths() []int {
	l := []int{1000, 1024, 1025, MaxValues - 1, MaxValues}
	for n := 1; n <= 130; n++ {
		l = append(l, n)
	}
	return l
}

// roundTrip encodes v behind a prefix, decodes it behind another, and returns
// the block.
func roundTrip[T comparable](t *testing.T, what string, v []T, enc func([]byte, []T) []byte, dec func([]T, []byte, int) ([]T, error), equal func(a, b T) bool) []byte {
	t.Helper()
	keep := slices.Clone(v)
	out := enc([]byte("head"), v)
	if string(out[:4]) != "head" {
		t.Fatalf("%s n=%d: prefix lost", what, len(v))
	}
	if !slices.EqualFunc(v, keep, equal) {
		t.Fatalf("%s n=%d: encoder changed its input", what, len(v))
	}
	block := slices.Clip(append([]byte(nil), out[4:]...))
	var zero T
	got, err := dec([]T{zero}, block, len(v))
	if err != nil {
		t.Fatalf("%s n=%d %s: %v", what, len(v), formOf(block).name, err)
	}
	if len(got) != 1+len(v) || !slices.EqualFunc(got[1:], v, equal) {
		for i := range v {
			if !equal(got[1+i], v[i]) {
				t.Fatalf("%s n=%d %s: value %d: %v, want %v", what, len(v), formOf(block).name, i, got[1+i], v[i])
			}
		}
		t.Fatalf("%s n=%d %s: length %d", what, len(v), formOf(block).name, len(got))
	}
	dense, ok, err := AppendDense([]byte("head"), block, len(v), kindOf[T]())
	switch {
	case err != nil || string(dense[:4]) != "head":
		t.Fatalf("%s n=%d %s: dense: %q, %v", what, len(v), formOf(block).name, dense[:4], err)
	case !ok && len(dense) != 4 || ok && len(dense)-4 >= len(block):
		t.Fatalf("%s n=%d %s: dense form of %d bytes for %d", what, len(v), formOf(block).name, len(dense)-4, len(block))
	case ok:
		got, err := dec(nil, slices.Clip(slices.Clone(dense[4:])), len(v))
		if err != nil || !slices.EqualFunc(got, v, equal) {
			t.Fatalf("%s n=%d %s: dense form gives other values (%v)", what, len(v), formOf(block).name, err)
		}
	}
	return block
}

// kindOf returns the kind of blocks of T.
func kindOf[T any]() Kind {
	switch any(*new(T)).(type) {
	case float64:
		return Floats
	case bool:
		return Booleans
	case string:
		return Strings
	}
	return Integers
}

// sorted iterates in the order of the keys, so that a seed gives the same run.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

func same[T comparable](a, b T) bool { return a == b }

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// hostileInts are shapes chosen to hurt: extremes, outliers on both sides,
// wrapping differences, factors.
func hostileInts(rng *rand.Rand) map[string]func(i int) int64 {
	factor := int64(1) << rng.IntN(40) * (1 + rng.Int64N(1000))
	base := int64(rng.Uint64())
	step := int64(rng.Uint64()) >> rng.IntN(64)
	noise := func(w int) int64 { return int64(rng.Uint64()) >> (63 - w) }
	x := base
	return map[string]func(i int) int64{
		"zero":          func(i int) int64 { return 0 },
		"min":           func(i int) int64 { return math.MinInt64 },
		"max":           func(i int) int64 { return math.MaxInt64 },
		"min max":       func(i int) int64 { return []int64{math.MinInt64, math.MaxInt64}[i&1] },
		"min 0 max":     func(i int) int64 { return []int64{math.MinInt64, 0, math.MaxInt64, -1}[i%4] },
		"epoch extreme": func(i int) int64 { return math.MinInt64 + int64(i)*1e9 },
		"reversed":      func(i int) int64 { return epoch - int64(i)*10e9 },
		"linear wraps":  func(i int) int64 { return base + int64(i)*step },
		"random":        func(i int) int64 { return int64(rng.Uint64()) },
		"any width":     func(i int) int64 { return int64(rng.Uint64()) >> rng.IntN(64) },
		"factor":        func(i int) int64 { return base + factor*noise(12) },
		"factor walk":   func(i int) int64 { x += factor * noise(6); return x },
		"outliers": func(i int) int64 {
			if rng.IntN(40) == 0 {
				return int64(rng.Uint64())
			}
			return noise(5)
		},
		"outliers both": func(i int) int64 {
			if rng.IntN(30) == 0 {
				return noise(40)
			}
			return 1000 + noise(3)
		},
		"walk outliers": func(i int) int64 {
			x += noise(4)
			if rng.IntN(50) == 0 {
				return x + noise(50)
			}
			return x
		},
		"trend":        func(i int) int64 { return base + int64(i)*(step>>16) + noise(9) },
		"steep trend":  func(i int) int64 { return int64(i)*(1<<48) + noise(30) },
		"duplicates":   func(i int) int64 { return epoch + int64(i/3)*1e9 },
		"long runs":    func(i int) int64 { return int64(i/40) * 12345678901 },
		"late change":  func(i int) int64 { return int64(i / (MaxValues - 1)) },
		"bit":          func(i int) int64 { return int64(rng.IntN(2)) },
		"rare bit":     func(i int) int64 { return int64(rng.IntN(70) / 69) },
		"small tails":  func(i int) int64 { return int64(rng.ExpFloat64() * rng.ExpFloat64() * rng.ExpFloat64()) },
		"near 1<<60":   func(i int) int64 { return 1<<60 + noise(2) },
		"bursts":       func(i int) int64 { return rng.Int64N(1 << (i / 50 % 4 * 5)) },
		"exponentials": func(i int) int64 { return 1 << (i % 63) },
	}
}

func TestIntegersRoundTrip(t *testing.T) {
	rng := seeded(testseed.Of(t))
	seen := map[string]int{}
	for _, n := range lengths() {
		for name, at := range sorted(hostileInts(rng)) {
			v := make([]int64, n)
			for i := range v {
				v[i] = at(i)
			}
			block := roundTrip(t, name, v, AppendIntegers, DecodeIntegers, same)
			seen[formOf(block).name]++
			if len(block) > 1+8*n && n > 1 || len(block) > 11 && n == 1 {
				t.Errorf("%s n=%d: %d bytes", name, n, len(block))
			}
			roundTrip(t, name, v, AppendTimes, DecodeTimes, same)
			roundTrip(t, name, words(v), AppendUnsigneds, DecodeUnsigneds, same)
		}
	}
	for _, enc := range []string{"raw", "const", "linear", "runs", "packed", "simple8b"} {
		if seen[enc] == 0 {
			t.Errorf("no block was %s: %v", enc, seen)
		}
	}
}

func TestDataSetsRoundTrip(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 17, 64, 100, 1000, 5000, MaxValues} {
		for _, set := range slices.Concat(timeSets, intSets) {
			roundTrip(t, set.name, set.make(seeded(3), n), AppendIntegers, DecodeIntegers, same)
		}
		for _, set := range floatSets {
			roundTrip(t, set.name, set.make(seeded(3), n), AppendFloats, DecodeFloats, sameBits)
		}
		for _, set := range stringSets {
			roundTrip(t, set.name, set.make(seeded(3), n), AppendStrings, DecodeStrings, same)
		}
	}
}

func hostileFloats(rng *rand.Rand) map[string]func(i int) float64 {
	odd := []float64{
		math.NaN(), math.Float64frombits(0x7ff0000000000001), math.Float64frombits(0xfff8dead00000000),
		math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64,
		math.MaxFloat64, -math.MaxFloat64, math.Float64frombits(0x000fffffffffffff), 1 << 51, -1 << 51, 1<<51 + 0.5, 1 << 53, 1 << 63, -1 << 63,
	}
	decimals := rng.IntN(12)
	p := math.Pow10(decimals)
	constant := odd[rng.IntN(len(odd))]
	x := rng.Float64()
	return map[string]func(i int) float64{
		"odd":            func(i int) float64 { return odd[rng.IntN(len(odd))] },
		"odd const":      func(i int) float64 { return constant },
		"odd runs":       func(i int) float64 { return odd[i/40%len(odd)] },
		"any bits":       func(i int) float64 { return math.Float64frombits(rng.Uint64()) },
		"decimals":       func(i int) float64 { return float64(rng.Int64N(1e7)-5e6) / p },
		"third":          func(i int) float64 { return 1.0 / 3 },
		"-0":             func(i int) float64 { return math.Copysign(0, -1) },
		"zeros":          func(i int) float64 { return math.Copysign(0, float64(rng.IntN(2))-.5) },
		"15 digits":      func(i int) float64 { return float64(rng.Int64N(1e15)) / 1e9 },
		"big integers":   func(i int) float64 { return float64(rng.Int64()) },
		"denormals":      func(i int) float64 { return math.Float64frombits(rng.Uint64() >> 12) },
		"walk":           func(i int) float64 { x += rng.NormFloat64(); return x },
		"sparse thirds":  func(i int) float64 { return float64(i/20) / 3 },
		"toggle":         func(i int) float64 { return []float64{1.0 / 3, 2.0 / 3}[i&1] },
		"few":            func(i int) float64 { return float64(rng.IntN(1+rng.IntN(7))) / 7 },
		"float32":        func(i int) float64 { return float64(float32(rng.NormFloat64())) },
		"wide":           func(i int) float64 { return math.Exp(rng.NormFloat64() * 100) },
		"decimals + odd": func(i int) float64 { return pick(rng, odd, float64(rng.Int64N(1e5))/100) },
		"thirds + odd":   func(i int) float64 { return pick(rng, odd, float64(rng.Int64N(1e5)+1e5)/3) },
		"first odd":      func(i int) float64 { return []float64{math.NaN(), float64(i) / 10}[min(i, 1)] },
	}
}

// pick returns x, or one time in forty one of odd.
func pick(rng *rand.Rand, odd []float64, x float64) float64 {
	if rng.IntN(40) == 0 {
		return odd[rng.IntN(len(odd))]
	}
	return x
}

func TestFloatsRoundTrip(t *testing.T) {
	rng := seeded(testseed.Of(t))
	seen, noNaN := map[string]int{}, 0
	for _, n := range lengths() {
		for name, at := range sorted(hostileFloats(rng)) {
			v := make([]float64, n)
			for i := range v {
				v[i] = at(i)
			}
			block := roundTrip(t, name, v, AppendFloats, DecodeFloats, sameBits)
			seen[formOf(block).name]++
			if NoNaN(block) {
				noNaN++
				if slices.ContainsFunc(v, math.IsNaN) {
					t.Errorf("%s n=%d: a NaN in a block without", name, n)
				}
			}
			if dense, ok, _ := AppendDense(nil, block, n, Floats); ok {
				seen[formOf(dense).name]++
			}
			if len(block) > 1+8*n {
				t.Errorf("%s n=%d: %d bytes", name, n, len(block))
			}
			// The forms that the choice passes over must hold as well.
			w := words(v)
			if b, ok := appendGorilla(nil, w, 16+10*n); !ok {
				t.Errorf("%s n=%d: no gorilla block", name, n)
			} else if got, err := DecodeFloats(nil, slices.Clip(b), n); err != nil || !slices.EqualFunc(got, v, sameBits) {
				t.Errorf("%s n=%d: gorilla: %v", name, n, err)
			}
			few := v[:min(n, maxFloatDict)]
			if got, err := DecodeFloats(nil, appendFloatDict(nil, few), len(few)); err != nil || !slices.EqualFunc(got, few, sameBits) {
				t.Errorf("%s n=%d: dictionary: %v", name, n, err)
			}
			c := chooseSplit(w)
			b := appendSplit(nil, w, &c)
			if got, err := DecodeFloats(nil, slices.Clip(b), n); err != nil || !slices.EqualFunc(got, v, sameBits) {
				t.Errorf("%s n=%d: alp-rd: %v", name, n, err)
			}
			b = appendQuotientsOf(nil, w, 1+int64(n))
			if got, err := DecodeFloats(nil, slices.Clip(b), n); err != nil || !slices.EqualFunc(got, v, sameBits) {
				t.Errorf("%s n=%d: quotients: %v", name, n, err)
			}
		}
	}
	if noNaN == 0 {
		t.Error("no block is known to have no NaN")
	}
	for _, enc := range []string{"raw", "const", "runs", "packed", "gorilla", "alp", "alp-rd", "quotient"} {
		if seen[enc] == 0 {
			t.Errorf("no block was %s: %v", enc, seen)
		}
	}
}

func TestBooleansRoundTrip(t *testing.T) {
	rng := seeded(testseed.Of(t))
	for _, n := range lengths() {
		for _, every := range []int{1, 2, 3, 10, 50, 1000, 1 << 30} {
			v := make([]bool, n)
			x := rng.IntN(2) == 0
			for i := range v {
				if rng.IntN(every) == 0 {
					x = !x
				}
				v[i] = x
			}
			block := roundTrip(t, "booleans", v, AppendBooleans, DecodeBooleans, same)
			if len(block) > max(2, 1+packedLen(n, 1)) {
				t.Errorf("n=%d: %d bytes", n, len(block))
			}
		}
	}
}

func TestStringsRoundTrip(t *testing.T) {
	rng := seeded(testseed.Of(t))
	seen := map[string]int{}
	for _, n := range lengths() {
		for name, at := range sorted(map[string]func(i int) string{
			"empty":       func(i int) string { return "" },
			"same":        func(i int) string { return "same" },
			"one differs": func(i int) string { return []string{"", "x"}[i/(MaxValues/2)] },
			"few":         func(i int) string { return []string{"", "a", "\x00", "a\xff", "longer text"}[rng.IntN(5)] },
			"distinct":    func(i int) string { return string(rune('a' + i)) },
			"random":      func(i int) string { return string(randomBytes(rng, rng.IntN(40))) },
			"one long":    func(i int) string { return string(make([]byte, i%2*100)) },
			"repeats":     func(i int) string { return string(make([]byte, 64+i%7)) },
		}) {
			v := texts(n, at)
			block := roundTrip(t, name, v, AppendStrings, DecodeStrings, same)
			seen[formOf(block).name]++
			got, _ := DecodeStrings(nil, block, n)
			clear(block)
			if !slices.Equal(got, v) {
				t.Fatalf("%s n=%d: values alias the block", name, n)
			}
		}
	}
	for _, enc := range []string{"raw", "const", "dict", "snappy"} {
		if seen[enc] == 0 {
			t.Errorf("no block was %s: %v", enc, seen)
		}
	}
}

func randomBytes(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint64())
	}
	return b
}

// TestStringsShareOneAllocation: a block of many strings costs the backing
// bytes and the slice, not an allocation per value.
func TestStringsShareOneAllocation(t *testing.T) {
	v := stringSets[3].make(seeded(1), 1000)
	block := AppendStrings(nil, v)
	dst := make([]string, 0, len(v))
	if got := testing.AllocsPerRun(20, func() {
		if _, err := DecodeStrings(dst, block, len(v)); err != nil {
			t.Fatal(err)
		}
	}); got > 2 {
		t.Errorf("%v allocations", got)
	}
	out, _ := DecodeStrings(nil, block, len(v))
	if d := uintptr(unsafe.Pointer(unsafe.StringData(out[1]))) - uintptr(unsafe.Pointer(unsafe.StringData(out[0]))); d != 32 {
		t.Errorf("values lie %d apart", d)
	}
}

func TestTinyBlocks(t *testing.T) {
	for _, c := range []struct {
		what  string
		block []byte
		most  int
	}{
		{"integer 1", AppendIntegers(nil, []int64{1}), 2},
		{"integer -300", AppendIntegers(nil, []int64{-300}), 3},
		{"time", AppendTimes(nil, []int64{epoch}), 10},
		{"float 0", AppendFloats(nil, []float64{0}), 1},
		{"float 1", AppendFloats(nil, []float64{1}), 3},
		{"float 12.34", AppendFloats(nil, []float64{12.34}), 6},
		{"float 1/3", AppendFloats(nil, []float64{1.0 / 3}), 9},
		{"true", AppendBooleans(nil, []bool{true}), 2},
		{"string", AppendStrings(nil, []string{"ok"}), 3},
	} {
		if len(c.block) > c.most {
			t.Errorf("%s: %d bytes, want at most %d", c.what, len(c.block), c.most)
		}
	}
}
