package codec

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
)

// sampleBlock is a block with its count and a decoder that reports only the
// number of values and the error.
type sampleBlock struct {
	name   string
	block  []byte
	n      int
	decode func(block []byte, n int) (int, error)
	kind   Kind
}

func countOf[T any](dec func([]T, []byte, int) ([]T, error)) func([]byte, int) (int, error) {
	return func(block []byte, n int) (int, error) {
		v, err := dec(nil, block, n)
		return len(v), err
	}
}

var (
	decodeTimesCount    = countOf(DecodeTimes)
	decodeFloatsCount   = countOf(DecodeFloats)
	decodeIntegersCount = countOf(DecodeIntegers)
	decodeBooleansCount = countOf(DecodeBooleans)
	decodeStringsCount  = countOf(DecodeStrings)
)

// sampleBlocks returns blocks of every encoding of every type.
func sampleBlocks() (out []sampleBlock) {
	for _, n := range []int{1, 3, 70, 300} {
		for _, set := range timeSets {
			out = append(out, sampleBlock{set.name, AppendTimes(nil, set.make(seeded(1), n)), n, decodeTimesCount, Integers})
		}
		for _, set := range intSets {
			out = append(out, sampleBlock{"int " + set.name, AppendIntegers(nil, set.make(seeded(1), n)), n, decodeIntegersCount, Integers})
		}
		for _, set := range floatSets {
			v := set.make(seeded(1), n)
			out = append(out, sampleBlock{set.name, AppendFloats(nil, v), n, decodeFloatsCount, Floats})
			b, _ := appendGorilla(nil, words(v), 16+10*n)
			out = append(out, sampleBlock{"gorilla " + set.name, b, n, decodeFloatsCount, Floats})
			out = append(out, sampleBlock{"quotients " + set.name, appendQuotientsOf(nil, words(v), 1000), n, decodeFloatsCount, Floats})
			few := v[:min(n, maxFloatDict)]
			out = append(out, sampleBlock{"dictionary of " + set.name, appendFloatDict(nil, few), len(few), decodeFloatsCount, Floats})
		}
		for _, set := range stringSets {
			out = append(out, sampleBlock{set.name, AppendStrings(nil, set.make(seeded(1), n)), n, decodeStringsCount, Strings})
		}
		alternating, rare := make([]bool, n), make([]bool, n)
		for i := range n {
			alternating[i], rare[i] = i%2 == 0, i/60%2 == 1
		}
		out = append(out, sampleBlock{"alternating", AppendBooleans(nil, alternating), n, decodeBooleansCount, Booleans},
			sampleBlock{"rare", AppendBooleans(nil, rare), n, decodeBooleansCount, Booleans})
	}
	for _, s := range out {
		if dense, ok, err := AppendDense(nil, s.block, s.n, s.kind); ok && err == nil {
			s.name, s.block = "dense "+s.name, dense
			out = append(out, s)
		}
	}
	return out
}

// checkDamaged checks that an error is a *binio.CorruptError and came without
// values, and that there is one if mustFail.
func checkDamaged(t *testing.T, s sampleBlock, what string, block []byte, n int, mustFail bool) {
	t.Helper()
	// A slice without capacity beyond its end, so that reading behind it
	// cannot go unseen under the race detector's pointer checks.
	got, err := s.decode(slices.Clip(slices.Clone(block)), n)
	switch {
	case err == nil && mustFail:
		t.Errorf("%s (%s) n=%d, %s: decoded", s.name, formOf(s.block).name, s.n, what)
	case err == nil && got != n:
		t.Errorf("%s n=%d, %s: %d values", s.name, s.n, what, got)
	case err != nil:
		var c *binio.CorruptError
		if !errors.As(err, &c) || !errors.Is(err, binio.ErrCorrupt) {
			t.Errorf("%s n=%d, %s: %v is no corruption", s.name, s.n, what, err)
		}
		if got != 0 {
			t.Errorf("%s n=%d, %s: %d values beside the error", s.name, s.n, what, got)
		}
	}
}

func TestTruncatedBlocks(t *testing.T) {
	for _, s := range sampleBlocks() {
		enc := s.block[0]
		for cut := range s.block {
			// Text and the constant of a float end where the block ends.
			lenient := enc == encConst && cut > 0
			checkDamaged(t, s, "truncated", s.block[:cut], s.n, !lenient)
		}
		checkDamaged(t, s, "followed by a byte", append(slices.Clone(s.block), 0), s.n, enc != encConst)
	}
}

func TestWrongCounts(t *testing.T) {
	for _, s := range sampleBlocks() {
		for _, n := range []int{-1, 0, MaxValues + 1, math.MaxInt} {
			checkDamaged(t, s, "count out of range", s.block, n, true)
		}
		for _, n := range []int{1, 2, s.n - 1, s.n + 1, s.n + 64, MaxValues} {
			if n > 0 && n != s.n {
				checkDamaged(t, s, "other count", s.block, n, false)
			}
		}
	}
}

func TestFlippedBits(t *testing.T) {
	rng := seeded(testseed.Of(t))
	for _, s := range sampleBlocks() {
		block := slices.Clone(s.block)
		// Every bit of the header, some of the rest, and bursts.
		for bit := range min(len(block), 24) * 8 {
			block[bit/8] ^= 1 << (bit % 8)
			checkDamaged(t, s, "bit flipped", block, s.n, false)
			block[bit/8] ^= 1 << (bit % 8)
		}
		for range 100 {
			copy(block, s.block)
			for range 1 + rng.IntN(8) {
				block[rng.IntN(len(block))] = byte(rng.Uint64())
			}
			checkDamaged(t, s, "bytes replaced", block, s.n, false)
		}
	}
}

