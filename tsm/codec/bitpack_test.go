package codec

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestPackedRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	counts := []int{1000, 1024, MaxValues}
	for n := 1; n <= 130; n++ {
		counts = append(counts, n)
	}
	for w := uint(0); w <= 64; w++ {
		for _, n := range counts {
			v := make([]uint64, n)
			for i := range v {
				if w > 0 {
					v[i] = rng.Uint64() >> (64 - w)
				}
			}
			b := appendPacked([]byte{7}, v, w)
			if b[0] != 7 || len(b) != 1+packedLen(n, w) {
				t.Fatalf("w %d n %d: %d bytes", w, n, len(b))
			}
			got := make([]uint64, n)
			unpack(got, slices.Clip(b[1:]), w)
			if !slices.Equal(got, v) {
				t.Fatalf("w %d n %d: values differ", w, n)
			}
		}
	}
}

// TestPackedLayout holds the layout to its definition, bit by bit.
func TestPackedLayout(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for w := uint(1); w <= 64; w++ {
		v := make([]uint64, 37)
		for i := range v {
			v[i] = rng.Uint64() >> (64 - w)
		}
		b := appendPacked(nil, v, w)
		for i, x := range v {
			for k := range w {
				at := uint(i)*w + k
				if b[at/8]>>(at%8)&1 != byte(x>>k&1) {
					t.Fatalf("w %d: bit %d of value %d", w, k, i)
				}
			}
		}
		if pad := uint(len(b))*8 - 37*w; pad > 7 || b[len(b)-1]>>(8-pad) != 0 {
			t.Errorf("w %d: padding", w)
		}
	}
}

func BenchmarkUnpack(b *testing.B) {
	for _, w := range []uint{1, 3, 7, 10, 13, 33, 52, 57, 60} {
		v := make([]uint64, 1000)
		for i := range v {
			v[i] = uint64(i) * 0x9E3779B97F4A7C15 >> (64 - w)
		}
		src := appendPacked(nil, v, w)
		b.Run(fmt.Sprintf("pack/w%d", w), func(b *testing.B) {
			for b.Loop() {
				src = appendPacked(src[:0], v, w)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/value")
		})
		b.Run(fmt.Sprintf("unpack/w%d", w), func(b *testing.B) {
			for b.Loop() {
				unpack(v, src, w)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/value")
		})
	}
}
