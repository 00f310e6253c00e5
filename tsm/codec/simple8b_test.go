package codec

import (
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

// TestSimple8Runs decodes words for 240 and 120 equal offsets at every place
// among others, also at the end, where there is no room behind them.
func TestSimple8Runs(t *testing.T) {
	rng := seeded(testseed.Of(t))
	for _, mode := range []byte{modePlain, modeDelta, modeRates} {
		for range 300 {
			f := frame{mode: mode, base: rng.Uint64() >> 30, factor: 1 + rng.Uint64N(3)}
			if mode != modePlain {
				f.first, f.rate = rng.Uint64()>>8, rng.Uint64()>>20
			}
			var q []uint64
			for range 1 + rng.IntN(6) {
				if rng.IntN(2) == 0 {
					q = append(q, make([]uint64, []int{119, 120, 240, 360, 1 + rng.IntN(500)}[rng.IntN(5)])...)
					continue
				}
				for w := rng.IntN(60); rng.IntN(40) > 0; {
					q = append(q, rng.Uint64()>>(64-w))
				}
			}
			if len(q) == 0 {
				continue
			}
			block, ok := appendSimple8(nil, &f, q, 9*len(q)+100)
			if !ok {
				t.Fatal("no Simple-8b form")
			}
			want := append(make([]uint64, f.lead()), q...)
			f.restore(want, nil)
			got, err := DecodeUnsigneds(nil, slices.Clip(block), len(want))
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("mode %d, %d offsets: other values (%v)", mode, len(q), err)
			}
		}
	}
}