// TestDecodeAllocation: a block that claims to be huge costs no more than the
// values asked for and the block's own length.
func TestDecodeAllocation(t *testing.T) {
	snappyBomb := []byte{encSnappy, 2, encConst, 2, 0xff, 0xff, 0xff, 0xff, 0x0f, 0}
	if _, err := DecodeStrings(nil, snappyBomb, 1); err == nil {
		t.Error("a Snappy length of 4 GiB was believed")
	}
	var before, after runtime.MemStats
	rng := seeded(testseed.Of(t))
	for _, s := range sampleBlocks() {
		block := slices.Clone(s.block)
		// The header is where sizes stand.
		for range 8 {
			copy(block, s.block)
			for range 3 {
				block[rng.IntN(min(len(block), 12))] = 0xff
			}
			block[0] = s.block[0]
			runtime.ReadMemStats(&before)
			s.decode(block, MaxValues)
			runtime.ReadMemStats(&after)
			// Scratch space, values of up to 16 bytes, text.
			if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20+64*uint64(len(block)) {
				t.Fatalf("%s: %d bytes allocated for a block of %d", s.name, got, len(block))
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range sampleBlocks() {
		if s.n <= 70 {
			f.Add(s.block, s.n)
		}
	}
	f.Fuzz(func(t *testing.T, block []byte, n int) {
		block = slices.Clip(slices.Clone(block))
		for _, dec := range []func([]byte, int) (int, error){decodeTimesCount, decodeFloatsCount, decodeIntegersCount, countOf(DecodeUnsigneds), decodeBooleansCount, decodeStringsCount} {
			s := sampleBlock{name: "fuzz", block: append(block, 0), n: n, decode: dec}
			checkDamaged(t, s, "fuzz", block, n, n < 1 || n > MaxValues || len(block) == 0)
		}
		for kind := range Strings + 1 {
			EncodingName(block, n, kind)
		}
		if dense, ok, err := AppendDense(nil, block, n, Integers); ok {
			was, _ := DecodeUnsigneds(nil, block, n)
			if now, nerr := DecodeUnsigneds(nil, dense, n); err != nil || nerr != nil || !slices.Equal(was, now) {
				t.Errorf("dense form gives other values (%v, %v)", err, nerr)
			}
		}
		if dense, ok, err := AppendDense(nil, block, n, Floats); ok {
			// Exceptions of decimals that cannot be read are seen by the decoder.
			was, werr := DecodeFloats(nil, block, n)
			if now, nerr := DecodeFloats(nil, dense, n); err != nil || werr == nil && (nerr != nil || !slices.EqualFunc(was, now, sameBits)) {
				t.Errorf("dense form gives other doubles (%v, %v)", err, nerr)
			}
		}
	})
}

// FuzzRoundTrip reads its input as words, flags and text in turn.
func FuzzRoundTrip(f *testing.F) {
	for _, set := range floatSets {
		var b []byte
		for _, x := range words(set.make(seeded(1), 70)) {
			for k := range 8 {
				b = append(b, byte(x>>(8*k)))
			}
		}
		f.Add(b, uint8(0))
	}
	for _, set := range append(timeSets[:len(timeSets):len(timeSets)], intSets...) {
		var b []byte
		for _, x := range words(set.make(seeded(1), 70)) {
			for k := range 8 {
				b = append(b, byte(x>>(8*k)))
			}
		}
		f.Add(b, uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, shift uint8) {
		if len(b) < 8 || len(b) > 8*MaxValues {
			return
		}
		v := make([]int64, len(b)/8)
		for i := range v {
			for k := range 8 {
				v[i] |= int64(b[8*i+k]) << (8 * k)
			}
			v[i] >>= shift % 64
		}
		roundTrip(t, "integers", v, AppendIntegers, DecodeIntegers, same)
		roundTrip(t, "unsigneds", words(v), AppendUnsigneds, DecodeUnsigneds, same)
		roundTrip(t, "floats", floats(words(v)), AppendFloats, DecodeFloats, sameBits)
		decimals := make([]float64, len(v))
		flags := make([]bool, len(v))
		for i, x := range v {
			decimals[i], flags[i] = float64(x)/float10[shift%16], x&1 != 0
		}
		roundTrip(t, "decimals", decimals, AppendFloats, DecodeFloats, sameBits)
		roundTrip(t, "booleans", flags, AppendBooleans, DecodeBooleans, same)
		var text []string
		for rest := b; len(rest) > 0; {
			l := min(int(rest[0])%9, len(rest)-1)
			text, rest = append(text, string(rest[1:1+l])), rest[1+l:]
			if len(text) == MaxValues {
				break
			}
		}
		roundTrip(t, "strings", text, AppendStrings, DecodeStrings, same)
		c := chooseSplit(words(v))
		split := appendSplit(nil, words(v), &c)
		if got, err := DecodeFloats(nil, split, len(v)); err != nil || !slices.EqualFunc(got, floats(words(v)), sameBits) {
			t.Errorf("alp-rd: %v", err)
		}
		quotients := appendQuotientsOf(nil, words(v), 1+int64(shift))
		if got, err := DecodeFloats(nil, quotients, len(v)); err != nil || !slices.EqualFunc(got, floats(words(v)), sameBits) {
			t.Errorf("quotients: %v", err)
		}
		if block, ok := appendGorilla(nil, words(v), 16+10*len(v)); !ok {
			t.Error("no gorilla block")
		} else if got, err := DecodeFloats(nil, block, len(v)); err != nil || !slices.EqualFunc(got, floats(words(v)), sameBits) {
			t.Errorf("gorilla: %v", err)
		}
	})
}
