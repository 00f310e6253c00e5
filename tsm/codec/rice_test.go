package codec

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

// TestRests reads unary rests bit by bit, and wants the same of readRests.
func TestRests(t *testing.T) {
	seed := testseed.Of(t)
	rng := rand.New(rand.NewPCG(seed, 12))
	read := 0
	for range 20000 {
		rests := make([]byte, rng.IntN(60))
		for ones := rng.IntN(8*len(rests) + 1); ones > 0; ones-- {
			bit := rng.IntN(8 * len(rests))
			rests[bit/8] |= 1 << (bit % 8)
		}
		var want []byte
		zeros, ok := byte(0), len(rests) > 0 && rests[len(rests)-1] != 0
		for i, b := range rests {
			for bit := range 8 {
				if zeros++; b>>bit&1 == 1 {
					want = append(want, zeros-1)
					zeros = 0
				}
			}
			if i%8 == 7 && bytes.Equal(rests[i-7:i+1], make([]byte, 8)) {
				ok = false
			}
		}
		var got [MaxValues + restRoom]byte
		if readRests(&got, len(want), rests) != ok || ok && !slices.Equal(got[:len(want)], want) {
			t.Fatalf("seed %d: rests % x are %d, want %d, %t", seed, rests, got[:len(want)], want, ok)
		}
		if readRests(&got, len(want)+1, rests) || len(want) > 0 && readRests(&got, len(want)-1, rests) {
			t.Fatalf("seed %d: % x read as one more or less than %d rests", seed, rests, len(want))
		}
		if ok {
			read++
		}
	}
	if read < 1000 {
		t.Fatalf("only %d blocks of rests without damage", read)
	}
}
