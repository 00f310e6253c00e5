package codec

import (
	"slices"
	"testing"
)

// modeOf returns the mode of a frame, -1 for other blocks.
func modeOf(block []byte) int {
	switch block[0] {
	case encPacked, encSimple8, encRice:
		return int(block[1] & modeMask)
	}
	return -1
}

// TestRates holds packed delta-of-delta to what it is for: series whose rate drifts.
// Series that jitter about a line keep the trend.
func TestRates(t *testing.T) {
	rng := seeded(1)
	for _, c := range []struct {
		name string
		v    []int64
		mode int
		most int // bytes
	}{
		{"counter with a drifting rate", drifting(rng, 1024, 1e9, 5000, 3), modeRates, 406},
		{"accelerating counter", grid(1024, func(i int) int64 { return 3*int64(i)*int64(i) - epoch }), modeRates, 20},
		{"drifting clock", drifting(rng, 1024, epoch, 10e9, 128), modeRates, 1045},
		{"short, accelerating", grid(20, func(i int) int64 { return 3*int64(i)*int64(i) - epoch }), modeRates, 20},
		{"jitter about a grid", grid(1024, func(i int) int64 { return int64(i)*10e9 + rng.Int64N(1e6) }), modeTrend, 2700},
		{"steady counter", grid(1024, func(i int) int64 { return int64(i)*1000 + rng.Int64N(100) - epoch }), modeTrend, 910},
	} {
		block := appendPlainWords(nil, words(c.v), smallest)
		if modeOf(block) != c.mode || len(block) > c.most {
			t.Errorf("%s: %s of mode %d and %d bytes, want mode %d and at most %d bytes", c.name, formOf(block).name, modeOf(block), len(block), c.mode, c.most)
		}
		got, err := DecodeIntegers(nil, block, len(c.v))
		if err != nil || !slices.Equal(got, c.v) {
			t.Errorf("%s: decodes to other values (%v)", c.name, err)
		}
	}
}
