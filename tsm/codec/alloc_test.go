package codec

import (
	"slices"
	"sync"
	"testing"
)

// TestSteadyStateAllocation: with room in dst, neither direction allocates,
// except for the backing bytes of strings.
func TestSteadyStateAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("pools drop items under the race detector")
	}
	const n = 1000
	check := func(name string, most float64, f func()) {
		t.Helper()
		// A collection in between may empty the pools: allow a fraction.
		if got := testing.AllocsPerRun(200, f); got > most {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
	dst := make([]byte, 0, 200*n)
	var ints [n]int64
	var doubles [n]float64
	var text [n]string
	for _, set := range slices.Concat(timeSets, intSets) {
		v := set.make(seeded(1), n)
		check("encode "+set.name, 0, func() { AppendIntegers(dst, v) })
		block := AppendIntegers(nil, v)
		check("decode "+set.name, 0, func() { DecodeIntegers(ints[:0], block, n) })
	}
	for _, set := range floatSets {
		v := set.make(seeded(1), n)
		check("encode "+set.name, 0, func() { AppendFloats(dst, v) })
		block := AppendFloats(nil, v)
		check("decode "+set.name, 0, func() { DecodeFloats(doubles[:0], block, n) })
	}
	for _, set := range stringSets {
		v := set.make(seeded(1), n)
		check("encode "+set.name, 0, func() { AppendStrings(dst, v) })
		block := AppendStrings(nil, v)
		// Text, and the dictionary.
		check("decode "+set.name, 2, func() { DecodeStrings(text[:0], block, n) })
	}
}

// TestConcurrentUse shares nothing but the pools between goroutines.
func TestConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			for i := range uint64(20) {
				for _, set := range floatSets {
					v := set.make(seeded(g*100+i), 300)
					got, err := DecodeFloats(nil, AppendFloats(nil, v), len(v))
					if err != nil || !slices.EqualFunc(got, v, sameBits) {
						t.Errorf("%s: %v", set.name, err)
					}
				}
				for _, set := range intSets {
					v := set.make(seeded(g*100+i), 300)
					got, err := DecodeIntegers(nil, AppendIntegers(nil, v), len(v))
					if err != nil || !slices.Equal(got, v) {
						t.Errorf("%s: %v", set.name, err)
					}
				}
				for _, set := range stringSets {
					v := set.make(seeded(g*100+i), 300)
					got, err := DecodeStrings(nil, AppendStrings(nil, v), len(v))
					if err != nil || !slices.Equal(got, v) {
						t.Errorf("%s: %v", set.name, err)
					}
				}
			}
		})
	}
	wg.Wait()
}
