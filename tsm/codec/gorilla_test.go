package codec

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"github.com/dgryski/go-tsz"

	"tsdbd/internal/testkit/testseed"
)

// bitList is a stream of bits, most significant first, for tests.
type bitList struct {
	b   []byte
	pos int
}

func (l *bitList) read(n int) (u uint64) {
	for range n {
		u = u<<1 | uint64(l.b[l.pos/8]>>(7-l.pos%8)&1)
		l.pos++
	}
	return u
}

func (l *bitList) write(u uint64, n int) {
	for n--; n >= 0; n-- {
		if l.pos%8 == 0 {
			l.b = append(l.b, 0)
		}
		l.b[l.pos/8] |= byte(u>>n&1) << (7 - l.pos%8)
		l.pos++
	}
}

// valueBits reads a go-tsz stream of n points and returns it without the bits
// of the timestamps.
func valueBits(stream []byte, n int) []byte {
	in := bitList{b: stream}
	var out bitList
	pass := func(bits int) uint64 {
		u := in.read(bits)
		out.write(u, bits)
		return u
	}
	in.read(32 + 14) // first time, first delta
	pass(64)
	var length int
	for range n - 1 {
		ones := 0
		for ones < 4 && in.read(1) == 1 {
			ones++
		}
		in.read([]int{0, 7, 9, 12, 32}[ones])
		if pass(1) == 0 {
			continue
		}
		if pass(1) == 1 {
			pass(5)
			if length = int(pass(6)); length == 0 {
				length = 64
			}
		}
		pass(length)
	}
	return out.b
}

// TestGorillaIsGoTSZ compares our value stream bit for bit with the reference.
func TestGorillaIsGoTSZ(t *testing.T) {
	rng := seeded(testseed.Of(t))
	check := func(name string, v []float64) {
		t.Helper()
		s := tsz.New(1000)
		at := uint32(1000 + rng.IntN(1000))
		for _, x := range v {
			s.Push(at, x)
			at += uint32(rng.IntN(1 << rng.IntN(13)))
		}
		s.Finish()
		// The module's iterator shifts its input; our reader does not, but
		// the stream is the module's own.
		want := valueBits(bytes.Clone(s.Bytes()), len(v))
		got, ok := appendGorilla(nil, words(v), 16+10*len(v))
		if !ok || got[0] != encXOR || !bytes.Equal(got[1:], want) {
			t.Fatalf("%s n=%d: stream differs from go-tsz", name, len(v))
		}
	}
	for _, n := range []int{1, 2, 3, 10, 65, 500, 2000} {
		for _, set := range floatSets {
			check(set.name, set.make(seeded(uint64(n)), n))
		}
		for name, at := range sorted(hostileFloats(rng)) {
			v := make([]float64, n)
			for i := range v {
				v[i] = at(i)
			}
			check(name, v)
		}
	}
}

// TestGorillaTails walks streams that end at every bit of the last bytes, where
// the decoder changes to its copy.
func TestGorillaTails(t *testing.T) {
	rng := seeded(testseed.Of(t))
	for n := 2; n < 400; n++ {
		v := make([]float64, n)
		x := 1.0
		for i := range v {
			if rng.IntN(12) == 0 {
				x = math.Float64frombits(rng.Uint64() << rng.IntN(60) >> rng.IntN(60))
			}
			v[i] = x
		}
		block, _ := appendGorilla(nil, words(v), 16+10*n)
		got, err := DecodeFloats(nil, slices.Clip(block), n)
		if err != nil || !slices.EqualFunc(got, v, sameBits) {
			t.Fatalf("n=%d: %v", n, err)
		}
	}
}
